"""Named parameters: what they may be, and the one way between their values and a vector of coordinates.

Others use ``kinds`` (Real, Integer, Choice) and ``space`` (Space: all parameters of an objective).
"""
