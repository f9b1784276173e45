"""Data sets: readers, preprocessing, labels and partitions; ``loading`` joins them."""
