"""Functions that change in steps, such as accuracy or F1: most slopes are exactly 0 unless the radius is large."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from zofedht.common.checks.finding import Trial
from zofedht.common.errors import ObjectiveError
from zofedht.common.objective.base import checked_loss
from zofedht.common.objective.user_traceback import raised
from zofedht.common.random.streams import stream
from zofedht.common.typing import Indices, Matrix, Vector

__all__ = ["PROBES", "Climb", "changes_in_steps", "climb", "differences", "jumps_at_start", "moving_slopes"]

PROBES = 8
"""Directions that are tried at one radius."""

_GROWTH = np.sqrt(10.0)
_RUNGS = 14  # seven decades
_FAR_SMALLER = 1e-3
_ROUNDING = {False: 1e4 * float(np.finfo(np.float64).eps), True: 1e4 * float(np.finfo(np.float32).eps)}


class Climb(NamedTuple):
    """The first radius at which most slopes are not 0, or None; how many were not; the largest radius that was tried;
    and why no larger one was, where an evaluation failed."""

    radius: float | None
    moving: int
    tried: float
    failure: str = ""


def differences(trial: Trial, radius: float) -> Vector:
    """Return F(x + radius v) - F(x - radius v) along PROBES directions, each on samples of its own as in a run.

    Raises what the objective raises, and ObjectiveError where a value is no finite number.
    """
    found = []
    for v, batch in zip(_directions(trial), _batches(trial), strict=True):
        high, low = (checked_loss(end) for end in trial.objective.pair(trial.x, v, radius, batch))
        found.append(high - low)
    return np.array(found)


def moving_slopes(trial: Trial, radius: float) -> int:
    """Return how many of the ``differences`` are not 0. Raises as they do."""
    return int(np.count_nonzero(differences(trial, radius)))


def climb(trial: Trial) -> Climb:
    """Try larger and larger radii from the starting point until most slopes are not 0."""
    radius = trial.radius
    for rung in range(1, _RUNGS + 1):
        larger = float(f"{trial.radius * _GROWTH**rung:.0e}")
        try:
            moving = moving_slopes(trial, larger)
        except ObjectiveError as error:  # so far away it need not work: this is an answer, not a fault
            return Climb(None, 0, radius, f"radius {larger:g} fails: {error}")
        except Exception as error:
            return Climb(None, 0, radius, f"radius {larger:g} fails: the objective {raised(error)}")
        radius = larger
        if 2 * moving > PROBES:
            return Climb(radius, moving, radius)
    return Climb(None, 0, radius)


def changes_in_steps(trial: Trial, radius: float) -> bool:
    """Return whether F stays exactly the same within a thousandth of the radius, though not by rounding."""
    x = trial.inside(radius)
    same, jumps, seen = 0, [], []
    for v, batch in zip(_directions(trial), _batches(trial), strict=True):
        near = [trial.objective.value(point, batch) for point in (x.copy(), x + _FAR_SMALLER * radius * v)]
        middle, beside, high, low = (checked_loss(y) for y in (*near, *trial.objective.pair(x, v, radius, batch)))
        same += beside == middle
        jumps += [abs(high - low)] if high != low else []
        seen += [middle, high, low]
    single = all(value == float(np.float32(value)) for value in seen)
    return 2 * same > PROBES and bool(jumps) and min(jumps) > _ROUNDING[single] * max(abs(value) for value in seen)


def jumps_at_start(trial: Trial, radius: float) -> bool:
    """Return whether F jumps at the starting point: its ends are the same at a thousandth of the radius, yet differ.

    So they are at x = 0 for every rule of the sign of a score.
    """
    jumps = 0
    for v, batch in zip(_directions(trial), _batches(trial), strict=True):
        far, near = (trial.objective.pair(trial.x, v, length, batch) for length in (radius, _FAR_SMALLER * radius))
        (high, low), (high_near, low_near) = ([checked_loss(end) for end in ends] for ends in (far, near))
        jumps += high == high_near and low == low_near and high != low
    return 2 * jumps > PROBES


def _directions(trial: Trial) -> Matrix:
    """Return PROBES directions, one a row; always the same ones."""
    directions: Matrix = stream(trial.seed, "check", 0, 1).standard_normal((PROBES, trial.objective.dim))
    return directions


def _batches(trial: Trial) -> Sequence[Indices | slice]:
    """Return the samples for each direction; always the same ones."""
    if isinstance(trial.batch, slice):
        return [trial.batch] * PROBES
    shape = (PROBES, len(trial.batch))
    return list(stream(trial.seed, "check", 0, 2).integers(0, len(trial.objective), size=shape, dtype=np.intp))
