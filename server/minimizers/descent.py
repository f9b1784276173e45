"""L-BFGS-B on differences, asked and told: a gradient is one batch of n + 1 points at all sites, later of 2 n + 1.

Differences are forward ones at first. Their error is half a step times the curvature, so in a narrow valley the descent
creeps where that error is as large as the slope. There, and where it ends, central differences take over.

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

_FORWARD, _CENTRAL = (np.finfo(np.float64).eps ** power for power in (1.0 / 2.0, 1.0 / 3.0))
_MEMORY = 100  # pairs of steps and changes of slopes: with the usual 10, a condition of 1e4 takes twice the gradients
_MOST = 300  # gradients until it begins anew: what SciPy does again takes up to 1.5 milliseconds for each of them
_MISS, _MISSES = 2.0, 2  # of the fall that slopes promise, in units of the fall; gradients in a row


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
    last: Vector | None = None  # the point of the last gradient, (n,)
    misses: int = 0  # gradients in a row that contradict the values
    central: bool = False
    last_part: bool = False  # whether it is over when no step leads lower
    earlier: int = 0  # gradients before the descent began anew

    @property
    def gradients(self) -> int:
        """How many it has taken."""
        return self.earlier + len(self.values)


class _AskedError(Exception):
    """Holds the first point that is not known."""

    def __init__(self, z: Vector) -> None:
        self.z = z.copy()


def begun(start: Vector) -> Descent:
    """Return a descent from here."""
    return Descent(start, start)


def around(problem: Problem, descent: Descent) -> Matrix:
    """Return the point and steps along each axis, (points, n): n of them, and n others for central differences."""
    z, sides = _point(descent), _steps(problem, descent)
    return np.vstack([z, *(z + np.diag(steps) for steps in sides)])


def learnt(problem: Problem, descent: Descent, table: Matrix) -> Descent:
    """Return the descent after the answers around its point, (sites, points).

    What is lost is filled in by site and point.
    """
    z, best = _point(descent), descent.best
    if not np.any(np.isnan(table[:, 0])):
        mean = float(np.mean(table[:, 0]))
        best = Found(z, mean) if best is None or mean < best.mean else best
    filled, kept, _ = whole(table)
    means = np.full(table.shape[1], np.nan)
    means[kept] = filled.mean(axis=0) if kept.size else np.nan
    slopes = _slopes(means, _steps(problem, descent))
    value = float(np.nan_to_num(means[0], nan=np.inf))
    misses = descent.misses + 1 if _contradict(descent, z, value, slopes) else 0
    after = replace(
        descent,
        values=(*descent.values, value),
        slopes=(*descent.slopes, slopes),
        best=best,
        last=z,
        misses=misses,
        central=descent.central or misses >= _MISSES,
    )
    if best is not None and len(after.values) >= _MOST:
        return Descent(best.x, best.x, best=best, central=after.central, earlier=after.gradients)
    after = _with_next_point(problem, after)
    if after.point is not None or best is None or descent.last_part:
        return after
    return Descent(best.x, best.x, best=best, central=True, last_part=True, earlier=after.gradients)


def _with_next_point(problem: Problem, descent: Descent) -> Descent:
    """Return the descent with the point at which the next gradient is wanted."""
    from scipy.optimize import minimize

    known = iter(zip(descent.values, descent.slopes, strict=True))

    def value_and_slopes(z: Vector) -> tuple[float, Vector]:
        told = next(known, None)
        if told is None:
            raise _AskedError(z)
        return told[0], told[1].copy()

    bounds = list(zip(problem.lower, problem.upper, strict=True))
    options = {"ftol": 0.0, "gtol": 1e-12, "maxcor": _MEMORY, "maxiter": 10_000, "maxfun": 100_000}
    try:
        minimize(value_and_slopes, descent.start, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    except _AskedError as asked:
        return replace(descent, point=asked.z)
    return replace(descent, point=None)


def _point(descent: Descent) -> Vector:
    assert descent.point is not None  # else nothing is asked
    return descent.point


def _steps(problem: Problem, descent: Descent) -> list[Vector]:
    """Return the steps along each axis as they are, (n,), of central differences two: inward at a bound."""
    z = _point(descent)
    size = (_CENTRAL if descent.central else _FORWARD) * np.maximum(1.0, np.abs(z))
    above, below = z + size > problem.upper, z - size < problem.lower
    steps = [np.where(above, -size, size)]
    if descent.central:
        steps.append(np.where(above, -2.0 * size, np.where(below, 2.0 * size, -size)))
    # What rounding leaves of a step; 0 where the bounds meet.
    return [np.clip(z + step, problem.lower, problem.upper) - z for step in steps]


def _slopes(means: Vector, steps: list[Vector]) -> Vector:
    """Return the slopes of a parabola through the ends, or of a line where one end is all there is; else 0."""
    changes = np.split(means[1:] - means[0], len(steps))
    with np.errstate(divide="ignore", invalid="ignore"):
        lines = [change / step for change, step in zip(changes, steps, strict=True)]
        slopes = lines[0]
        if len(steps) > 1:
            (a, b), (near, far) = steps, lines
            parabola = (b * near - a * far) / (b - a)
            slopes = np.where(np.isfinite(parabola), parabola, np.where(np.isfinite(near), near, far))
    return np.nan_to_num(slopes, nan=0.0, posinf=0.0, neginf=0.0)


def _contradict(descent: Descent, z: Vector, value: float, slopes: Vector) -> bool:
    """Whether the slopes at both ends of the last step promise another change of F than there was."""
    if descent.central or descent.last is None or not math.isfinite(value + descent.values[-1]):
        return False
    change = value - descent.values[-1]
    promised = 0.5 * float((descent.slopes[-1] + slopes) @ (z - descent.last))
    return abs(change - promised) > _MISS * abs(change)
