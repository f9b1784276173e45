"""Rows of the algorithm table on the same draws and evaluations, each at its best step size.

Others use ``grid`` (FamilyGrid: what is compared), ``runs`` (run_family), ``page`` (write_family), ``methods``
(METHODS, and COMPARED: those that are compared by default), ``published`` (rows beside public figures) and ``optimum``
(least_loss of a linear model).
"""
