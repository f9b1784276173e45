"""Data sets: which one, its labels, its preprocessing and its parts. ``files`` beside it reads the files.

Others use ``loading`` (load_dataset, load_rows, load_own_rows, keep_rows), ``dataset`` (Dataset), ``named_sets``
(NAMED_SETS), ``partition`` (split: which rows go to which client), and for a client's own file ``labels`` (which are
positive), ``standard`` (the sums of its columns) and ``about`` (what was read).
"""
