"""Runs that compare step-size and subspace-weight ``auto`` with a grid.

Others use ``runs`` (run_auto, write_page).
"""
