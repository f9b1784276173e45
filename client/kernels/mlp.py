"""Local steps of the one-hidden-layer network with compiled loops.

The first layer is linear in the weights, so X W and X V serve both ends, and X W serves all slopes of a step. Rows with
few entries are read in place, where they are not zero; others go through BLAS.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from zofedht.client.kernels.losses import LOGISTIC_CODE, sigmoid, totals
from zofedht.client.kernels.slot import Blocks, Rules, measured, move
from zofedht.common.models.mlp import MlpObjective
from zofedht.common.random.jit import compiled_sums
from zofedht.common.typing import Indices, Matrix, Vector, is_sparse

__all__ = ["steps_of_block"]

_DENSE = 0.2
"""Share of entries that are not zero, from which BLAS on whole rows is as fast."""


def steps_of_block(
    objective: MlpObjective,
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
    everything = np.arange(len(objective)) if batches is None else None
    shape = (len(objective) if batches is None else batches.shape[1], objective.hidden)
    at, along = np.empty(shape), np.empty(shape)
    first = w.shape[0] - objective.hidden - (objective.hidden + 1 if objective.bias else 0)
    few_entries = _is_sparse(objective)
    weights = w[:first].reshape(-1, objective.hidden)
    for k, directions in enumerate(v):
        batch = everything if batches is None else batches[k]
        rows = objective.features if batches is None or few_entries else objective.features[batch]
        for j, direction in enumerate(directions):
            moved = direction[:first].reshape(-1, objective.hidden)
            for side, product in [(weights, at), (moved, along)][j > 0 :]:  # X W serves all slopes of a step
                if few_entries:
                    _product(*objective.rows, batch, side, product)
                else:
                    np.dot(rows, side, out=product)
            if not _measure(
                at, along, objective.target, batch, w, direction, objective.bias, j, rules, slopes[k], losses[k]
            ):
                return
        for j, direction in enumerate(directions):
            move(j, w, direction, rules, slopes[k])


def _is_sparse(objective: MlpObjective) -> bool:
    rows, columns = objective.features.shape
    return is_sparse(objective.features) or len(objective.rows.values) < _DENSE * rows * columns


@compiled_sums
def _product(bounds: Any, columns: Any, values: Any, batch: Any, moved: Any, along: Any) -> None:
    """Write X V to ``along`` for the rows of the batch."""
    hidden = along.shape[1]
    for i in range(batch.shape[0]):
        start, stop = bounds[batch[i]], bounds[batch[i] + 1]
        along[i] = 0.0
        four = start + (stop - start) // 4 * 4
        for place in range(start, four, 4):  # four rows of V at a time: the sums are read and written once for them
            c0, c1 = np.uintp(columns[place]), np.uintp(columns[place + 1])
            c2, c3 = np.uintp(columns[place + 2]), np.uintp(columns[place + 3])
            x0, x1, x2, x3 = values[place], values[place + 1], values[place + 2], values[place + 3]
            for h in range(hidden):
                along[i, h] += x0 * moved[c0, h] + x1 * moved[c1, h] + x2 * moved[c2, h] + x3 * moved[c3, h]
        for place in range(four, stop):
            x, column = values[place], np.uintp(columns[place])
            for h in range(hidden):
                along[i, h] += x * moved[column, h]


@compiled_sums
def _measure(
    at: Any, along: Any, target: Any, batch: Any, w: Any, v: Any, bias: Any, k: Any, rules: Any, slopes: Any,
    losses: Any,
) -> Any:  # fmt: skip
    """Record slope k of a step, from X W and X V; the biases of W are added to ``at`` with slope 0."""
    upper, lower = rules[0], rules[1]
    size, hidden = at.shape
    n = w.shape[0]
    last = n - hidden - (1 if bias else 0)  # where u begins, after W and b
    lows, delta, y = np.empty(size), np.empty(size), np.empty(size)
    for i in range(size):
        if bias:
            for h in range(hidden):
                at[i, h] += w[last - hidden + h] if k == 0 else 0.0
                along[i, h] += v[last - hidden + h]
        low = w[n - 1] + lower * v[n - 1] if bias else 0.0
        high = w[n - 1] + upper * v[n - 1] if bias else 0.0
        for h in range(hidden):
            low += sigmoid(at[i, h] + lower * along[i, h]) * (w[last + h] + lower * v[last + h])
            high += sigmoid(at[i, h] + upper * along[i, h]) * (w[last + h] + upper * v[last + h])
        lows[i], delta[i], y[i] = low, high - low, target[batch[i]]
    change, loss = totals(LOGISTIC_CODE, lows, delta, y)
    return measured(change / size, loss / size, k, w, v, rules, slopes, losses)
