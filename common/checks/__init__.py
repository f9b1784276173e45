"""Checks of an objective before a run; ``check`` makes all of them."""
