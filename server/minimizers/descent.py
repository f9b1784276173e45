"""L-BFGS-B on forward differences, asked and told: a gradient is one batch of n + 1 points at all sites.

SciPy's optimiser cannot be stopped and taken up again. So the state is what it was told, and it is told that anew from
the beginning until it asks for what is not known yet.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from zofedht.common.typing import Matrix, Vector
from zofedht.server.cma.search import Found, Problem
from zofedht.server.cma.tables import whole

__all__ = ["Descent", "around", "begun", "learnt"]

_STEP = math.sqrt(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Descent:
    """Where it began, (n,) in search units, and the value and the slopes, (n,), of each point since.

    ``point`` is where the next gradient is wanted, None where no step leads lower.
    """

    start: Vector
    point: Vector | None
    values: tuple[float, ...] = ()
    slopes: tuple[Vector, ...] = ()
    best: Found | None = None  # of the points that all sites have answered

    @property
    def gradients(self) -> int:
        """How many it has taken."""
        return len(self.values)


class _AskedError(Exception):
    """Holds the first point that is not known."""

    def __init__(self, z: Vector) -> None:
        self.z = z.copy()


def begun(start: Vector) -> Descent:
    """Return a descent from here."""
    return Descent(start, start)


def _with_next_point(problem: Problem, descent: Descent) -> Descent:
    """Return the descent with the point at which the next gradient is wanted.

    What SciPy does again takes a fraction of a millisecond for each gradient since the start.
    """
    from scipy.optimize import minimize

    known = iter(zip(descent.values, descent.slopes, strict=True))

    def value_and_slopes(z: Vector) -> tuple[float, Vector]:
        told = next(known, None)
        if told is None:
            raise _AskedError(z)
        return told[0], told[1].copy()

    bounds = list(zip(problem.lower, problem.upper, strict=True))
    options = {"ftol": 0.0, "gtol": 1e-12, "maxiter": 10_000, "maxfun": 100_000}
    try:
        minimize(value_and_slopes, descent.start, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    except _AskedError as asked:
        return replace(descent, point=asked.z)
    return replace(descent, point=None)


def around(problem: Problem, z: Vector) -> tuple[Matrix, Vector]:
    """Return z and a step along each axis, (n + 1, n), and the steps as they are; inward at a bound."""
    steps = _STEP * np.maximum(1.0, np.abs(z))
    steps = np.where(z + steps > problem.upper, -steps, steps)
    points = np.tile(z, (len(z) + 1, 1))
    points[1:] += np.diag(steps)
    points = np.clip(points, problem.lower, problem.upper)
    taken = points[1:].diagonal() - z  # what rounding leaves of a step; 0 where the bounds meet
    return points, np.where(taken == 0.0, np.inf, taken)


def learnt(problem: Problem, descent: Descent, table: Matrix) -> Descent:
    """Return the descent after the answers around its point, (sites, n + 1).

    What is lost is filled in by site and point.
    """
    z = descent.point
    assert z is not None  # else nothing was asked
    best = descent.best
    if not np.any(np.isnan(table[:, 0])):
        mean = float(np.mean(table[:, 0]))
        best = Found(z, mean) if best is None or mean < best.mean else best
    filled, kept, _ = whole(table)
    means = np.full(table.shape[1], np.nan)
    means[kept] = filled.mean(axis=0) if kept.size else np.nan
    slopes = np.nan_to_num((means[1:] - means[0]) / around(problem, z)[1], nan=0.0, posinf=0.0, neginf=0.0)
    value = float(np.nan_to_num(means[0], nan=np.inf))
    after = replace(descent, values=(*descent.values, value), slopes=(*descent.slopes, slopes), best=best)
    return _with_next_point(problem, after)
