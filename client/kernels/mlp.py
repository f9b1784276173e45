"""Local steps of the one-hidden-layer network in one compiled loop.

The first layer is linear in the weights, so X W and X V serve both ends, and X W serves all slopes of a step. Rows are
read in place, where they are not zero, once for two of these products. The loop works on copies of w and v whose
rows of W and V are padded to whole vectors (``strips``), unless a batch meets fewer rows of W than a copy has.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from zofedht.client.kernels.losses import LOGISTIC_CODE, is_small, sigmoid, sigmoid_rise, totals
from zofedht.client.kernels.slot import Blocks, Rules, measured, move
from zofedht.client.kernels.strips import add_products, aligned, pad, padded_width, unpad
from zofedht.common.models.mlp import MlpObjective
from zofedht.common.random.jit import compiled, compiled_products, compiled_sums
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
    bounds, columns, values = objective.rows
    entries = bounds[-1] / len(objective) * batches.shape[1]
    copies = entries > shape[0] or padded_width(shape[1]) > 2 * shape[1]  # u must be there to be read beyond W
    target, bias = objective.target, objective.bias
    _on_rows(bounds, columns, values, target, shape, bias, copies, w, v, batches, rules, slopes, losses)


@compiled_products
def _on_rows(
    bounds: Any, columns: Any, values: Any, target: Any, shape: Any, bias: Any, copies: Any, w: Any, v: Any,
    batches: Any, rules: Any, slopes: Any, losses: Any,
) -> None:  # fmt: skip
    count, size, hidden = v.shape[1], batches.shape[1], shape[1]
    width = padded_width(hidden)
    stride = width if copies else hidden
    length = padded_width(shape[0] * width + w.shape[0] - shape[0] * hidden) if copies else 0
    sides = aligned((count + 1) * length).reshape((count + 1, length))  # w, v_1 .. v_q
    sums = aligned((count + 2) // 2 * 2 * size * width)  # of their products, in pairs
    here = sides[0] if copies else w
    if copies:
        pad(w, shape, width, here)
    for k in range(v.shape[0]):
        if copies:
            for j in range(count):
                pad(v[k, j], shape, width, sides[j + 1])
        sums[:] = 0.0
        for two in range(0, count + 1, 2):
            pair = sums[two * size * width : (two + 2) * size * width]
            one = here if two == 0 else _side(sides, v, k, two - 1, copies)
            other = _side(sides, v, k, min(two, count - 1), copies)
            add_products(bounds, columns, values, batches[k], one, other, shape[0], stride, width, pair)
        if not copies:
            sums.reshape((-1, width))[:, hidden:] = 0.0
        finite = True
        for j in range(count):
            along = _side(sides, v, k, j, copies)
            finite = finite and _measure(
                sums, target, batches[k], shape, stride, bias, here, along, j, rules, slopes[k], losses[k]
            )
        if not finite:
            break
        for j in range(count):
            move(j, here, _side(sides, v, k, j, copies), rules, slopes[k])
    if copies:
        unpad(here, shape, width, w)


@compiled
def _side(sides: Any, v: Any, k: Any, j: Any, copies: Any) -> Any:
    """Return direction j of step k, padded or as it is."""
    return sides[j + 1] if copies else v[k, j]


@compiled_sums
def _measure(
    sums: Any, target: Any, batch: Any, shape: Any, stride: Any, bias: Any, w: Any, v: Any, k: Any, rules: Any,
    slopes: Any, losses: Any,
) -> Any:  # fmt: skip
    """Record slope k of a step, from X W and X V."""
    upper, lower = rules[0], rules[1]
    size, (columns, hidden) = batch.shape[0], shape
    width = padded_width(hidden)
    last = columns * stride + (hidden if bias else 0)  # where u begins, after W and b
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
