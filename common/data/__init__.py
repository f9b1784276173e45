"""Data sets: which one, its labels, its preprocessing and its parts. ``files`` beside it reads the files.

Others use ``loading`` (load_dataset, load_rows), ``own_rows`` (a client's own file, and rows in memory), ``dataset``
(Dataset), ``named_sets`` (NAMED_SETS), ``partition`` (split: which rows go to which client), ``labels`` (which are
positive), ``standard`` (the sums of columns) and ``about`` (what was read).
"""
