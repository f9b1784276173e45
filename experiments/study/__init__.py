"""The grid of the paper's section IV: its cells, their runs and their results."""
