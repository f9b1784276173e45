"""Directions v ~ N(0, C_r) and the slopes along them: Algorithm 1, lines 6, 10, 13 and 15, and eq. 9.

Others use ``law`` (DirectionLaw, law_of, slot_directions, subspace_gain: the law of v), ``probes`` (LAWS: the laws of
its parts), ``blocks`` (low rank), ``pool`` (candidates), ``trajectory`` (basis_of: Q) and ``slopes`` (probes, ENDS).
"""
