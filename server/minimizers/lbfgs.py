"""L-BFGS-B on forward differences: a gradient is one batch of n + 1 points, asked of all sites."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.optimize import minimize

from zofedht.common.typing import Matrix, Vector
from zofedht.server.cma.search import Problem
from zofedht.server.cma.tables import whole
from zofedht.server.minimizers.door import Door

__all__ = ["descend"]

_STEP = math.sqrt(np.finfo(np.float64).eps)


def descend(door: Door, problem: Problem, start: Vector, counted: Callable[[], object] = lambda: None) -> None:
    """Descend from a point in search units until no step leads lower; ``counted`` hears of each gradient.

    Lost answers are filled in by site and candidate. Raises SpentError or StoppedError.
    """
    gradients = 0

    def value_and_slopes(z: Vector) -> tuple[float, Vector]:
        nonlocal gradients
        points, steps = _around(z, problem)
        table = door.table(points)
        if not np.any(np.isnan(table[:, 0])):
            door.keep(float(np.mean(table[:, 0])), door.to_user(z))
        filled, kept, _ = whole(table)
        means = np.full(len(points), np.nan)
        means[kept] = filled.mean(axis=0) if kept.size else np.nan
        gradients += 1
        counted()
        door.tell(z, gradients)
        slopes = np.nan_to_num((means[1:] - means[0]) / steps, nan=0.0, posinf=0.0, neginf=0.0)
        return float(np.nan_to_num(means[0], nan=np.inf)), slopes

    bounds = list(zip(problem.lower, problem.upper, strict=True))
    options = {"ftol": 0.0, "gtol": 1e-12, "maxiter": 10_000, "maxfun": 100_000}
    minimize(value_and_slopes, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options)


def _around(z: Vector, problem: Problem) -> tuple[Matrix, Vector]:
    """Return z and a step along each axis, (n + 1, n), and the steps as they are; inward at a bound."""
    steps = _STEP * np.maximum(1.0, np.abs(z))
    steps = np.where(z + steps > problem.upper, -steps, steps)
    points = np.tile(z, (len(z) + 1, 1))
    points[1:] += np.diag(steps)
    points = np.clip(points, problem.lower, problem.upper)
    taken = points[1:].diagonal() - z  # what rounding leaves of a step; 0 where the bounds meet
    return points, np.where(taken == 0.0, np.inf, taken)
