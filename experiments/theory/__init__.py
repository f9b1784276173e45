"""Table I, Theorem 1 and the lemmas, with the paper's constants and with ours, checked by numbers.

Others use ``command`` (theory) and ``table1``.
"""
