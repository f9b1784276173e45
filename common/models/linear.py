"""Linear models: the loss of a score x.w, for dense and sparse rows."""

from __future__ import annotations

import numpy as np

from zofedht.common.data.dataset import Dataset
from zofedht.common.models.losses import ScoreLoss
from zofedht.common.models.score import ScoreObjective
from zofedht.common.typing import Features, Matrix, Vector

__all__ = ["LinearObjective"]


class LinearObjective(ScoreObjective):
    """mean loss(X w, y) + l2/2 |w|^2.  A bias is a column of ones in X, and is penalised with the rest."""

    def __init__(self, data: Dataset, loss: ScoreLoss, l2: float = 0.0) -> None:
        super().__init__(data, loss, l2)
        self.dim = int(data.features.shape[1])

    def scores(self, x: Vector, rows: Features) -> Vector:
        return rows @ x

    def pulled_back(self, x: Vector, rows: Features, weights: Vector) -> Vector:
        return np.asarray(rows.T @ weights)

    def stiff(self, x: Vector) -> Matrix:
        """Return the mean row, (1, n): rows have nothing in common as much as it, a column of ones above all."""
        return np.asarray(self.features.mean(axis=0), dtype=np.float64).reshape(1, -1)

    def score_ends(self, w: Vector, v: Vector, upper: float, lower: float, rows: Features) -> tuple[Vector, Vector]:
        along = rows @ v
        return rows @ w + lower * along, (upper - lower) * along
