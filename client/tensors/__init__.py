"""Slots of work on parameters that are changed in place: a client's memory holds them once.

Others use ``worker`` (PlaceWorker), ``held`` (Households: the parameters of a process, where on the trail they are) and
``place_steps`` (the local steps of a slot: when the objective is told to add what).
"""
