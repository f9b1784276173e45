"""What the differences F(x + radius v) - F(x - radius v) show at one radius: noise, rounding, a jump or a staircase."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from zofedht.common.checks.finding import Case
from zofedht.common.objective.base import checked_loss
from zofedht.common.random.streams import stream
from zofedht.common.typing import Indices, Vector

__all__ = [
    "BATCH_EVALUATIONS",
    "MOST_ROUNDING",
    "PROBES",
    "Reading",
    "batch_spread",
    "differences",
    "is_staircase",
    "jumps_at_x",
    "noise_of",
    "read_moving",
    "read_noise",
    "read_rounding",
]

PROBES = 8
"""Directions that are tried at one radius."""

_BATCHES = 8

BATCH_EVALUATIONS = 2 * _BATCHES
"""Of single batches, by which their slopes are compared."""

MOST_ROUNDING = 0.05
"""The largest share of rounding in a good difference."""

_FIRST_ANSWERS, _ANSWERS = 3, 24
_OUTLIERS = 2
_NORMAL = (
    0.676  # mean distance from the median without the outliers, for a standard normal law: 22 of 24 are below 1.73
)
_NEAR_X = 1e-3  # of the radius
_ROUNDING = {False: 1e4 * float(np.finfo(np.float64).eps), True: 1e4 * float(np.finfo(np.float32).eps)}
# Rounding may cancel at one length; at four lengths without a common measure it hardly does.
_STRETCHES = (1.0, 1.13, 1.29, 1.37)
_FALL = 5.0  # at a tenth of the radius second differences of a corner fall to a tenth, those of a bend to a hundredth


class Reading(NamedTuple):
    """The differences at one radius: their size without noise, the noise of one of them, and how many are not 0."""

    radius: float
    difference: float = 0.0
    noise: float = 0.0
    moving: int = 0
    single: bool = False  # whether all losses were float32 numbers

    @property
    def share(self) -> float:
        """The noise in units of the difference."""
        return self.noise / self.difference if self.difference > 0.0 else math.inf


def noise_of(case: Case) -> float:
    """Return the standard deviation of F over evaluations of the same x and samples, 0 where all are equal.

    It is estimated from the mean distance from the median, without the two outliers unless only these differ. Raises
    what the objective raises.
    """
    answers = [checked_loss(case.value(case.x)) for _ in range(_FIRST_ANSWERS)]
    if len(set(answers)) == 1:
        return 0.0
    answers += [checked_loss(case.value(case.x)) for _ in range(_ANSWERS - _FIRST_ANSWERS)]
    distances = np.sort(np.abs(np.array(answers) - np.median(answers)))
    tame = float(np.mean(distances[:-_OUTLIERS]))
    return tame / _NORMAL if tame > 0.0 else float(np.std(answers))


def read_noise(case: Case, radius: float, noise: float) -> Reading:
    """Return the root mean square of the differences where an evaluation has noise of this standard deviation."""
    squares = float(np.mean(np.square(differences(case, radius))))
    both = 2.0 * noise * noise  # the variance of a difference
    # Mean squares of noise alone exceed their expectation by half of it in one of PROBES tries.
    clear = squares - both if squares > both * (1.0 + math.sqrt(2.0 / PROBES)) else 0.0
    return Reading(radius, math.sqrt(clear), math.sqrt(both))


def read_moving(case: Case, radius: float) -> Reading:
    """Return how many of the differences are not 0."""
    return Reading(radius, moving=int(np.count_nonzero(differences(case, radius))))


def read_rounding(case: Case, radius: float) -> Reading:
    """Return the difference along the case's direction and the rounding in it.

    The second difference of a smooth F falls with the square of the radius, so ten times the radius predicts it; the
    rest is rounding. So far away F may differ in kind, as at a bound. Then a tenth of the radius must show the same
    rest: rounding stays, while second differences of bends and corners fall.
    """
    x = case.inside(10.0 * radius)
    middle = checked_loss(case.value(x))
    seen = [middle]

    def second(length: float) -> tuple[float, float]:
        ends = case.objective.pair(x, case.v, length, case.fresh_batch())
        high, low = (checked_loss(value) for value in ends)
        seen.extend((high, low))
        return abs(high - 2.0 * middle + low), abs(high - low)

    def around(length: float) -> tuple[float, float]:
        bends, differences = zip(*(second(stretch * length) for stretch in _STRETCHES), strict=True)
        return max(bends), max(differences)

    bend, difference = around(radius)
    here = Reading(radius, difference, max(0.0, bend - 4.0 * second(10.0 * radius)[0] / 100.0), single=_single(seen))
    if here.noise <= MOST_ROUNDING * difference or here.single:
        return here
    near_bend, near_difference = around(radius / 10.0)
    if near_difference == 0.0:
        return here
    return here._replace(noise=min(here.noise, near_bend) if near_bend > bend / _FALL else 0.0)


def is_staircase(case: Case, radius: float) -> bool:
    """Return whether F is the same within a thousandth of the radius, and its jumps are no rounding."""
    x = case.inside(radius)
    same, jumps, seen = 0, [], []
    for v, batch in _probes(case):
        near = [case.objective.value(point, batch) for point in (x.copy(), x + _NEAR_X * radius * v)]
        middle, beside, high, low = (checked_loss(y) for y in (*near, *case.objective.pair(x, v, radius, batch)))
        same += beside == middle
        jumps += [abs(high - low)] if high != low else []
        seen += [middle, high, low]
    least = _ROUNDING[_single(seen)] * max(abs(value) for value in seen)
    return 2 * same > PROBES and bool(jumps) and min(jumps) > least


def jumps_at_x(case: Case, radius: float) -> bool:
    """Return whether F jumps at x: along most directions both ends stay the same at a thousandth of the radius.

    At x = 0 this is so for every rule that takes the sign of a score.
    """
    jumps = 0
    for v, batch in _probes(case):
        far, near = (case.objective.pair(case.x, v, length, batch) for length in (radius, _NEAR_X * radius))
        (high, low), (high_near, low_near) = ([checked_loss(end) for end in ends] for ends in (far, near))
        jumps += high == high_near and low == low_near and high != low
    return 2 * jumps > PROBES


def differences(case: Case, radius: float) -> Vector:
    """Return the differences along PROBES directions, (PROBES,), each on samples of its own as in a run."""
    ends = ([checked_loss(end) for end in case.objective.pair(case.x, v, radius, batch)] for v, batch in _probes(case))
    return np.array([high - low for high, low in ends])


def batch_spread(case: Case, batch_size: int) -> float:
    """Return the standard deviation of slopes along one direction over batches, in units of their mean.

    NaN where the mean is 0. Takes BATCH_EVALUATIONS evaluations.
    """
    drawn = stream(case.seed, "check", 0, 3).integers(
        0, len(case.objective), size=(_BATCHES, batch_size), dtype=np.intp
    )
    ends = [case.objective.pair(case.x, case.v, case.radius, batch) for batch in drawn]
    slopes = np.array([checked_loss(high) - checked_loss(low) for high, low in ends])
    middle = abs(float(np.mean(slopes)))
    return float(np.std(slopes, ddof=1)) / middle if middle else np.nan


def _probes(case: Case) -> Iterator[tuple[Vector, Indices | slice]]:
    """Return PROBES directions and the samples for each, always the same ones for a seed."""
    directions = stream(case.seed, "check", 0, 1).standard_normal((PROBES, case.objective.dim))
    if isinstance(case.batch, slice):
        return zip(directions, [case.batch] * PROBES, strict=True)
    shape = (PROBES, len(case.batch))
    samples = stream(case.seed, "check", 0, 2).integers(0, len(case.objective), size=shape, dtype=np.intp)
    return zip(directions, samples, strict=True)


def _single(losses: list[float]) -> bool:
    return all(loss == float(np.float32(loss)) for loss in losses)
