"""Data sets: readers, preprocessing, labels and partitions.

Others use ``loading`` (load_dataset, load_rows, load_own_rows), ``dataset`` (Dataset), ``named_sets`` (NAMED_SETS) and
``partition`` (split: which rows go to which client).
"""
