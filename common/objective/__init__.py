"""Objectives: the base class, how they are loaded, scaled, asked at points and compared between clients.

Others use ``base`` (Objective, ExactObjective, Shard), ``function`` (a function as an Objective), ``loading``
(load_objective), ``units`` (Units: scale and bounds), ``scaling`` (an objective in search units), ``named`` (an
objective of named parameters), ``negated`` (-F, for maximize), ``names`` and ``parameters`` (what an objective says of
its parameters), ``points`` (evaluate_points, full_evaluation), ``agreement`` (whether two clients train the same),
``stiff`` (the directions along which F bends most) and ``user_traceback`` (the user's own line in an error).
"""
