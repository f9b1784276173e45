"""Functions that answer differently at the same x: their noise, by asking again, and a radius that stands clear of it.

The error of a slope (F(x + mu v) - F(x - mu v)) / (2 mu) from noise of standard deviation s in each answer is
s / (sqrt(2) mu): it falls with the radius, while the slope itself hardly changes as long as F bends little. So the
advice is the smallest radius at which noise is a twentieth of the difference: slopes fall as x becomes better.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from zofedht.common.checks.finding import Finding, Trial
from zofedht.common.checks.staircase import PROBES, differences
from zofedht.common.errors import ObjectiveError
from zofedht.common.objective.base import checked_loss
from zofedht.common.objective.user_traceback import raised

__all__ = ["noise_of", "noisy_radius"]

_FIRST_LOOK = 3
_REPEATS = 24
_WILD = 2
_NORMAL = 0.676  # that mean distance for a normal law of standard deviation 1: 22 of 24 are within 1.73
_BEARABLE = 0.25  # of the difference: above that the radius is warned of,
_WANTED = 0.05  # and this is looked for
_NEAR = 0.08  # close enough to it
_TELLS = 0.35  # of the difference: above that its size is hardly known
_BETTER = 0.7  # times the share at the radius in question: what is worth another radius
_MOST_TRIES = 6  # at 16 evaluations each
_FARTHEST = 10.0  # times the radius, from one try to the next


class _Look(NamedTuple):
    """What was seen at a radius: the differences' root mean square, free of noise, and the noise in one of them."""

    radius: float
    difference: float
    noise: float

    @property
    def share(self) -> float:
        return self.noise / self.difference if self.difference > 0.0 else math.inf


def noise_of(trial: Trial) -> float:
    """Return the standard deviation of the answers at the same x and samples, 0 where they are the same.

    It is told by the mean distance from the median, without the two wildest answers unless only these differ.

    Raises what the objective raises, and ObjectiveError where an answer is no finite number.
    """
    answers = _answers(trial, _FIRST_LOOK)
    if len(set(answers)) == 1:
        return 0.0
    answers += _answers(trial, _REPEATS - _FIRST_LOOK)
    distances = np.sort(np.abs(np.array(answers) - np.median(answers)))
    tame = float(np.mean(distances[:-_WILD]))
    return tame / _NORMAL if tame > 0.0 else float(np.std(answers))


def noisy_radius(trial: Trial, noise: float) -> Finding:
    """Return whether the differences at the radius stand clear of the noise; if not, with a radius that was tried.

    ``noise`` is what ``noise_of`` gave. Raises as the objective does, but not at larger radii.
    """
    here = _look(trial, trial.radius, noise)
    if here.share <= _BEARABLE:
        text = f"the difference at radius {here.radius:g} stands clear of the noise, which is {here.share:.1%} of it"
        return Finding("radius", "ok", text)
    best, end = _climb(trial, here, noise)
    cause = f"noise of {here.noise:.2g} in a difference hides what F changes by at radius {here.radius:g}"
    if here.share <= _TELLS:
        cause = f"noise of {here.noise:.2g} against a difference of {here.difference:.2g} at radius {here.radius:g}"
    if best.share > min(_TELLS, _BETTER * here.share):
        way_out = f"no larger radius that was tried, up to {end}, stands clearer of it; average more evaluations"
        return Finding("radius", "warning", f"{cause}; {way_out}, or begin elsewhere (initial)")
    error, typical = here.noise / (2.0 * here.radius), best.difference / (2.0 * best.radius)
    sizes = f"a slope there has an error near {error:.2g}, where a typical slope is {typical:.2g}"
    way_out = f"try radius = {best.radius:g}, where noise was {best.share:.0%} of the difference"
    return Finding("radius", "warning", f"{cause}: {sizes}; {way_out}")


def _answers(trial: Trial, times: int) -> list[float]:
    return [checked_loss(trial.value(trial.x)) for _ in range(times)]


def _look(trial: Trial, radius: float, noise: float) -> _Look:
    squares = float(np.mean(np.square(differences(trial, radius))))
    both = 2.0 * noise * noise  # the variance of a difference
    # Noise alone gives mean squares that are off by half of that in PROBES tries.
    clear = squares - both if squares > both * (1.0 + math.sqrt(2.0 / PROBES)) else 0.0
    return _Look(radius, math.sqrt(clear), math.sqrt(both))


def _climb(trial: Trial, here: _Look, noise: float) -> tuple[_Look, str]:
    """Return the first good look at a larger radius, or else the best; and how far it was looked."""
    best = now = here
    for _ in range(_MOST_TRIES):
        radius = float(f"{now.radius * max(2.0, min(now.share / _WANTED, _FARTHEST)):.0e}")
        try:
            now = _look(trial, radius, noise)
        except ObjectiveError as error:  # so far away it need not work: this is an answer, not a fault
            return best, f"{now.radius:g} (at {radius:g}: {error})"
        except Exception as error:
            return best, f"{now.radius:g} (at {radius:g} the objective {raised(error)})"
        best = min(best, now, key=lambda look: look.share)
        if now.share <= _NEAR:
            break
    return best, f"{now.radius:g}"
