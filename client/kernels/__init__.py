"""Compiled loops of the local steps, for the extra ``fast``.

Others use ``steps``: it takes a slot's steps in compiled code where there are loops for its objective.
"""
