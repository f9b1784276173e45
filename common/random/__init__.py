"""Random numbers by their address (seed, purpose, round, slot), and the compiler of loops.

Others use ``streams`` (stream, and Address: the name of a slot's streams), ``source`` (Source: rows of normals and
signs), ``kernels`` (runs_compiled) and ``jit`` (compiled and its relatives).
"""
