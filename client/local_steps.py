"""The K local steps of one slot: Algorithm 1, lines 10-18. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from client.linear_steps import linear_steps, pays_off
from common.directions import Directions, slot_directions
from common.errors import ObjectiveError
from common.objective import Objective
from common.objectives.linear import LinearObjective
from common.slopes import Probe, probe
from common.streams import stream
from common.typing import Indices, Vector
from common.user_traceback import raised

__all__ = ["Plan", "SlotResult", "local_steps"]


@dataclass(frozen=True)
class Plan:
    """What the steps of a slot are told."""

    law: Directions
    seed: int
    round: int
    slot: int
    step_size: float  # eta_r
    radius: float  # mu
    steps: int  # K
    batch_size: int  # b; 0: the whole shard
    slope: str  # central | forward
    skips: bool = False  # whether a step whose evaluation fails is skipped, instead of failing the slot

    def samples(self, shard: int) -> int:
        """Return how many samples a step is measured on: of a shard of one sample there is only the whole."""
        return shard if shard == 1 else self.batch_size or shard

    def batches(self, samples: int) -> Iterator[Indices | slice]:
        """Yield the samples of each step: drawn with replacement, or all of them in their own order."""
        if self.batch_size == 0 or samples == 1:
            yield from (slice(None) for _ in range(self.steps))
        else:
            rng = stream(self.seed, "minibatch", self.round, self.slot)
            yield from rng.integers(0, samples, size=(self.steps, self.batch_size), dtype=np.intp)


@dataclass(frozen=True)
class SlotResult:
    """move: w_K - x_r, (n,). slopes: c_1..c_K, (K,), 0 for a skipped step. loss: mean loss of the probes."""

    move: Vector
    slopes: Vector
    loss: float
    evaluations: int
    skipped: int = 0
    reason: str = ""  # why the first skipped step was


def local_steps(objective: Objective, x: Vector, plan: Plan) -> SlotResult:
    """Take K zeroth-order steps from x and return where they led.

    Raises ObjectiveError, naming round and step, when an evaluation fails or a slope is not finite; if such steps
    are skipped, only when all of them were.
    """
    reasons: list[str] = []
    projected = isinstance(objective, LinearObjective) and pays_off(objective, plan.batch_size)
    if projected and isinstance(objective, LinearObjective):
        batches = list(plan.batches(len(objective)))
        blocks = slot_directions(plan.law, plan.steps, plan.seed, plan.round, plan.slot)
        move, slopes, losses = linear_steps(
            objective, x, blocks, batches, step_size=plan.step_size, radius=plan.radius, slope=plan.slope
        )
        if plan.skips and not np.all(np.isfinite(slopes)):
            projected = False  # what is skipped must be known as it happens
        else:
            for step, slope in enumerate(slopes):
                _require_finite(float(slope), plan, step)
    if not projected:
        move, slopes, losses = _any_steps(objective, x, plan, reasons)
        if len(reasons) == plan.steps:
            raise ObjectiveError(f"{reasons[0]}; so it went in all {plan.steps} steps")
        if reasons:
            losses = losses[np.isfinite(losses)]
    samples = plan.samples(len(objective))
    # Counted as the algorithm asks for them: two ends, each on the samples of the step.
    evaluations = 2 * samples * plan.steps
    return SlotResult(move, slopes, float(np.mean(losses)), evaluations, len(reasons), reasons[0] if reasons else "")


def _any_steps(objective: Objective, x: Vector, plan: Plan, reasons: list[str]) -> tuple[Vector, Vector, Vector]:
    w = x.copy()
    slopes, losses = np.empty(plan.steps), np.empty(plan.steps)
    batches = plan.batches(len(objective))
    step = 0
    for block in slot_directions(plan.law, plan.steps, plan.seed, plan.round, plan.slot):
        for v in block:
            try:
                slopes[step], losses[step] = _checked_probe(objective, w, v, next(batches), plan, step)  # line 15
            except ObjectiveError as error:
                if not plan.skips:
                    raise
                reasons.append(str(error))
                slopes[step], losses[step] = 0.0, math.nan
            else:
                w -= plan.step_size * slopes[step] * v  # line 16
            step += 1
    return w - x, slopes, losses


def _checked_probe(objective: Objective, w: Vector, v: Vector, batch: Indices | slice, plan: Plan, step: int) -> Probe:
    try:
        measured = probe(objective, w, v, plan.radius, batch, plan.slope)
    except ObjectiveError as error:
        raise ObjectiveError(f"{_place(plan, step)}: {error}") from error
    except Exception as error:
        raise ObjectiveError(f"{_place(plan, step)}: the objective {raised(error)}") from error
    _require_finite(measured.slope, plan, step)
    return measured


def _place(plan: Plan, step: int) -> str:
    return f"round {plan.round}, step {step}"


def _require_finite(slope: float, plan: Plan, step: int) -> None:
    if not math.isfinite(slope):
        raise ObjectiveError(
            f"{_place(plan, step)}: the slope is {slope}, not a finite number; a smaller step-size or radius usually"
            " cures this"
        )
