"""check_objective: try out what an objective must be, before a run is spent on it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from zofedht.common.checks.code import CODE_CHECKS
from zofedht.common.checks.finding import Case, Finding, PlannedRun, clock_text
from zofedht.common.checks.radius import check_radius
from zofedht.common.errors import Cause, ObjectiveError
from zofedht.common.objective.base import Objective, checked_loss
from zofedht.common.objective.loading import checked_objective, starting_point
from zofedht.common.objective.named import space_of
from zofedht.common.objective.scaling import in_search_units, units_of
from zofedht.common.objective.units import given_start
from zofedht.common.objective.user_traceback import USER_ERRORS, raised, user_traceback
from zofedht.common.space.space import Space

__all__ = ["CodeReport", "Finding", "PlannedRun", "check_code", "check_objective", "failed"]

_MOST_NAMES = 10


def check_objective(
    objective: Objective,
    *,
    radius: float = 1e-4,
    batch_size: int = 64,
    seed: int = 0,
    plan: PlannedRun | None = None,
    x0: Any = None,
) -> list[Finding]:
    """Evaluate the objective as a run would and return the findings.

    The checks find wrong shapes and types, NaN, exceptions, malformed scale and bounds, changed arguments, a parameter
    that changes nothing, different losses for the same batch, a shard that cannot be evaluated whole, ``pair`` and
    ``values`` that disagree with ``value``, and evaluations that disturb each other. Where noise, rounding or a
    staircase hides the slopes, the finding names a larger radius that was tried; a search has none. The last finding
    tells the time of an evaluation and of the run.

    Parameters
    ----------
    objective : Objective
    radius : float
        The radius of the run, in search units.
    batch_size : int
        Samples of one evaluation; 0 for the whole shard.
    seed : int
        The seed of the run.
    plan : PlannedRun, optional
        The length of the run.
    x0 : array_like, shape (n,), optional
        The point to try, in the user's units; the objective's own start unless given.

    Returns
    -------
    list of Finding
        In the order of the checks. An exception of the objective is a finding and is not raised. The checks take a few
        dozen evaluations, two for each parameter up to 100, and some 150 where losses are noisy.

    Examples
    --------
    >>> from zofedht.common.objective.function import FunctionObjective
    >>> findings = check_objective(FunctionObjective(lambda x: float(np.sum(x**2)), x0=[1.0, 2.0]))
    >>> {finding.level for finding in findings}
    {'ok'}
    """
    plan = plan or PlannedRun()
    looked = check_code(objective, radius=radius, batch_size=batch_size, seed=seed, x0=x0)
    findings = list(looked.findings)
    if (case := looked.case) is not None:
        if not plan.points:  # a search has no radius
            findings.extend(_tried(check_radius, case, "radius"))
        findings.extend(_tried(lambda case: _time(case, plan, looked.warm_up), case, "time"))
    return findings


@dataclass(frozen=True)
class CodeReport:
    """What ``check_code`` has found: the case for further checks, None where it cannot be evaluated, and what it took.

    ``evaluations`` are those of the checks that were made, at most; ``warm_up`` is the time of the first one.
    """

    findings: tuple[Finding, ...]
    case: Case | None = None
    evaluations: int = 0
    warm_up: float = 0.0


def check_code(
    objective: Objective, *, radius: float, batch_size: int, seed: int, x0: Any = None, most: float = math.inf
) -> CodeReport:
    """Check what the objective's methods do at x0: all of ``check_objective`` but for the radius and the time.

    A check that would take more than is left of ``most`` evaluations is left out.
    """
    findings: list[Finding] = []
    try:
        case = _begin(objective, findings, radius, batch_size, seed, x0)
        with _stage("value"):
            began = time.perf_counter()
            loss = checked_loss(case.value(case.x.copy()))  # the check of the arguments comes later
            warm_up = time.perf_counter() - began
    except _StoppedError as stopped:
        return CodeReport((*findings, stopped.finding), evaluations=1)
    findings.append(Finding("value", "ok", f"{loss:.6g} at the starting point"))
    spent = 1
    for check in CODE_CHECKS:
        # Losses that differ for the same x and batch cannot be compared; a warning of that has been given.
        if check.compares and _level(findings, "repeats") != "ok":
            continue
        if spent + check.evaluations(case) > most:
            continue
        spent += check.evaluations(case)
        findings.extend(_tried(check.find, case, check.name))
    return CodeReport(tuple(findings), case, spent, warm_up)


def failed(name: str, error: BaseException) -> Finding:
    """Return the error finding of an exception: one line, and the traceback of the user's own code."""
    ours = isinstance(error, ObjectiveError)
    inner = error.__cause__ if ours else error
    cause: Cause = error.cause if isinstance(error, ObjectiveError) else "raised"
    text = str(error) if ours else raised(error)
    return Finding(name, "error", text, user_traceback(inner) if inner else "", cause=cause)


class _StoppedError(Exception):
    """No check can go on."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.text)
        self.finding = finding


@contextmanager
def _stage(name: str) -> Iterator[None]:
    try:
        yield
    except USER_ERRORS as error:
        raise _StoppedError(failed(name, error)) from error


def _begin(objective: Objective, findings: list[Finding], radius: float, batch_size: int, seed: int, x0: Any) -> Case:
    """Return the case of all checks. Raises _StoppedError."""
    with _stage("size"):
        objective = checked_objective(objective, type(objective).__name__)
        samples, space = len(objective), space_of(objective)
    shard = f"{samples} samples" if samples > 1 else "no samples: every evaluation is a whole one"
    size = f"{objective.dim} parameters" if space is None else f"{_named(space)}, {objective.dim} coordinates"
    findings.append(Finding("size", "ok", f"{size}, {shard}"))
    with _stage("units"):
        searched = in_search_units(objective)
    if (units := units_of(searched)) is not None:
        bounded = int(np.sum(np.isfinite(units.lower) | np.isfinite(units.upper)))
        text = f"scale {units.scale.min():g} to {units.scale.max():g}, {bounded} with bounds"
        findings.append(Finding("units", "ok", text))
    with _stage("initial"):
        own = starting_point(searched, seed) if x0 is None else given_start(x0, objective.dim, units, space)
    if own is not None and x0 is None:
        findings.append(Finding("initial", "ok", "a starting point of its own"))
    return Case.at(searched, searched.zeros() if own is None else own, radius, batch_size, seed)


def _named(space: Space) -> str:
    names = space.names
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return f"{len(names)} parameters ({', '.join(names[:_MOST_NAMES])}{more})"


def _level(findings: list[Finding], name: str) -> str:
    return next((finding.level for finding in findings if finding.name == name), "")


def _tried(check: Callable[[Case], Iterator[Finding]], case: Case, name: str) -> list[Finding]:
    try:
        return list(check(case))
    except USER_ERRORS as error:
        return [failed(name, error)]


def _time(case: Case, plan: PlannedRun, warm_up: float) -> Iterator[Finding]:
    began = time.perf_counter()
    case.objective.pair(case.x, case.v, case.radius, case.fresh_batch())
    step = time.perf_counter() - began
    slot = plan.points * step / 2.0 if plan.points else plan.steps * step
    work = f"{plan.points} points" if plan.points else f"{plan.steps} steps"
    text = f"{step / 2.0:.2g} s for one evaluation, {clock_text(slot)} for a slot of {work}"
    if warm_up > 10.0 * step and warm_up > 1.0:
        text += f", {clock_text(warm_up)} for the very first"
    if plan.rounds:
        rounds, slots, most = plan.rounds, plan.slots, "at most " if plan.at_most else ""
        text += (
            f"; a run of {most}{rounds} rounds takes {clock_text(rounds * slot)} if its clients work at once,"
            f" {clock_text(rounds * slots * slot)} if all {slots} slots of a round are done here"
        )
    level = "ok" if slot < 60.0 else "warning"
    if slot > plan.round_timeout:
        way_out = "" if plan.points else ", or lower local-steps"
        text += f"; no slot would be done within round-timeout = {plan.round_timeout:g} s: raise it{way_out}"
    elif level == "warning":
        way_out = "" if plan.points else "lower local-steps, or "
        text += f"; {way_out}let evaluations run at once (concurrency)"
    yield Finding("time", level, text)
