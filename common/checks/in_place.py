"""Try out an objective in place: blocks, sums, copies, repeated answers, memory and time."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from zofedht.common.checks.check import failed
from zofedht.common.checks.finding import Finding, PlannedRun, clock_text
from zofedht.common.errors import ObjectiveError
from zofedht.common.machine.memory import lacking
from zofedht.common.objective.base import checked_loss
from zofedht.common.objective.user_traceback import USER_ERRORS
from zofedht.common.random.streams import Address, stream
from zofedht.common.tensors.blocks import total_bytes
from zofedht.common.tensors.directions import PIECE, Direction
from zofedht.common.tensors.loading import checked_in_place, metrics_in_place
from zofedht.common.tensors.objective import InPlaceObjective
from zofedht.common.tensors.stiff import checked_stiff
from zofedht.common.tensors.trail import TrailLaw
from zofedht.common.typing import Indices

__all__ = ["check_in_place"]

_SHOWN = 5  # names of blocks
_ULPS = 4.0  # that an add may differ by from what it should be: devices round otherwise, and all clients alike


def check_in_place(
    objective: InPlaceObjective,
    *,
    radius: float,
    probe: str,
    batch_size: int,
    seed: int,
    plan: PlannedRun,
    law: TrailLaw,
) -> list[Finding]:
    """Evaluate the objective as a run would, and return the findings; the parameters are put back at the end.

    The checks find wrong blocks, an ``add`` that does something else, a ``put`` that does not put back, different
    losses for the same parameters and samples, a shard that cannot be evaluated whole, too little memory, also for the
    guide of ``law``, and a lack of stiff directions where it needs some. The last finding tells the time of an
    evaluation, of a direction and of the run.
    """
    try:
        checked_in_place(objective, type(objective).__name__)
    except USER_ERRORS as error:
        return [failed("size", error)]
    samples, size = len(objective), total_bytes(objective.blocks)
    shard = f"{samples} samples" if samples > 1 else "no samples: every evaluation is a whole one"
    parts = f"{objective.dim:,} parameters in {len(objective.blocks)} blocks, {size / 1e6:,.1f} MB, {shard}"
    findings = [Finding("size", "ok", parts)]
    largest = max(block.bytes for block in objective.blocks)
    guide, what = law.guide_bytes(objective.dim), "the largest tensor and a piece"
    if guide:
        what = f"the largest tensor, a piece, and a guide of {law.memory} moves, {guide / 1e6:,.1f} MB,"
    if text := lacking(largest + 16 * PIECE + guide, f"beside {size / 1e6:,.1f} MB of parameters, {what}"):
        return [*findings, Finding("memory", "error", text)]
    try:
        law.guide(objective.blocks, checked_stiff(objective.stiff, objective.blocks))
    except ObjectiveError as error:
        return [*findings, failed("stiff", error)]
    batch = _batch(samples, batch_size, seed)
    v = Direction(Address(seed, 0, 0), 0, probe)
    with tempfile.TemporaryDirectory() as folder:
        kept = Path(folder) / "start.npz"
        try:
            objective.save(kept)
            for check in (_puts, _value, _repeats, _adds, _whole, _time):
                found = list(check(objective, v, radius, batch, plan))
                findings += found
                objective.load(kept)
                if any(one.level == "error" for one in found):
                    break
        except USER_ERRORS as error:
            findings.append(failed("value", error))
    return findings


def _batch(samples: int, batch_size: int, seed: int) -> Indices | slice:
    if samples == 1 or batch_size == 0:
        return slice(None)
    return stream(seed, "check").integers(0, samples, size=batch_size, dtype=np.intp)


def _puts(
    objective: InPlaceObjective, v: Direction, radius: float, batch: Indices | slice, plan: PlannedRun
) -> Iterator[Finding]:
    start = objective.state_digest()
    for index in range(len(objective.blocks)):
        objective.put(index, np.array(objective.tensor(index)))
    if objective.state_digest() != start:
        yield Finding("put", "error", "put() of what tensor() gave changes the parameters; it must set every bit")


def _value(
    objective: InPlaceObjective, v: Direction, radius: float, batch: Indices | slice, plan: PlannedRun
) -> Iterator[Finding]:
    yield Finding("value", "ok", f"{checked_loss(objective.value(batch)):.6g} at the start")


def _repeats(
    objective: InPlaceObjective, v: Direction, radius: float, batch: Indices | slice, plan: PlannedRun
) -> Iterator[Finding]:
    before = objective.state_digest()
    answers = [checked_loss(objective.value(batch)) for _ in range(3)]
    metrics_in_place(objective)
    if objective.state_digest() != before:
        yield Finding("repeats", "error", "value() or evaluate() changes the parameters; only a run's sums may")
        return
    spread = max(answers) - min(answers)
    if spread == 0.0:
        yield Finding("repeats", "ok", "the same loss for the same parameters and samples")
        return
    yield Finding(
        "repeats",
        "warning",
        f"different losses for the same parameters and samples (spread {spread:.2g}): put the net into evaluation mode,"
        " so that no dropout draws and no batch norm learns, or seed its randomness by the batch",
    )


def _adds(
    objective: InPlaceObjective, v: Direction, radius: float, batch: Indices | slice, plan: PlannedRun
) -> Iterator[Finding]:
    first = {index: np.array(objective.tensor(index).reshape(-1)[:PIECE]) for index in range(len(objective.blocks))}
    low = checked_loss(objective.value(batch))
    objective.add(v, radius)
    wrong = []
    for index, block in enumerate(objective.blocks):
        if block.dtype == "bfloat16":
            continue  # NumPy does not know its sums
        part, numbers = next(v.pieces(index, block.size))
        wanted = first[index].astype(np.float64) + radius * numbers
        found = objective.tensor(index).reshape(-1)[part].astype(np.float64)
        ulp = np.spacing(np.maximum(np.abs(wanted), radius).astype(block.numpy_dtype)).astype(np.float64)
        if not np.all(np.abs(found - wanted) <= _ULPS * ulp):
            wrong.append(block.name)
    if wrong:
        names = ", ".join(wrong[:_SHOWN]) + (f" and {len(wrong) - _SHOWN} more" if len(wrong) > _SHOWN else "")
        yield Finding("add", "error", f"add() does not add coefficient * v to {names}")
        return
    yield Finding("add", "ok", "leads where it should")
    if checked_loss(objective.value(batch)) == low:
        text = f"the loss does not change within radius = {radius:g}; a larger radius shows slopes, if there are any"
        yield Finding("radius", "warning", text)


def _whole(
    objective: InPlaceObjective, v: Direction, radius: float, batch: Indices | slice, plan: PlannedRun
) -> Iterator[Finding]:
    metrics = metrics_in_place(objective)
    odd = [f"{name} = {value!r}" for name, value in metrics.items() if not np.isfinite(value)]
    if odd:
        yield Finding("whole", "error", f"evaluate() must return a number for each name, got {', '.join(odd)}")
        return
    yield Finding("whole", "ok", "the whole shard can be evaluated")


def _time(
    objective: InPlaceObjective, v: Direction, radius: float, batch: Indices | slice, plan: PlannedRun
) -> Iterator[Finding]:
    began = time.perf_counter()
    objective.value(batch)
    evaluation = time.perf_counter() - began
    objective.add(v, radius)
    added = time.perf_counter() - began - evaluation
    slot = plan.steps * (2 * evaluation + 3 * added)
    text = (
        f"an evaluation takes {clock_text(evaluation)}, a direction {clock_text(added)}, a slot of {plan.steps} steps"
    )
    text += f" about {clock_text(slot)}"
    if plan.rounds:
        text += f", and {plan.rounds} rounds about {clock_text(plan.rounds * slot)} where clients work at once"
    late = slot > plan.round_timeout
    yield Finding("time", "warning" if late else "ok", text + ("; raise round-timeout" if late else ""))
