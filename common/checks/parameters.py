"""Does F change with each parameter? A flat one beside others hides in every probe, which moves all of them at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from zofedht.common.checks.finding import Case, Finding
from zofedht.common.objective.base import checked_loss
from zofedht.common.objective.named import space_of
from zofedht.common.space.numbers import Real

__all__ = ["check_parameters", "evaluations_of_parameters"]

_MOST = 100  # parameters that are moved one by one
_FAR = 1.0  # in search units: a change that matters, as the objective's scale says
_SHOWN = 5


def check_parameters(case: Case) -> Iterator[Finding]:
    """Yield which parameters F does not depend on around x, where it depends on others.

    Takes two evaluations a parameter, and four for one that is flat. Settings that are whole numbers or choices are
    flat by nature and not looked at. Raises what the objective raises.
    """
    if not evaluations_of_parameters(case):
        return
    there = checked_loss(case.value(case.x))
    still = [place for place in range(len(case.x)) if _is_still(case, place, case.radius, there)]
    if len(still) == len(case.x):
        return  # the check of the radius tells it
    flat = [place for place in still if _is_still(case, place, _FAR, there)]
    steep = [place for place in still if place not in flat]
    if flat:
        text = f"around the start F does not change with {_shown(case, flat)}, neither by the radius nor by its scale"
        text = f"{text}: does value() read it? leave it out, or begin elsewhere"
        yield Finding("parameters", "warning", text, number=_FAR, places=tuple(flat))
    if steep:
        text = f"F does not change with {_shown(case, steep)} within radius {case.radius:g}, but does within its scale"
        text = f"{text}: a larger scale for it, or a larger radius, shows its slope"
        yield Finding("parameters", "warning", text, number=case.radius, places=tuple(steep))
    if not still:
        yield Finding("parameters", "ok", "F changes with each parameter")


def evaluations_of_parameters(case: Case) -> int:
    """Return how many evaluations ``check_parameters`` takes at most; 0 where it looks at nothing."""
    space = space_of(case.objective)
    whole = space is not None and not all(isinstance(parameter, Real) for _, parameter in space.parameters)
    return 0 if whole or not 1 < len(case.x) <= _MOST else 1 + 4 * len(case.x)


def _is_still(case: Case, place: int, length: float, there: float) -> bool:
    """Return whether F is the same at both ends; a parameter that its bounds fix is not asked about."""
    ends = np.stack([case.x, case.x])
    ends[:, place] += [length, -length]
    if case.units is not None:
        ends = np.stack([case.units.project(end) for end in ends])
        if np.array_equal(ends[0], ends[1]):
            return False
    return all(checked_loss(case.value(end)) == there for end in ends)


def _shown(case: Case, places: Sequence[int]) -> str:
    space = space_of(case.objective)
    names = () if space is None else space.names
    shown = [f"parameter {place}" + (f" ('{names[place]}')" if names else "") for place in places[:_SHOWN]]
    more = f" and {len(places) - _SHOWN} more" if len(places) > _SHOWN else ""
    return f"{', '.join(shown)}{more}"
