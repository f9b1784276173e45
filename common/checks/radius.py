"""Is the radius large enough? Noise, rounding and steps against the finite difference, and a radius that was tried."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from zofedht.common.checks.finding import Finding, Trial
from zofedht.common.checks.noisy_radius import noise_of, noisy_radius
from zofedht.common.checks.staircase import PROBES, Climb, changes_in_steps, climb, jumps_at_start, moving_slopes
from zofedht.common.objective.base import checked_loss

__all__ = ["check_radius", "flat_advice", "noise_advice"]

_STRETCHES = (
    1.0,
    1.13,
    1.29,
    1.37,
)  # rounding may cancel at one length; at four without a common measure it hardly does
_MOST_NOISE = 0.05  # of the difference
_FALL = 5.0  # corners make second differences a tenth at a tenth of the radius, bends a hundredth
_MOST_TRIES = 6


def check_radius(trial: Trial) -> Iterator[Finding]:
    """Yield whether the difference at the radius stands clear of noise; if not, the first larger radius that does.

    Where F answers differently at the same x, that is the noise. Else it is what rounding leaves of a smooth F; and
    where F changes in steps, noise is no word for them: there most slopes must not be 0.
    """
    radius = trial.radius
    if noise_at_x := noise_of(trial):
        yield noisy_radius(trial, noise_at_x)
        return
    difference, noise, single = _measure(trial, radius)
    if difference > 0.0 and noise <= _MOST_NOISE * difference:
        yield Finding("radius", "ok", f"the difference at radius {radius:g} stands clear of rounding")
        return
    moving = moving_slopes(trial, radius)
    if jumps_at_start(trial, radius):
        yield Finding("radius", "warning", _jump(radius))
        return
    climbed = climb(trial) if 2 * moving <= PROBES else Climb(radius, moving, radius)
    still = f"{PROBES - moving} of {PROBES} slopes at radius {radius:g} are exactly 0"
    if climbed.radius is None:
        yield Finding("radius", "warning", f"F is flat around the starting point: {still}, {_nowhere(climbed)}")
        return
    if changes_in_steps(trial, climbed.radius):
        yield _staircase(climbed, radius, still)
        return
    better = _first_good(trial, difference, noise)
    way_out = f"try radius = {better:.0e}" if better else "no larger radius that was tried cures it"
    if difference == 0.0:
        cause = f"F does not change within radius {radius:g}"
    else:
        cause = f"rounding or noise of {noise:.2g} against a difference of {difference:.2g} at radius {radius:g}"
    if single:
        way_out += ", and compute in float64: all its values are float32 numbers"
    yield Finding("radius", "warning", f"{cause}; {way_out}")


def noise_advice(trial: Trial) -> str:
    """Return what to do about an F that answers differently at the same x, or nothing where the radius bears it.

    Asks three times, and some hundred times more of an F that is noisy. Raises what the objective raises, and
    ObjectiveError where a value is no finite number.
    """
    if not (noise := noise_of(trial)):
        return ""
    finding = noisy_radius(trial, noise)
    differ = f"evaluations of the same x differ, here by {noise:.2g} (standard deviation)"
    return "" if finding.level == "ok" else f"{differ}: {finding.text}"


def flat_advice(trial: Trial, *, farther: bool) -> str:
    """Return what to do about an F that does not change within the radius, or nothing where it does.

    Asks 16 times; ``farther``, some two hundred times more of an F that is flat, which tells from where on it changes.
    Raises what the objective raises, and ObjectiveError where a value is no finite number.
    """
    if moving_slopes(trial, trial.radius):
        return ""
    flat = f"the function does not change within the radius ({trial.radius:g}) of the start"
    if not farther:
        return f"{flat}; a larger radius may show its slopes, or begin elsewhere"
    climbed = climb(trial)
    if climbed.radius is None:
        return f"{flat}: {PROBES} of {PROBES} slopes are exactly 0, {_nowhere(climbed)}"
    return f"{flat}; try radius = {climbed.radius:g}, where {climbed.moving} of {PROBES} slopes are not 0"


def _staircase(climbed: Climb, radius: float, still: str) -> Finding:
    if climbed.radius == radius:
        most = f"{climbed.moving} of {PROBES} slopes at radius {radius:g} are not 0"
        return Finding("radius", "ok", f"F changes in steps, and {most}")
    most = f"try radius = {climbed.radius:g}, where {climbed.moving} of {PROBES} are not"
    return Finding("radius", "warning", f"F changes in steps, and {still}; {most}")


def _jump(radius: float) -> str:
    return (
        f"F jumps at the starting point: it is the same at radius {radius:g} and at a thousandth of"
        " it, so no radius can be judged there; begin beside the jump (initial) and check again, or give a radius as"
        " large as the changes of x that matter"
    )


def _nowhere(climbed: Climb) -> str:
    if climbed.failure:
        return f"and {climbed.failure}; begin elsewhere (initial), or scale x"
    return f"and most are up to radius {climbed.tried:g}; begin elsewhere (initial), or scale x"


def _measure(trial: Trial, radius: float) -> tuple[float, float, bool]:
    """Return the difference, the noise in it, and whether all values were float32 numbers.

    For a smooth F the second difference falls with the square of the radius, and so it can be predicted from ten
    times the radius; what is above that is rounding or noise. Where so far away F is another one, bounds included, a
    tenth of the radius must show the same: there rounding and noise are what they were, while bends and corners fall.
    """
    x = trial.inside(10.0 * radius)
    middle = checked_loss(trial.value(x))
    seen = [middle]

    def second(length: float) -> tuple[float, float]:
        ends = trial.objective.pair(x, trial.v, length, trial.fresh_batch())
        high, low = (checked_loss(value) for value in ends)
        seen.extend((high, low))
        return abs(high - 2.0 * middle + low), abs(high - low)

    def around(length: float) -> tuple[float, float]:
        bends, differences = zip(*(second(stretch * length) for stretch in _STRETCHES), strict=True)
        return max(bends), max(differences)

    bend, difference = around(radius)
    noise = max(0.0, bend - 4.0 * second(10.0 * radius)[0] / 100.0)
    single = all(value == float(np.float32(value)) for value in seen)
    if noise > _MOST_NOISE * difference and not single:
        near_bend, near_difference = around(radius / 10.0)
        if near_difference > 0.0:
            noise = min(noise, near_bend) if near_bend > bend / _FALL else 0.0
    return difference, noise, single


def _first_good(trial: Trial, difference: float, noise: float) -> float | None:
    """Return a radius, one digit, at which the difference was seen to stand clear, or None."""
    growth = max(10.0, noise / (_MOST_NOISE * difference)) if difference > 0.0 else 10.0
    radius = trial.radius * growth
    for _ in range(_MOST_TRIES):
        radius = float(f"{radius:.0e}")
        found, left, _ = _measure(trial, radius)
        if found > 0.0 and left <= _MOST_NOISE * found:
            return radius
        radius *= 10.0
    return None
