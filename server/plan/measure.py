"""One site before a run: seconds, noise, radius and slopes, from a bounded number of evaluations around the start."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from zofedht.common.checks.finding import Case, Finding
from zofedht.common.checks.radius import check_radius
from zofedht.common.checks.readings import batch_spread, differences, noise_of
from zofedht.common.errors import ObjectiveError, cause_of
from zofedht.common.objective.base import Objective
from zofedht.common.objective.points import Answer
from zofedht.common.objective.scaling import in_search_units
from zofedht.common.objective.units import Units
from zofedht.common.objective.user_traceback import USER_ERRORS, raised_by_objective
from zofedht.common.typing import Indices, Vector

__all__ = ["AskedSite", "SiteReading", "evaluations_of_code", "measured"]

_FOR_SLOPES = 40  # 24 of noise, and 8 slopes


@dataclass(frozen=True)
class SiteReading:
    """What one site showed.

    ``seconds`` are those of F on one sample, ``noise`` is the standard deviation of one evaluation, and ``slopes`` are
    those of the whole shard along the same few directions at every site. ``batch_spread`` is how far slopes of single
    batches scatter, in units of their mean; NaN where it is unknown. ``evaluations`` were asked of the site. ``error``
    says why it cannot run.
    """

    name: str
    samples: int
    seconds: float = np.nan
    noise: float = 0.0
    slopes: Vector | None = None
    batch_spread: float = np.nan
    code: tuple[Finding, ...] = ()
    findings: tuple[Finding, ...] = ()
    evaluations: int = 0
    error: str = ""

    @property
    def ok(self) -> bool:
        """Whether the site can run."""
        return not self.error and all(finding.level != "error" for finding in self.code)


class AskedSite(Objective):
    """F of a site that is asked for whole evaluations, one point at a time."""

    def __init__(self, dimension: int, units: Units | None, ask: Callable[[Vector], Answer]) -> None:
        self.dim = dimension
        if units is not None:
            self.scale = units.scale
            ends = zip(units.lower.tolist(), units.upper.tolist(), strict=True)
            self.bounds = [[end if np.isfinite(end) else None for end in pair] for pair in ends]
        self._ask = ask
        self.seconds: list[float] = []

    def value(self, x: Vector, batch: Indices | slice) -> float:
        answer = self._ask(x)
        if answer.cause is not None:
            raise ObjectiveError.public(answer.reason or answer.cause, cause=answer.cause)
        self.seconds.append(answer.seconds)
        return answer.value


class _SpentError(ObjectiveError):
    """No more evaluations may be asked for."""


class _Counted(Objective):
    """Another objective, as its user wrote it; counts and times evaluations and refuses those beyond ``most``."""

    def __init__(self, inner: Objective, most: int, spent: int) -> None:
        self.inner, self._most = inner, most
        self.dim, self.bounds, self.scale = inner.dim, inner.bounds, inner.scale
        self.count, self.times = spent, list[float]()

    def __len__(self) -> int:
        return len(self.inner)

    def value(self, x: Vector, batch: Indices | slice) -> float:
        if self.count >= self._most:
            raise _SpentError(f"{self._most} calls of F, all that --calls allows, are spent")
        self.count += 1
        began = time.perf_counter()
        found = self.inner.value(x, batch)
        self.times.append(time.perf_counter() - began)
        return found


def measured(
    name: str, objective: Objective, samples: int, x: Vector, *, radius: float, batch_size: int, seed: int, most: int,
    spent: int = 0, search: bool = False,
) -> SiteReading:  # fmt: skip
    """Return what a site shows at x, (n,) in search units, and within some radii of it.

    ``objective`` is as its user wrote it. It is asked for at most ``most`` evaluations: first whether equal questions
    get equal answers, then slopes, then the radius. An ``AskedSite`` has no batches. Of ``most``, ``spent`` are spent.
    A ``search`` has no radius to be judged.
    """
    counted = _Counted(objective, most, spent)
    asked = isinstance(objective, AskedSite)
    reading: dict[str, Any] = {}
    findings: list[Finding] = []
    error = ""
    try:
        case = Case.at(in_search_units(counted), x, radius, batch_size, seed)
        reading["noise"] = noise_of(case)
        times = list(objective.seconds if isinstance(objective, AskedSite) else counted.times)
        reading["seconds"] = float(np.median(times[1:])) / _samples_at_once(case)  # the first one may load something
        reading["slopes"] = differences(replace(case, batch=slice(None)), radius) / (2.0 * radius)
        if not asked and batch_size and len(objective) > 1:
            reading["batch_spread"] = batch_spread(case, batch_size)
        if not search:
            findings.extend(check_radius(case))
    except _SpentError as over:
        findings.append(Finding("radius", "ok", f"not judged to the end: {over}"))
    except USER_ERRORS as raised:
        told = raised if isinstance(raised, ObjectiveError) else raised_by_objective(raised)
        error = f"{cause_of(told)}: {told}"
    if asked and "seconds" in reading:
        reading["seconds"] = float(reading["seconds"]) / samples
    return SiteReading(
        name=name, samples=samples, findings=tuple(findings), evaluations=counted.count, error=error, **reading
    )


def evaluations_of_code(most: int) -> int:
    """Return how many of ``most`` evaluations the checks of the code may take: noise and slopes come first."""
    return max(0, most - _FOR_SLOPES)


def _samples_at_once(case: Case) -> int:
    return len(case.objective) if isinstance(case.batch, slice) else len(case.batch)
