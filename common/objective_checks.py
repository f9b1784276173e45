"""check_objective: what an objective must be, tried out before a run is spent on it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from common.errors import ObjectiveError
from common.objective import Objective, checked_loss, starting_point
from common.search_units import in_search_units
from common.streams import stream
from common.typing import Indices, Vector
from common.user_traceback import raised

__all__ = ["Finding", "check_objective"]


@dataclass(frozen=True)
class Finding:
    """One thing that was tried. level: ok, warning (it runs, but badly) or error (it cannot run)."""

    name: str
    level: str
    text: str


def check_objective(
    objective: Objective, *, radius: float = 1e-4, batch_size: int = 64, steps: int = 50, seed: int = 0
) -> list[Finding]:
    """Evaluate the objective a few times as a run would and return what was found, the worst included.

    Finds wrong shapes and types, NaN, exceptions, changed arguments, different answers for the same
    batch, a shard that cannot be evaluated whole, noise larger than the finite difference, ``pair`` and
    ``values`` that disagree with ``value``, and tells the time of one evaluation. Never raises for what
    the objective does.
    """
    rng = stream(seed, "check")
    findings = []
    try:
        objective = in_search_units(objective)
        samples = len(objective)
        batch = rng.integers(0, samples, size=batch_size or samples, dtype=np.intp)
        v = rng.standard_normal(objective.dim)
    except Exception as error:
        return [Finding("size", "error", _said(error))]
    findings.append(Finding("size", "ok", f"{objective.dim} parameters, {samples} samples"))
    try:
        own = starting_point(objective, seed)
        x = objective.zeros() if own is None else own
    except Exception as error:
        return [*findings, Finding("initial", "error", _said(error))]
    try:
        began = time.perf_counter()
        loss = checked_loss(objective.value(x.copy(), batch.copy()))  # whether it changes them is asked below
        seconds = time.perf_counter() - began
    except Exception as error:
        return [*findings, Finding("value", "error", _said(error))]
    findings.append(Finding("value", "ok", f"{loss:.6g} at the starting point"))
    for check in (_purity, _repeats, _whole, _pair, _values, _noise):
        # Answers that differ by themselves cannot be compared; the warning about that has been given.
        if check not in (_pair, _values) or _level(findings, "repeats") == "ok":
            findings.extend(_tried(check, objective, x, v, radius, batch))
    slot = 2 * steps * seconds
    level = "ok" if slot < 60.0 else "warning"
    findings.append(
        Finding("time", level, f"{seconds:.2g} s for one evaluation, {slot:.2g} s for a slot of {steps} steps")
    )
    return findings


def _level(findings: list[Finding], name: str) -> str:
    return next(finding.level for finding in findings if finding.name == name)


_Check = Callable[[Objective, Vector, Vector, float, Indices], Iterator[Finding]]


def _tried(check: _Check, *arguments: Any) -> list[Finding]:
    try:
        return list(check(*arguments))
    except Exception as error:
        return [Finding(check.__name__.strip("_"), "error", _said(error))]


def _said(error: Exception) -> str:
    return str(error) if isinstance(error, ObjectiveError) else raised(error)


def _purity(objective: Objective, x: Vector, v: Vector, radius: float, batch: Indices) -> Iterator[Finding]:
    mine, rows = x + v, batch.copy()
    before = mine.copy()
    objective.value(mine, rows)
    changed = [name for name, a, b in (("x", mine, before), ("batch", rows, batch)) if not np.array_equal(a, b)]
    if changed:
        yield Finding("arguments", "error", f"value() changes its argument {' and '.join(changed)}; work on a copy")
    else:
        yield Finding("arguments", "ok", "left unchanged")


def _repeats(objective: Objective, x: Vector, v: Vector, radius: float, batch: Indices) -> Iterator[Finding]:
    answers = [checked_loss(objective.value(x + radius * v, batch)) for _ in range(3)]
    spread = max(answers) - min(answers)
    if spread == 0.0:
        yield Finding("repeats", "ok", "the same answer for the same batch")
        return
    yield Finding(
        "repeats",
        "warning",
        f"different answers for the same x and batch (spread {spread:.2g}); the slope then has an error near"
        f" {spread / (2 * radius):.2g}: seed the objective's own randomness by the batch, or use a larger radius",
    )


def _whole(objective: Objective, x: Vector, v: Vector, radius: float, batch: Indices) -> Iterator[Finding]:
    """The whole shard comes as a slice: to evaluate x, and in every step with batch-size 0."""
    checked_loss(objective.value(x, slice(None)))
    figures = objective.evaluate(x)
    if "loss" in figures:
        yield Finding("whole", "ok", "the whole shard can be evaluated")
    else:
        yield Finding("whole", "error", f"evaluate() must return a 'loss', got {', '.join(figures) or 'nothing'}")


def _pair(objective: Objective, x: Vector, v: Vector, radius: float, batch: Indices) -> Iterator[Finding]:
    got = [checked_loss(value) for value in objective.pair(x, v, radius, batch)]
    wanted = [checked_loss(objective.value(x + sign * radius * v, batch)) for sign in (1.0, -1.0)]
    yield _agreement("pair", got, wanted)


def _values(objective: Objective, x: Vector, v: Vector, radius: float, batch: Indices) -> Iterator[Finding]:
    points = np.stack([x, x + v])
    got = np.asarray(objective.values(points, batch))
    if got.shape != (2,) or got.dtype != np.float64:
        yield Finding(
            "values",
            "error",
            f"values() must return a float64 array of shape (2,), got {got.dtype} {got.shape}",
        )
        return
    yield _agreement("values", got.tolist(), [checked_loss(objective.value(point, batch)) for point in points])


def _agreement(name: str, got: list[float], wanted: list[float]) -> Finding:
    if len(got) == len(wanted) and np.allclose(got, wanted, rtol=1e-9, atol=1e-12):
        return Finding(name, "ok", "agrees with value()")
    return Finding(name, "error", f"{name}() gives {got}, value() gives {wanted} for the same points")


def _noise(objective: Objective, x: Vector, v: Vector, radius: float, batch: Indices) -> Iterator[Finding]:
    """Compare the second difference at the radius with the one that smoothness predicts from ten times the radius.

    For a smooth F the second difference falls with the square of the radius; rounding does not.
    """

    middle = checked_loss(objective.value(x, batch))

    def second(length: float) -> tuple[float, float]:
        high, low = (checked_loss(value) for value in objective.pair(x, v, length, batch))
        return abs(high - 2.0 * middle + low), abs(high - low)

    # Rounding may cancel at one length; at four without a common measure it hardly does.
    bends, differences = zip(*(second(stretch * radius) for stretch in (1.0, 1.13, 1.29, 1.37)), strict=True)
    difference = max(differences)
    expected = second(10.0 * radius)[0] / 100.0
    noise = max(0.0, max(bends) - 4.0 * expected)
    if difference == 0.0:
        yield Finding(
            "radius",
            "warning",
            f"F does not change within radius {radius:g}; a larger radius may be needed, or F is flat",
        )
    elif noise > 0.05 * difference:
        better = radius * max(10.0, 20.0 * noise / difference)
        yield Finding(
            "radius",
            "warning",
            f"rounding or noise of {noise:.2g} against a difference of {difference:.2g} at radius {radius:g};"
            f" try radius = {better:.0e}, and compute in float64",
        )
    else:
        yield Finding("radius", "ok", f"the difference at radius {radius:g} stands clear of rounding")
