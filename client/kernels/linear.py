"""Local steps of a linear model in one compiled loop.

A minibatch is read in place, once for two of w.x and all v.x of a step, and only where rows are not zero: in groups of
four columns where these are at least half full (``column_groups``), else entry by entry. A whole shard is projected on
all directions of a block by one product, X V^T, and then a step costs O(rows).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from zofedht.client.kernels.column_groups import rows_of, sums_of_groups
from zofedht.client.kernels.losses import CODES, totals
from zofedht.client.kernels.slot import Blocks, Rules, measured, move
from zofedht.common.models.linear import LinearObjective
from zofedht.common.random.jit import compiled, compiled_products
from zofedht.common.typing import Indices, Matrix, Vector

__all__ = ["steps_of_block"]


def steps_of_block(
    objective: LinearObjective,
    w: Vector,
    v: Blocks,
    batches: Indices | None,
    rules: Rules,
    slopes: Matrix,
    losses: Matrix,
) -> None:
    """Take one step along each of the q rows of v[k], (steps, q, n), changing w (n,) in place.

    Slopes and losses are written, (steps, q) each. ``batches`` holds the samples of each step, (steps, b), or is None
    for the whole shard. A slope that is not finite ends the loop, and is written.
    """
    code = CODES[objective.loss]
    if batches is None:
        each = v.reshape(-1, w.shape[0])
        projected = np.ascontiguousarray((objective.features @ each.T).T).reshape(*v.shape[:2], -1)
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
    size, count = batches.shape[1], v.shape[1]
    products = np.empty((count + 2, size))  # of the rows with w, v_1 .. v_q; two are made at a time
    low, delta, y = np.empty(size), np.empty(size), np.empty(size)
    for k in range(v.shape[0]):
        for two in range(0, count + 1, 2):
            one = w if two == 0 else v[k, two - 1]
            other = v[k, min(two, count - 1)]
            for i in range(size):
                row = batches[k, i]
                if values.ndim == 2:  # known when it is compiled
                    both = sums_of_groups(columns, values, one, other, bounds[row], bounds[row + 1])
                    products[two, i], products[two + 1, i] = both
                    continue
                # Two products of one row in pairs of running sums: one alone would wait for each addition to end
                # before the next begins. Written out, since a call with five arrays costs a third of the row. Unsigned
                # places: numba would look at each signed one for counting from the end.
                s0, s1, d0, d1 = 0.0, 0.0, 0.0, 0.0
                here, end = np.uintp(bounds[row]), np.uintp(bounds[row + 1])
                for _ in range((end - here) // np.uintp(2)):
                    there = here + np.uintp(1)
                    column, following = np.uintp(columns[here]), np.uintp(columns[there])
                    s0 += values[here] * one[column]
                    d0 += values[here] * other[column]
                    s1 += values[there] * one[following]
                    d1 += values[there] * other[following]
                    here += np.uintp(2)
                if here < end:
                    column = np.uintp(columns[here])
                    s0 += values[here] * one[column]
                    d0 += values[here] * other[column]
                products[two, i], products[two + 1, i] = s0 + s1, d0 + d1
        for i in range(size):
            y[i] = target[batches[k, i]]
        for j in range(count):
            for i in range(size):
                along = products[j + 1, i]
                low[i], delta[i] = products[0, i] + lower * along, (upper - lower) * along
            change, loss = totals(code, low, delta, y)
            if not measured(change / size, loss / size, j, w, v[k, j], rules, slopes[k], losses[k]):
                return
        for j in range(count):
            move(j, w, v[k, j], rules, slopes[k])


@compiled
def _on_projections(
    code: Any, scores: Any, projected: Any, target: Any, w: Any, v: Any, rules: Any, slopes: Any, losses: Any
) -> None:
    upper, lower, step_size, _ = rules
    rows = target.shape[0]
    for k in range(v.shape[0]):
        for j in range(v.shape[1]):
            along = projected[k, j]
            change, loss = totals(code, scores + lower * along, (upper - lower) * along, target)
            if not measured(change / rows, loss / rows, j, w, v[k, j], rules, slopes[k], losses[k]):
                return
        for j in range(v.shape[1]):
            move(j, w, v[k, j], rules, slopes[k])
            length = step_size * slopes[k, j]
            for row in range(rows):
                scores[row] -= length * projected[k, j, row]
