"""check_objective: try out what an objective must be, before a run is spent on it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from zofedht.common.checks.finding import Case, Finding, PlannedRun, clock_text
from zofedht.common.checks.parameters import check_parameters
from zofedht.common.checks.radius import check_radius
from zofedht.common.errors import ObjectiveError
from zofedht.common.objective.base import Objective, checked_loss
from zofedht.common.objective.loading import checked_objective, starting_point
from zofedht.common.objective.named import space_of
from zofedht.common.objective.scaling import given_start, in_search_units, units_of
from zofedht.common.objective.user_traceback import USER_ERRORS, raised, user_traceback
from zofedht.common.space.space import Space

__all__ = ["Finding", "PlannedRun", "check_objective", "failed"]

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
    that changes nothing, different
    losses for the same batch, a shard that cannot be evaluated whole, ``pair`` and ``values`` that disagree with
    ``value``, and evaluations that disturb each other. Where noise, rounding or a staircase hides the slopes, the
    finding names a larger radius that was tried. The last finding tells the time of an evaluation and of the run.

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
    findings: list[Finding] = []
    try:
        case = _begin(objective, findings, radius, batch_size, seed, x0)
        with _stage("value"):
            began = time.perf_counter()
            loss = checked_loss(case.value(case.x.copy()))  # the check of the arguments comes later
            warm_up = time.perf_counter() - began
    except _StoppedError as stopped:
        return [*findings, stopped.finding]
    findings.append(Finding("value", "ok", f"{loss:.6g} at the starting point"))
    for check in (_arguments, _repeats, _whole, _pair, _values, _threads, check_parameters, check_radius):
        # Losses that differ for the same x and batch cannot be compared; a warning of that has been given.
        if check not in (_pair, _values, _threads, check_parameters) or _level(findings, "repeats") == "ok":
            findings.extend(_tried(check, case))
    findings.extend(_tried(lambda case: _time(case, plan or PlannedRun(), warm_up), case, "time"))
    return findings


def failed(name: str, error: BaseException) -> Finding:
    """Return the error finding of an exception: one line, and the traceback of the user's own code."""
    ours = isinstance(error, ObjectiveError)
    cause = error.__cause__ if ours else error
    return Finding(name, "error", str(error) if ours else raised(error), user_traceback(cause) if cause else "")


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
    return next(finding.level for finding in findings if finding.name == name)


def _tried(check: Callable[[Case], Iterator[Finding]], case: Case, name: str = "") -> list[Finding]:
    try:
        return list(check(case))
    except USER_ERRORS as error:
        return [failed(name or check.__name__.removeprefix("check_").strip("_"), error)]


def _arguments(case: Case) -> Iterator[Finding]:
    """No method may change its arguments; a run calls all methods."""
    objective = case.user
    x, v, batch = case.user_point(case.x + case.radius * case.v), case.v.copy(), case.fresh_batch()
    calls: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
        "value": (objective.value, {"x": x, "batch": batch}),
        "pair": (objective.pair, {"w": x, "v": v, "radius": 0.0, "batch": batch}),
        "values": (objective.values, {"ws": np.stack([x, x]), "batch": batch}),
        "evaluate": (objective.evaluate, {"x": x}),
    }
    for method, (call, arguments) in calls.items():
        given = {name: value.copy() if isinstance(value, np.ndarray) else value for name, value in arguments.items()}
        try:
            call(*given.values())
        except USER_ERRORS:
            if method == "value":
                raise
            continue  # the check of that method tells it
        changed = [
            name
            for name, value in arguments.items()
            if isinstance(value, np.ndarray) and not np.array_equal(value, given[name])
        ]
        if changed:  # the following methods may call this one
            text = f"{method}() changes its argument {' and '.join(changed)}; work on a copy"
            yield Finding("arguments", "error", text)
            return
    yield Finding("arguments", "ok", "left unchanged")


def _repeats(case: Case) -> Iterator[Finding]:
    point = case.x + case.radius * case.v
    answers = [checked_loss(case.value(point)) for _ in range(2)]
    checked_loss(case.value(case.x - case.radius * case.v))  # a memory of another point must not show
    answers.append(checked_loss(case.value(point)))
    spread = max(answers) - min(answers)
    if spread == 0.0:
        yield Finding("repeats", "ok", "the same loss for the same batch")
        return
    differ = f"different losses for the same x and batch (spread {spread:.2g})"
    way_out = (
        "seed the objective's own randomness by the batch, or use a radius that is clear of the noise (see radius)"
    )
    yield Finding("repeats", "warning", f"{differ}: {way_out}")


def _whole(case: Case) -> Iterator[Finding]:
    """The whole shard comes as a slice: in a full evaluation, and in every step with batch-size 0."""
    checked_loss(case.objective.value(case.x.copy(), slice(None)))
    metrics = case.objective.evaluate(case.x.copy())
    odd = [f"{name} = {value!r}" for name, value in metrics.items() if not _is_number(value)]
    if "loss" not in metrics:
        yield Finding("whole", "error", f"evaluate() must return a 'loss', got {', '.join(metrics) or 'nothing'}")
    elif odd:
        yield Finding("whole", "error", f"evaluate() must return a number for each name, got {', '.join(odd)}")
    else:
        yield Finding("whole", "ok", "the whole shard can be evaluated")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and bool(np.isfinite(value))


def _pair(case: Case) -> Iterator[Finding]:
    middle, along = case.user_probe()
    got = [checked_loss(value) for value in case.user.pair(middle, along, case.radius, case.fresh_batch())]
    ends = (middle + sign * case.radius * along for sign in (1.0, -1.0))
    yield _agreement("pair", got, [checked_loss(case.user.value(end, case.fresh_batch())) for end in ends])


def _values(case: Case) -> Iterator[Finding]:
    points = np.stack([case.x, case.x + case.v])
    got = np.asarray(case.objective.values(points, case.fresh_batch()))
    if got.shape != (2,) or got.dtype != np.float64:
        text = f"values() must return a float64 array of shape (2,), got {got.dtype} {got.shape}"
        yield Finding("values", "error", text)
        return
    yield _agreement("values", got.tolist(), [checked_loss(case.value(point)) for point in points])


def _agreement(name: str, got: list[float], wanted: list[float]) -> Finding:
    if len(got) == len(wanted) and np.allclose(got, wanted, rtol=1e-9, atol=1e-12):
        return Finding(name, "ok", "agrees with value()")
    return Finding(name, "error", f"{name}() gives {got}, value() gives {wanted} for the same points")


def _threads(case: Case) -> Iterator[Finding]:
    """Evaluations at once must give the losses of evaluations one after another."""
    count = case.user.concurrency
    if count == 1:
        return
    points = [case.x + sign * case.radius * case.v for sign in np.linspace(-1.0, 1.0, 4 * count)]
    alone = [checked_loss(case.value(point)) for point in points]
    together = np.asarray(Objective.values(case.user, case.user_point(np.stack(points)), case.fresh_batch()))
    if np.array_equal(alone, together):
        yield Finding("concurrency", "ok", f"{count} evaluations at once give the same losses as alone")
    else:
        text = f"{count} evaluations at once give other losses than alone; set concurrency = 1"
        yield Finding("concurrency", "error", f"{text}, or give each evaluation its own data")


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
        rounds, slots = plan.rounds, plan.slots
        text += (
            f"; a run of {rounds} rounds takes {clock_text(rounds * slot)} if its clients work at once,"
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
