"""``fleet.minimize``: CMA-ES, L-BFGS-B on differences, and a rule that takes the one or the other.

Others use ``minimize``, and ``search``, which is pure. A minimizer asks through ``door`` and knows sites by their
numbers.
"""
