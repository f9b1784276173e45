"""Figures, tables and claims from the folders of a study."""
