"""The least training loss of a linear model, by L-BFGS with its gradient: what an excess is counted from."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

from zofedht.common.machine.blas import one_thread
from zofedht.common.models.linear import LinearObjective
from zofedht.common.models.losses import LOGISTIC, SQUARED_HINGE, ScoreLoss
from zofedht.common.objective.base import Objective
from zofedht.common.typing import Vector

__all__ = ["least_loss"]


def least_loss(objective: Objective) -> float | None:
    """Return the least loss of the logistic or the squared hinge loss of a linear model, None for other objectives."""
    if not isinstance(objective, LinearObjective) or objective.loss not in (LOGISTIC, SQUARED_HINGE):
        return None
    rows, y, loss, l2 = objective.features, objective.target, objective.loss, objective.l2

    def both(x: Vector) -> tuple[float, Vector]:
        scores = rows @ x
        gradient = rows.T @ _derivative(loss, scores, y) / len(y) + l2 * x
        return float(np.mean(loss.value(scores, y))) + 0.5 * l2 * float(x @ x), gradient

    options = {"maxiter": 5000, "maxfun": 20_000, "ftol": 1e-12, "gtol": 1e-9}
    with one_thread():
        return float(minimize(both, objective.zeros(), jac=True, method="L-BFGS-B", options=options).fun)


def _derivative(loss: ScoreLoss, scores: Vector, y: Vector) -> Vector:
    """Return the derivative of each sample's loss by its score."""
    if loss is LOGISTIC:
        return np.asarray(expit(scores) - y)
    sign = 2.0 * y - 1.0
    return -sign * np.maximum(0.0, 1.0 - sign * scores)
