"""What ends a compiled step of any model: the penalty, the record, the move."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zofedht.common.random.jit import compiled_sums

__all__ = ["Blocks", "Rules", "measured", "move"]

Blocks = NDArray[np.float64]
"""The directions of a block of steps: (steps, q, n)."""

Rules = tuple[float, float, float, float]
"""Both ends of the difference, upper and lower, in units of v; the step size; the weight of the penalty."""


@compiled_sums
def measured(change: Any, low: Any, k: Any, w: Any, v: Any, rules: Any, slopes: Any, losses: Any) -> Any:
    """Add the penalty, and record slope k and its loss; False when its step is not finite.

    ``change`` and ``low`` are F(w + upper v) - F(w + lower v) and F(w + lower v) of the unpenalised loss.
    """
    upper, lower, step_size, l2 = rules
    if l2 > 0.0:
        along, square, own = 0.0, 0.0, 0.0
        for j in range(w.shape[0]):
            along += w[j] * v[j]
            square += v[j] * v[j]
            own += w[j] * w[j]
        change += l2 * (upper - lower) * (along + 0.5 * (upper + lower) * square)
        low += 0.5 * l2 * (own + 2.0 * lower * along + lower * lower * square)
    slopes[k] = change / (upper - lower)
    losses[k] = low + 0.5 * change
    length = step_size * slopes[k]
    if not math.isfinite(length):
        slopes[k] = length  # a finite slope whose step is not: w would be lost just the same
        return False
    return True


@compiled_sums
def move(k: Any, w: Any, v: Any, rules: Any, slopes: Any) -> None:
    """Take the step along v, row k of a block, in w."""
    length = rules[2] * slopes[k]
    for j in range(w.shape[0]):
        w[j] -= length * v[j]
