"""Local steps of a linear model in one compiled loop.

A minibatch is read in place, once a step for both w.x and v.x, and only where rows are not zero. A whole
shard is projected on all directions of a block by one product, X V^T, and then a step costs O(rows).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from client.compiled_losses import CODES, change_of_loss, loss_of
from client.compiled_steps import move
from common.jit import compiled
from common.objectives.linear import LinearObjective
from common.typing import Indices, Matrix, Vector

__all__ = ["steps_of_block"]


def steps_of_block(
    objective: LinearObjective,
    w: Vector,
    v: Matrix,
    batches: Indices | None,
    ends: tuple[float, float],
    step_size: float,
) -> tuple[Vector, Vector]:
    """Take one step along each row of v, changing w (n,) in place; return slopes and losses, (steps,) each.

    ``batches`` holds the samples of each step, (steps, b), or is None for the whole shard. A slope that is
    not finite ends the loop, and is in the answer.
    """
    code = CODES[objective.loss]
    slopes, losses = np.zeros(len(v)), np.zeros(len(v))
    rules = (*ends, step_size, objective.l2)
    if batches is None:
        projected = np.ascontiguousarray((objective.features @ v.T).T)
        scores = objective.features @ w
        _on_projections(code, scores, projected, objective.target, w, v, rules, slopes, losses)
    else:
        _on_rows(code, *objective.rows, objective.target, w, v, batches, rules, slopes, losses)
    return slopes, losses


@compiled
def _on_rows(
    code: Any, bounds: Any, columns: Any, values: Any, target: Any, w: Any, v: Any, batches: Any, rules: Any, slopes: Any,
    losses: Any,
) -> None:  # fmt: skip
    upper, lower, _, _ = rules
    size = batches.shape[1]
    for k in range(v.shape[0]):
        change, loss, direction = 0.0, 0.0, v[k]
        for i in range(size):
            row = batches[k, i]
            score, along = _score(bounds[row], bounds[row + 1], columns, values, w, direction)
            low = score + lower * along
            change += change_of_loss(code, low, (upper - lower) * along, target[row])
            loss += loss_of(code, low, target[row])
        if not move(change / size, loss / size, k, w, direction, rules, slopes, losses):
            return


@compiled
def _score(start: Any, stop: Any, columns: Any, values: Any, w: Any, v: Any) -> Any:
    # Four running sums: one alone would wait for each addition to end before the next begins. Unsigned
    # columns: numba would look at each signed one for counting from the end. Not compiled_sums: vector gathers
    # are slower than plain loads on many processors.
    s0, s1, d0, d1 = 0.0, 0.0, 0.0, 0.0
    even = start + (stop - start) // 2 * 2
    for at in range(start, even, 2):
        here, there = np.uintp(columns[at]), np.uintp(columns[at + 1])
        s0 += values[at] * w[here]
        d0 += values[at] * v[here]
        s1 += values[at + 1] * w[there]
        d1 += values[at + 1] * v[there]
    if even < stop:
        here = np.uintp(columns[even])
        s0 += values[even] * w[here]
        d0 += values[even] * v[here]
    return s0 + s1, d0 + d1


@compiled
def _on_projections(
    code: Any, scores: Any, projected: Any, target: Any, w: Any, v: Any, rules: Any, slopes: Any, losses: Any
) -> None:
    upper, lower, step_size, _ = rules
    rows = target.shape[0]
    for k in range(v.shape[0]):
        change, loss, direction = 0.0, 0.0, v[k]
        for row in range(rows):
            along = projected[k, row]
            low = scores[row] + lower * along
            change += change_of_loss(code, low, (upper - lower) * along, target[row])
            loss += loss_of(code, low, target[row])
        if not move(change / rows, loss / rows, k, w, direction, rules, slopes, losses):
            return
        for row in range(rows):
            scores[row] -= step_size * slopes[k] * projected[k, row]
