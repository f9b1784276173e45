"""Local steps of the one-hidden-layer network in one compiled loop.

The first layer is linear in the weights, so X W and X V serve both ends, and X W serves all slopes of a step. Rows are
read in place, where they are not zero, once for two of these products. The loop works on copies of w and v whose
rows of W and V are padded to whole vectors (``strips``).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from zofedht.client.kernels.losses import LOGISTIC_CODE, is_small, sigmoid, sigmoid_rise, totals
from zofedht.client.kernels.slot import Blocks, Rules, measured, move
from zofedht.client.kernels.strips import add_products, aligned, pad, padded_width, unpad
from zofedht.common.models.mlp import MlpObjective
from zofedht.common.random.jit import compiled_products, compiled_sums
from zofedht.common.typing import Indices, Matrix, Vector

__all__ = ["steps_of_block"]


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
    if batches is None:
        batches = np.tile(np.arange(len(objective)), (len(v), 1))
    shape = (objective.features.shape[1], objective.hidden)
    _on_rows(*objective.rows, objective.target, shape, objective.bias, w, v, batches, rules, slopes, losses)


@compiled_products
def _on_rows(
    bounds: Any, columns: Any, values: Any, target: Any, shape: Any, bias: Any, w: Any, v: Any, batches: Any,
    rules: Any, slopes: Any, losses: Any,
) -> None:  # fmt: skip
    count, size = v.shape[1], batches.shape[1]
    width = padded_width(shape[1])
    length = padded_width(shape[0] * width + w.shape[0] - shape[0] * shape[1])
    sides = aligned((count + 1) * length).reshape((count + 1, length))  # w, v_1 .. v_q
    sums = aligned((count + 2) // 2 * 2 * size * width)  # of their products, in pairs
    pad(w, shape, width, sides[0])
    for k in range(v.shape[0]):
        for j in range(count):
            pad(v[k, j], shape, width, sides[j + 1])
        sums[:] = 0.0
        for two in range(0, count + 1, 2):
            pair = sums[two * size * width : (two + 2) * size * width]
            other = sides[min(two + 1, count)]
            add_products(bounds, columns, values, batches[k], sides[two], other, shape[0], width, pair)
        for j in range(count):
            if not _measure(sums, target, batches[k], shape, width, bias, sides, j, rules, slopes[k], losses[k]):
                unpad(sides[0], shape, width, w)
                return
        for j in range(count):
            move(j, sides[0], sides[j + 1], rules, slopes[k])
    unpad(sides[0], shape, width, w)


@compiled_sums
def _measure(
    sums: Any, target: Any, batch: Any, shape: Any, width: Any, bias: Any, sides: Any, k: Any, rules: Any,
    slopes: Any, losses: Any,
) -> Any:  # fmt: skip
    """Record slope k of a step, from X W and X V."""
    upper, lower = rules[0], rules[1]
    size, (columns, hidden) = batch.shape[0], shape
    w, v = sides[0], sides[k + 1]
    last = columns * width + (hidden if bias else 0)  # where u begins, after W and b
    low_end = w[last + hidden] + lower * v[last + hidden] if bias else 0.0
    change_end = (upper - lower) * v[last + hidden] if bias else 0.0
    lows, delta, y = np.empty(size), np.empty(size), np.empty(size)
    # Whole vectors: beyond the hidden units all of these are 0.
    near, step, offset, tilt, here, more = np.zeros((6, width))
    for h in range(hidden):
        here[h], more[h] = w[last + h] + lower * v[last + h], (upper - lower) * v[last + h]
        if bias:
            offset[h], tilt[h] = w[last - hidden + h], v[last - hidden + h]
    for i in range(size):
        at, along = 2 * i * width, ((k + 1) // 2 * size + i) * 2 * width + (k + 1) % 2 * width
        large = 0
        for h in range(width):
            moved = sums[along + h] + tilt[h]
            near[h], step[h] = sums[at + h] + offset[h] + lower * moved, (upper - lower) * moved
            large += 0 if is_small(step[h]) else 1
        low, change = low_end, change_end
        if large == 0:
            for h in range(width):  # no branch and no call, so that it becomes vector code
                chance = sigmoid(near[h])
                low += chance * here[h]
                change += chance * more[h] + sigmoid_rise(chance, step[h]) * (here[h] + more[h])
        else:
            for h in range(width):
                chance, there = sigmoid(near[h]), sigmoid(near[h] + step[h])
                low += chance * here[h]
                change += there * (here[h] + more[h]) - chance * here[h]
        lows[i], delta[i], y[i] = low, change, target[batch[i]]
    change, loss = totals(LOGISTIC_CODE, lows, delta, y)
    return measured(change / size, loss / size, k, w, v, rules, slopes, losses)
