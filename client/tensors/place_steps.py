"""The K local steps of a slot in place: Algorithm 1, lines 10-18, with no vector of n numbers.

w begins at x_r. A probe adds mu v, and the next sums take it away again by the same draws. Each such sum rounds, so w
drifts by at most half a unit in the last place for each of them, of which there are at most 3 for a direction. The slot
ends with x_r put back bit for bit. The last step is not taken: what is told is slopes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from zofedht.client.plan import Plan
from zofedht.client.steps.slot_result import SlotResult, all_failed
from zofedht.client.steps.step_slopes import by_spread, require_finite
from zofedht.common.errors import ObjectiveError
from zofedht.common.objective.base import checked_loss
from zofedht.common.objective.user_traceback import USER_ERRORS, raised_by_objective
from zofedht.common.tensors.directions import Direction
from zofedht.common.tensors.guide import Guided, plain
from zofedht.common.tensors.objective import InPlaceObjective
from zofedht.common.typing import Indices, Vector

__all__ = ["place_steps"]


class _Moves:
    """Sums that wait for the next evaluation, so that those of one tensor are done together.

    Two of them along one direction are one sum.
    """

    def __init__(self, objective: InPlaceObjective) -> None:
        self._objective = objective
        self._waiting: list[tuple[Direction | Guided, float]] = []

    def add(self, direction: Direction | Guided, coefficient: float) -> None:
        """Add to the parameters before the next evaluation."""
        if self._waiting and self._waiting[-1][0] is direction:
            coefficient += self._waiting.pop()[1]
        if coefficient:
            self._waiting.append((direction, coefficient))

    def value(self, batch: Indices | slice) -> float:
        """Return F where all sums lead."""
        waiting, self._waiting = self._waiting, []
        if waiting:
            self._objective.add_all(*plain([v for v, _ in waiting], [coefficient for _, coefficient in waiting]))
        return checked_loss(self._objective.value(batch))


def place_steps(objective: InPlaceObjective, plan: Plan, directions: Sequence[Direction | Guided]) -> SlotResult:
    """Take K zeroth-order steps along the K q directions of the slot, and leave the parameters where that led.

    Raises ObjectiveError, with its cause and step, when an evaluation fails or a slope is not finite; if such steps are
    skipped, only when all of them were.
    """
    spec, q = plan.spec, plan.spec.slopes_per_step
    slopes, losses = np.zeros((spec.local_steps, q)), np.full((spec.local_steps, q), math.nan)
    batches = plan.batches(len(objective))
    moves, errors = _Moves(objective), list[ObjectiveError]()
    for step in range(spec.local_steps):
        along = directions[step * q : (step + 1) * q]
        try:
            slopes[step], losses[step] = _probed(moves, along, spec.radius, spec.slope, batches[step], step)
        except ObjectiveError as error:
            if not spec.skips_steps:
                raise
            errors.append(error)
            continue
        if spec.slope_scale == "spread":
            slopes[step] = by_spread(slopes[step])
        for direction, slope in zip(reversed(along), reversed(slopes[step].tolist()), strict=True):
            moves.add(direction, -spec.step_size * slope)  # the last one is still probed: it takes one sum
    if len(errors) == spec.local_steps:
        raise all_failed(errors[0], spec.local_steps)
    taken = losses[~np.isnan(losses)]
    first = errors[0] if errors else None
    evaluations = spec.evaluations(len(objective))
    return SlotResult(
        np.empty(0), slopes.reshape(-1), float(np.mean(taken)), float(taken[0]), evaluations, len(errors), first
    )


def _probed(
    moves: _Moves, along: Sequence[Direction | Guided], radius: float, kind: str, batch: Indices | slice, step: int
) -> tuple[Vector, Vector]:
    """Return the slopes along the directions of a step, and the mean of the losses that gave each."""
    slopes, losses = np.empty(len(along)), np.empty(len(along))
    out, direction = 0.0, along[0]  # how far w is out along the direction
    try:
        base = moves.value(batch) if kind == "forward" else math.nan
        for number, direction in enumerate(along):
            moves.add(direction, radius)
            out = radius
            high = moves.value(batch)
            if kind == "forward":
                low, width = base, radius
            else:
                moves.add(direction, -2.0 * radius)
                out = -radius
                low, width = moves.value(batch), 2.0 * radius
            moves.add(direction, -out)
            out = 0.0
            slopes[number], losses[number] = (high - low) / width, low + 0.5 * (high - low)
            require_finite(float(slopes[number]), step)
    except USER_ERRORS as error:
        if out:
            moves.add(direction, -out)
        raise raised_by_objective(error, step=step) from error
    return slopes, losses
