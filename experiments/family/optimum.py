"""The least training loss of a linear model, by L-BFGS with its gradient: what an excess is counted from."""

from __future__ import annotations

from scipy.optimize import minimize

from zofedht.common.machine.blas import one_thread
from zofedht.common.models.linear import LinearObjective
from zofedht.common.models.losses import LOGISTIC, SQUARED_HINGE
from zofedht.common.objective.base import Objective
from zofedht.common.typing import Vector

__all__ = ["least_loss"]


def least_loss(objective: Objective) -> float | None:
    """Return the least loss of the logistic or the squared hinge loss of a linear model, None for other objectives."""
    if not isinstance(objective, LinearObjective) or objective.loss not in (LOGISTIC, SQUARED_HINGE):
        return None

    def both(x: Vector) -> tuple[float, Vector]:
        return objective.value_and_gradient(x, slice(None))

    options = {"maxiter": 5000, "maxfun": 20_000, "ftol": 1e-12, "gtol": 1e-9}
    with one_thread():
        return float(minimize(both, objective.zeros(), jac=True, method="L-BFGS-B", options=options).fun)
