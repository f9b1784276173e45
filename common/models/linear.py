"""Linear models: the loss of a score x.w, for dense and sparse rows."""

from __future__ import annotations

import functools

import numpy as np
from scipy import sparse

from zofedht.common.data.dataset import Dataset
from zofedht.common.models.losses import ScoreLoss
from zofedht.common.models.rows import CompressedRows, compressed_rows
from zofedht.common.objective.base import ExactObjective
from zofedht.common.typing import Indices, Vector

__all__ = ["LinearObjective", "accuracy", "penalty_difference"]


def accuracy(scores: Vector, y: Vector) -> float:
    """Return the share of samples whose score has the sign of their label."""
    return float(np.mean((scores > 0.0) == (y > 0.5)))


def penalty_difference(w: Vector, v: Vector, upper: float, lower: float, l2: float) -> tuple[float, float]:
    """Return the exact change of l2/2 |w + t v|^2 from t = lower to t = upper, and its lower value."""
    along, square = float(w @ v), float(v @ v)
    change = l2 * (upper - lower) * (along + 0.5 * (upper + lower) * square)
    return change, 0.5 * l2 * (float(w @ w) + 2.0 * lower * along + lower * lower * square)


class LinearObjective(ExactObjective):
    """mean loss(X w, y) + l2/2 |w|^2.  A bias is a column of ones in X, and is penalised with the rest."""

    def __init__(self, data: Dataset, loss: ScoreLoss, l2: float = 0.0) -> None:
        self.features = data.features
        self.target = data.target
        self.loss = loss
        self.l2 = l2
        self.dim = int(data.features.shape[1])
        self.is_sparse = bool(sparse.issparse(data.features))

    @functools.cached_property
    def rows(self) -> CompressedRows:
        """The rows without their zeros, for loops that read single rows in place."""
        return compressed_rows(self.features)

    def __len__(self) -> int:
        return int(self.target.shape[0])

    def value(self, x: Vector, batch: Indices | slice) -> float:
        loss = np.mean(self.loss.value(self.features[batch] @ x, self.target[batch]))
        return float(loss + 0.5 * self.l2 * (x @ x)) if self.l2 else float(loss)

    def difference(
        self, w: Vector, v: Vector, upper: float, lower: float, batch: Indices | slice
    ) -> tuple[float, float]:
        rows, y = self.features[batch], self.target[batch]
        along = rows @ v
        scores = rows @ w + lower * along
        change = float(np.mean(self.loss.difference(scores, (upper - lower) * along, y)))
        low = float(np.mean(self.loss.value(scores, y)))
        if self.l2:
            extra, extra_low = penalty_difference(w, v, upper, lower, self.l2)
            return change + extra, low + extra_low
        return change, low

    def evaluate(self, x: Vector) -> dict[str, float]:
        scores = self.features @ x
        loss = float(np.mean(self.loss.value(scores, self.target)))
        if self.l2:
            loss += 0.5 * self.l2 * float(x @ x)
        return {"loss": loss, "accuracy": accuracy(scores, self.target)}
