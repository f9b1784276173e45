"""``fleet.minimize``: CMA-ES, L-BFGS-B on differences, and a rule that takes the one or the other.

Others use ``minimize``; ``search``, which is pure; and ``words``, what a search saw and did. A minimizer asks through
``door`` and knows sites by their numbers.
"""
