"""Named parameters: what they may be, and the one way between their values and a vector of coordinates.

Others use ``numbers`` (Real, Integer), ``kinds`` (Choice, a row of a table) and ``space`` (Space: all parameters of an
objective).
"""
