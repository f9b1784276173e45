"""Local steps of a linear model in one compiled loop.

A minibatch is read in place, once a step for both w.x and v.x, and only where rows are not zero: in groups of four
columns where these are at least half full (``column_groups``), else entry by entry. A whole
shard is projected on all directions of a block by one product, X V^T, and then a step costs O(rows).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from zofedht.client.kernels.column_groups import rows_of, sums_of_groups
from zofedht.client.kernels.losses import CODES, totals
from zofedht.client.kernels.slot import Rules, move
from zofedht.common.models.linear import LinearObjective
from zofedht.common.random.jit import compiled, compiled_products
from zofedht.common.typing import Indices, Matrix, Vector

__all__ = ["steps_of_block"]


def steps_of_block(
    objective: LinearObjective,
    w: Vector,
    v: Matrix,
    batches: Indices | None,
    rules: Rules,
    slopes: Vector,
    losses: Vector,
) -> None:
    """Take one step along each row of v, changing w (n,) in place; write slopes and losses, (steps,) each.

    ``batches`` holds the samples of each step, (steps, b), or is None for the whole shard. A slope that is
    not finite ends the loop, and is written.
    """
    code = CODES[objective.loss]
    if batches is None:
        projected = np.ascontiguousarray((objective.features @ v.T).T)
        scores = objective.features @ w
        _on_projections(code, scores, projected, objective.target, w, v, rules, slopes, losses)
    else:
        bounds, columns, values = rows_of(objective)
        _on_rows(code, bounds, columns, values, objective.target, w, v, batches, rules, slopes, losses)


@compiled_products
def _on_rows(
    code: Any, bounds: Any, columns: Any, values: Any, target: Any, w: Any, v: Any, batches: Any, rules: Any,
    slopes: Any, losses: Any,
) -> None:  # fmt: skip
    upper, lower, _, _ = rules
    size = batches.shape[1]
    low, delta, y = np.empty(size), np.empty(size), np.empty(size)
    for k in range(v.shape[0]):
        direction = v[k]
        for i in range(size):
            row = batches[k, i]
            if values.ndim == 2:  # known when it is compiled
                start, along = sums_of_groups(columns, values, w, direction, bounds[row], bounds[row + 1])
                low[i], delta[i], y[i] = start + lower * along, (upper - lower) * along, target[row]
                continue
            # x.w and x.v of one row in pairs of running sums: one alone would wait for each addition to end before
            # the next begins. Written out, since a call with five arrays costs a third of the row. Unsigned places:
            # numba would look at each signed one for counting from the end.
            s0, s1, d0, d1 = 0.0, 0.0, 0.0, 0.0
            here, end = np.uintp(bounds[row]), np.uintp(bounds[row + 1])
            for _ in range((end - here) // np.uintp(2)):
                there = here + np.uintp(1)
                column, other = np.uintp(columns[here]), np.uintp(columns[there])
                s0 += values[here] * w[column]
                d0 += values[here] * direction[column]
                s1 += values[there] * w[other]
                d1 += values[there] * direction[other]
                here += np.uintp(2)
            if here < end:
                column = np.uintp(columns[here])
                s0 += values[here] * w[column]
                d0 += values[here] * direction[column]
            along = d0 + d1
            low[i], delta[i], y[i] = s0 + s1 + lower * along, (upper - lower) * along, target[row]
        change, loss = totals(code, low, delta, y)
        if not move(change / size, loss / size, k, w, direction, rules, slopes, losses):
            return


@compiled
def _on_projections(
    code: Any, scores: Any, projected: Any, target: Any, w: Any, v: Any, rules: Any, slopes: Any, losses: Any
) -> None:
    upper, lower, step_size, _ = rules
    rows = target.shape[0]
    for k in range(v.shape[0]):
        direction, along = v[k], projected[k]
        change, loss = totals(code, scores + lower * along, (upper - lower) * along, target)
        if not move(change / rows, loss / rows, k, w, direction, rules, slopes, losses):
            return
        length = step_size * slopes[k]
        for row in range(rows):
            scores[row] -= length * along[row]
