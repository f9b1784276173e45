"""What a person reads of a run: a line a round, and the end in words.

Others use ``progress`` (lines of rounds), ``summary`` (the end of a run) and ``words`` (counts and numbers in words).
"""
