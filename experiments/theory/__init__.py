"""Table I, Theorem 1 and Lemmas 1 to 3, checked by numbers.

Others use ``command`` (theory) and ``table1``.
"""
