"""F of one site: several points on the same samples, each a value or a cause; and all metrics of one x."""

from __future__ import annotations

import contextvars
import math
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np

from zofedht.common.errors import Cause, ObjectiveError
from zofedht.common.machine.blas import one_thread
from zofedht.common.objective.base import Objective, checked_loss
from zofedht.common.objective.scaling import in_user_units, units_of
from zofedht.common.objective.user_traceback import USER_ERRORS, raised_by_objective
from zofedht.common.typing import Indices, Matrix, Vector

__all__ = ["Answer", "check_points", "evaluate_points", "full_evaluation", "told_metrics"]

_SHARD = slice(None)


@dataclass(frozen=True)
class Answer:
    """F at one point: a value, or NaN and a cause."""

    value: float
    seconds: float = math.nan
    cause: Cause | None = None
    reason: str = ""

    @classmethod
    def lost(cls, cause: Cause, reason: str, seconds: float = math.nan) -> Answer:
        """Return an answer without a value."""
        line = " ".join(reason.split())  # it may come from another machine, and is shown on terminals
        return cls(math.nan, seconds, cause, "".join(c if c.isprintable() else "?" for c in line))


def evaluate_points(
    objective: Objective,
    points: Matrix,
    samples: Indices | slice = _SHARD,
    *,
    most_seconds: float = math.inf,
    error_text: Callable[[ObjectiveError], str] = str,
) -> list[Answer]:
    """Return F at the points, in their order.

    ``concurrency`` points are evaluated at once; an objective with its own ``values`` gets all points in one call.

    Parameters
    ----------
    objective : Objective
    points : (points, n)
        In the user's units.
    samples : (b,) integers or slice
        Those that F is evaluated on; the whole shard unless given.
    most_seconds : float
        After this time no evaluation begins, and the answers are those of the first points, at least one.
    error_text : callable
        Maps an error to the reason in an answer.

    Returns
    -------
    list of Answer

    Raises
    ------
    ObjectiveError
        When the points are not finite vectors of n numbers within the bounds.
    """
    plain = in_user_units(objective)
    check_points(objective, points)
    with one_thread(), np.errstate(over="ignore", invalid="ignore"):
        if type(plain).values is not Objective.values and len(points) > 1:
            return _together(plain, points, samples, error_text)
        return _apart(plain, points, samples, most_seconds, error_text)


def check_points(objective: Objective, points: Matrix) -> None:
    """Raise ObjectiveError unless the points are finite vectors of n numbers within the bounds."""
    dimension, units = objective.dim, units_of(objective)
    if points.ndim != 2 or points.shape[1] != dimension or not len(points) or not np.all(np.isfinite(points)):
        raise ObjectiveError.public(
            f"points must be a (points, {dimension}) array of finite numbers, got an array of shape {points.shape}"
        )
    if units is not None and not np.all((points >= units.lower) & (points <= units.upper)):
        raise ObjectiveError.public("points must lie within the bounds of this site's objective")


def _apart(
    objective: Objective,
    points: Matrix,
    samples: Indices | slice,
    most_seconds: float,
    error_text: Callable[[ObjectiveError], str],
) -> list[Answer]:
    """Evaluate each point by itself."""
    answers: list[Answer] = []
    began, width = perf_counter(), objective.concurrency
    with ThreadPoolExecutor(width, thread_name_prefix="evaluation") if width > 1 else nullcontext() as pool:
        while len(answers) < len(points):
            group = points[len(answers) : len(answers) + width]
            if pool is None:
                answers += [_one(objective, point, samples, error_text) for point in group]
            else:
                # A thread has its own settings for overflow and the like unless it is given ours.
                contexts = [contextvars.copy_context() for _ in group]
                jobs = [
                    pool.submit(c.run, _one, objective, x, samples, error_text)
                    for c, x in zip(contexts, group, strict=True)
                ]
                answers += [job.result() for job in jobs]
            if perf_counter() - began > most_seconds:
                break
    return answers


def _one(
    objective: Objective, point: Vector, samples: Indices | slice, error_text: Callable[[ObjectiveError], str]
) -> Answer:
    began = perf_counter()
    try:
        value = objective.value(point.copy(), samples)
    except USER_ERRORS as error:
        return Answer.lost("raised", error_text(raised_by_objective(error)), perf_counter() - began)
    return _judged(value, perf_counter() - began, error_text)


def _together(
    objective: Objective, points: Matrix, samples: Indices | slice, error_text: Callable[[ObjectiveError], str]
) -> list[Answer]:
    """Evaluate all points in one call; where that raises, one by one, so that the others are not lost with one."""
    began = perf_counter()
    try:
        values = objective.values(points.copy(), samples)
    except USER_ERRORS:
        return _apart(objective, points, samples, math.inf, error_text)
    seconds = (perf_counter() - began) / len(points)
    if not isinstance(values, np.ndarray) or values.shape != (len(points),):
        got = f"an array of shape {values.shape}" if isinstance(values, np.ndarray) else type(values).__name__
        text = f"values() must return one float64 number for each of {len(points)} points, got {got}"
        return [Answer.lost("not-a-loss", error_text(ObjectiveError.public(text)), seconds)] * len(points)
    return [_judged(value, seconds, error_text) for value in values]


def _judged(value: Any, seconds: float, error_text: Callable[[ObjectiveError], str]) -> Answer:
    try:
        return Answer(checked_loss(value), seconds)
    except ObjectiveError as error:
        return Answer.lost(error.cause, error_text(error), seconds)


def full_evaluation(objective: Objective, x: Vector) -> dict[str, float]:
    """Return the metrics of x on the whole shard by name.

    Raises ObjectiveError when the objective raises or gives no ``loss``.
    """
    with one_thread(), np.errstate(over="ignore", invalid="ignore"):  # a diverged x gives inf or NaN
        return told_metrics(lambda: objective.evaluate(x))


def told_metrics(evaluate: Callable[[], Mapping[str, float]]) -> dict[str, float]:
    """Return what a user's ``evaluate`` tells, by name.

    Raises ObjectiveError when it raises or gives no ``loss``.
    """
    try:
        metrics = {name: float(value) for name, value in evaluate().items()}
    except USER_ERRORS as error:
        raise raised_by_objective(error) from error
    if "loss" not in metrics:
        text = f"evaluate() must return a dict with 'loss' in it, got {', '.join(metrics) or 'none'}"
        raise ObjectiveError(text, cause="not-a-loss")
    return metrics
