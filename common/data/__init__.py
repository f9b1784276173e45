"""Data sets: readers, preprocessing, labels and partitions.

Others use ``loading`` (load_dataset, load_rows, load_own_rows, keep_rows), ``dataset`` (Dataset), ``named_sets``
(NAMED_SETS), ``partition`` (split: which rows go to which client), and for a client's own file ``reading`` (FileRules,
RawRows), ``columns`` (their names), ``labels`` (which are positive), ``standard`` (their
sums) and ``about`` (what was read).
"""
