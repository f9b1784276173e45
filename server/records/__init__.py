"""The files of a run: its folder, checkpoints, history, summary and pictures."""
