"""The baseline: a plain reading of Algorithm 1, lines 12-17.

Each step draws one normal vector, gathers one minibatch and computes two losses, all in float64, in the
order of the text.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import expit

from zofedht.common.data.dataset import Dataset
from zofedht.common.typing import Indices, Vector

__all__ = ["LOSSES", "Loss", "slope", "slot"]

Loss = Callable[[Vector, Any, Vector], float]
"""F(w; rows, labels), labels in {0, 1}."""


def _logistic(w: Vector, rows: Any, y: Vector) -> float:
    a = rows @ w
    return float(np.mean(np.logaddexp(0.0, a) - y * a))


def _hinge(w: Vector, rows: Any, y: Vector) -> float:
    return float(np.mean(np.maximum(0.0, 1.0 - (2.0 * y - 1.0) * (rows @ w))))


def _squared_hinge(w: Vector, rows: Any, y: Vector) -> float:
    return float(np.mean(0.5 * np.maximum(0.0, 1.0 - (2.0 * y - 1.0) * (rows @ w)) ** 2))


def _mlp(w: Vector, rows: Any, y: Vector) -> float:
    hidden = w.shape[0] // (rows.shape[1] + 1)
    weights, u = w[:-hidden].reshape(-1, hidden), w[-hidden:]
    a = expit(rows @ weights) @ u
    return float(np.mean(np.logaddexp(0.0, a) - y * a))


LOSSES: dict[str, Loss] = {"logistic": _logistic, "svm-hinge": _hinge, "svm-squared-hinge": _squared_hinge, "mlp": _mlp}
"""By the name of the model."""


def slope(loss: Loss, w: Vector, v: Vector, radius: float, rows: Any, y: Vector) -> float:
    """Return c of line 15: the central difference of two losses."""
    return (loss(w + radius * v, rows, y) - loss(w - radius * v, rows, y)) / (2.0 * radius)


def slot(
    loss: Loss,
    data: Dataset,
    x: Vector,
    *,
    steps: int,
    batch_size: int,
    radius: float,
    step_size: float,
    rng: np.random.RandomState,
) -> Vector:
    """Take K steps from x, (n,), and return w_K; ``batch_size`` 0 takes the whole shard."""
    w = x.copy()
    rows, y = data.features, data.target
    for _ in range(steps):
        v = rng.randn(w.shape[0])
        if batch_size:
            batch: Indices = rng.randint(0, len(data.target), batch_size)
            rows, y = data.features[batch], data.target[batch]
        w = w - step_size * slope(loss, w, v, radius, rows, y) * v
    return w
