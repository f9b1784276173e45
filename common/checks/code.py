"""Checks of an objective's code: what its methods return, what they change, and whether they agree."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from zofedht.common.checks.finding import Case, Finding
from zofedht.common.checks.parameters import check_parameters, evaluations_of_parameters
from zofedht.common.objective.base import Objective, checked_loss
from zofedht.common.objective.user_traceback import USER_ERRORS

__all__ = ["CODE_CHECKS", "CodeCheck"]

_POINTS_A_THREAD = 4


class CodeCheck(NamedTuple):
    """One check: its name, what it finds, the evaluations it takes at most, and whether noise makes it senseless."""

    name: str
    find: Callable[[Case], Iterator[Finding]]
    evaluations: Callable[[Case], int]
    compares: bool = False


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
        "seed the objective's own randomness by the batch, or use a radius that is clear of the noise (see radius);"
        " algorithm = cma-es needs none"
    )
    yield Finding("repeats", "warning", f"{differ}: {way_out}", number=spread)


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
    points = [case.x + sign * case.radius * case.v for sign in np.linspace(-1.0, 1.0, _POINTS_A_THREAD * count)]
    alone = [checked_loss(case.value(point)) for point in points]
    together = np.asarray(Objective.values(case.user, case.user_point(np.stack(points)), case.fresh_batch()))
    if np.array_equal(alone, together):
        yield Finding("concurrency", "ok", f"{count} evaluations at once give the same losses as alone")
    else:
        text = f"{count} evaluations at once give other losses than alone; set concurrency = 1"
        yield Finding("concurrency", "error", f"{text}, or give each evaluation its own data")


def _evaluations_of_threads(case: Case) -> int:
    count = case.user.concurrency
    return 0 if count == 1 else 2 * _POINTS_A_THREAD * count


CODE_CHECKS = (
    CodeCheck("arguments", _arguments, lambda case: 6),
    CodeCheck("repeats", _repeats, lambda case: 4),
    CodeCheck("whole", _whole, lambda case: 2),
    CodeCheck("pair", _pair, lambda case: 4, compares=True),
    CodeCheck("values", _values, lambda case: 4, compares=True),
    CodeCheck("concurrency", _threads, _evaluations_of_threads, compares=True),
    CodeCheck("parameters", check_parameters, evaluations_of_parameters, compares=True),
)
"""In their order. A method that the user has overridden may evaluate more often; each of its points counts once."""
