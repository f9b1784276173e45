"""Is the radius large enough? One scan over larger radii, and three verdicts: on noise, on a staircase, on rounding.

The error of a slope (F(x + mu v) - F(x - mu v)) / (2 mu) from noise of standard deviation s in each evaluation is
s / (sqrt(2) mu). The error falls with the radius, while the slope hardly changes as long as F bends little. The advice
is the smallest radius at which noise is a twentieth of the difference, since slopes fall as x becomes better.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

from zofedht.common.checks.finding import Case, Finding
from zofedht.common.checks.readings import (
    MOST_ROUNDING,
    PROBES,
    Reading,
    is_staircase,
    jumps_at_x,
    noise_of,
    read_moving,
    read_noise,
    read_rounding,
)
from zofedht.common.objective.user_traceback import USER_ERRORS, raised_by_objective

__all__ = ["check_radius", "flat_advice", "noise_advice"]

# Shares of noise in the difference: the largest that is no warning, the one that is looked for, and one near enough.
_BEARABLE, _WANTED, _NEAR = 0.25, 0.05, 0.08
_KNOWN = 0.35  # the share of noise up to which the size of the difference is known
_BETTER = 0.7  # times the share at the present radius: worth another radius
_GROWTH = math.sqrt(10.0)
_MOST_RADII, _MOST_STAIRS = 6, 14  # a noisy radius takes 16 evaluations; 14 radii are seven decades


class _Scan(NamedTuple):
    """Readings at larger and larger radii, the good one or None, and the failure that ended the scan."""

    readings: list[Reading]
    good: Reading | None
    failure: str = ""


def _scan(
    here: Reading,
    read: Callable[[float], Reading],
    larger: Callable[[int, Reading], float],
    good: Callable[[Reading], bool],
    most: int,
) -> _Scan:
    """Read at up to ``most`` larger radii until a reading is good; ``larger`` maps (try, last reading) to a radius."""
    readings = [here]
    for number in range(1, most + 1):
        if good(readings[-1]):
            break
        radius = float(f"{larger(number, readings[-1]):.0e}")
        try:
            readings.append(read(radius))
        except USER_ERRORS as error:  # so far from x F may fail: that is a result of the scan
            return _Scan(readings, None, f"radius {radius:g} fails: {raised_by_objective(error)}")
    return _Scan(readings, readings[-1] if good(readings[-1]) else None)


def check_radius(case: Case) -> Iterator[Finding]:
    """Yield whether the difference at the radius is clear, and the first larger radius at which it is.

    Noise decides where F gives different values for the same x. Else rounding decides, and for a staircase the number
    of slopes that are not 0. Raises what the objective raises at the radius itself.
    """
    if noise := noise_of(case):
        yield _noisy(case, noise)
        return
    here = read_rounding(case, case.radius)
    if here.share <= MOST_ROUNDING:
        yield Finding("radius", "ok", f"the difference at radius {here.radius:g} stands clear of rounding")
        return
    moving = read_moving(case, case.radius)
    if jumps_at_x(case, case.radius):
        text = (
            f"F jumps at the starting point: it is the same at radius {here.radius:g} and at a thousandth of it, so no"
            " radius can be judged there; begin beside the jump (initial) and check again, or give a radius as large as"
            " the changes of x that matter"
        )
        yield Finding("radius", "warning", text)
        return
    stairs = _stairs(case, moving)
    if stairs.good is None:
        text = f"F is flat around the starting point: {_still(moving)}, {_nowhere(stairs)}"
        yield Finding("radius", "warning", text)
    elif is_staircase(case, stairs.good.radius):
        yield _staircase(moving, stairs.good)
    else:
        yield _rounded(case, here)


def noise_advice(case: Case) -> str:
    """Return what to do about noise that hides the slopes, or an empty text where the radius is large enough.

    Takes 3 evaluations, and some 100 more where there is noise. Raises what the objective raises at the radius itself.
    """
    if not (noise := noise_of(case)):
        return ""
    finding = _noisy(case, noise)
    differ = f"evaluations of the same x differ, here by {noise:.2g} (standard deviation)"
    return "" if finding.level == "ok" else f"{differ}: {finding.text}"


def flat_advice(case: Case, *, farther: bool) -> str:
    """Return what to do about an F that does not change within the radius, or an empty text where F changes.

    Takes 16 evaluations. With ``farther``, some 200 more find the radius from which on a flat F changes. Raises what
    the objective raises at the radius itself.
    """
    here = read_moving(case, case.radius)
    if here.moving:
        return ""
    flat = f"the function does not change within the radius ({case.radius:g}) of the start"
    if not farther:
        return f"{flat}; a larger radius may show its slopes, or begin elsewhere"
    stairs = _stairs(case, here)
    if stairs.good is None:
        return f"{flat}: all slopes are exactly 0, {_nowhere(stairs)}"
    return f"{flat}; try radius = {stairs.good.radius:g}, where {stairs.good.moving} of {PROBES} slopes are not 0"


def _noisy(case: Case, noise: float) -> Finding:
    here = read_noise(case, case.radius, noise)
    if here.share <= _BEARABLE:
        text = f"the difference at radius {here.radius:g} stands clear of the noise, which is {here.share:.1%} of it"
        return Finding("radius", "ok", text)
    scan = _scan(
        here,
        lambda radius: read_noise(case, radius, noise),
        lambda _, last: last.radius * max(2.0, min(last.share / _WANTED, 10.0)),
        lambda reading: reading.share <= _NEAR,
        _MOST_RADII,
    )
    best = min(scan.readings, key=lambda reading: reading.share)
    cause = f"noise of {here.noise:.2g} in a difference hides the change of F at radius {here.radius:g}"
    if here.share <= _KNOWN:
        cause = f"noise of {here.noise:.2g} against a difference of {here.difference:.2g} at radius {here.radius:g}"
    if best.share > min(_KNOWN, _BETTER * here.share):
        end = f"{scan.readings[-1].radius:g}" + (f" ({scan.failure})" if scan.failure else "")
        way_out = f"no larger radius that was tried, up to {end}, is clearer; average more evaluations"
        return Finding("radius", "warning", f"{cause}; {way_out}, or begin elsewhere (initial)")
    error, typical = here.noise / (2.0 * here.radius), best.difference / (2.0 * best.radius)
    sizes = f"a slope there has an error near {error:.2g}, where a typical slope is {typical:.2g}"
    way_out = f"try radius = {best.radius:g}, where noise was {best.share:.0%} of the difference"
    return Finding("radius", "warning", f"{cause}: {sizes}; {way_out}")


def _stairs(case: Case, here: Reading) -> _Scan:
    """Scan until most slopes are not 0."""
    return _scan(
        here,
        lambda radius: read_moving(case, radius),
        lambda number, _: here.radius * _GROWTH**number,
        lambda reading: 2 * reading.moving > PROBES,
        _MOST_STAIRS,
    )


def _staircase(here: Reading, good: Reading) -> Finding:
    if good is here:
        most = f"{good.moving} of {PROBES} slopes at radius {good.radius:g} are not 0"
        return Finding("radius", "ok", f"F is a staircase, and {most}")
    most = f"try radius = {good.radius:g}, where {good.moving} of {PROBES} are not"
    return Finding("radius", "warning", f"F is a staircase, and {_still(here)}; {most}")


def _rounded(case: Case, here: Reading) -> Finding:
    growth = max(10.0, here.share / MOST_ROUNDING) if here.difference > 0.0 else 10.0
    good = _scan(
        here,
        lambda radius: read_rounding(case, radius),
        lambda number, last: last.radius * (growth if number == 1 else 10.0),
        lambda reading: reading.share <= MOST_ROUNDING,
        _MOST_RADII,
    ).good
    cause = f"rounding or noise of {here.noise:.2g} against a difference of {here.difference:.2g} at radius"
    if here.difference == 0.0:
        cause = "F does not change within radius"
    way_out = f"try radius = {good.radius:.0e}" if good else "no larger radius that was tried cures it"
    single = ", and compute in float64: all losses are float32 numbers" if here.single else ""
    return Finding("radius", "warning", f"{cause} {here.radius:g}; {way_out}{single}")


def _still(here: Reading) -> str:
    return f"{PROBES - here.moving} of {PROBES} slopes at radius {here.radius:g} are exactly 0"


def _nowhere(scan: _Scan) -> str:
    end = scan.failure or f"most are up to radius {scan.readings[-1].radius:g}"
    return f"and {end}; begin elsewhere (initial), or scale x"
