"""Slots of work on parameters that are changed in place: a client's memory holds them once.

Others use ``worker`` (PlaceWorker) and ``held`` (Households: the parameters of a process, where on the trail they are).
"""
