"""The paper's studies as commands: ``python -m experiments table1 | study | report | auto | theory``."""
