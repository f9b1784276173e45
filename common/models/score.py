"""Models that give each row one score: the mean loss of the scores and a penalty, with exact differences."""

from __future__ import annotations

import functools
from abc import abstractmethod

import numpy as np

from zofedht.common.data.dataset import Dataset
from zofedht.common.models.losses import ScoreLoss
from zofedht.common.models.rows import CompressedRows, compressed_rows
from zofedht.common.objective.base import ExactObjective
from zofedht.common.typing import Features, Indices, Vector

__all__ = ["ScoreObjective", "penalty_difference"]


def penalty_difference(w: Vector, v: Vector, upper: float, lower: float, l2: float) -> tuple[float, float]:
    """Return the exact change of l2/2 |w + t v|^2 from t = lower to t = upper, and its lower value."""
    along, square = float(w @ v), float(v @ v)
    change = l2 * (upper - lower) * (along + 0.5 * (upper + lower) * square)
    return change, 0.5 * l2 * (float(w @ w) + 2.0 * lower * along + lower * lower * square)


class ScoreObjective(ExactObjective):
    """mean loss(score(row; x), label) + l2/2 |x|^2 over the rows of a data set."""

    def __init__(self, data: Dataset, loss: ScoreLoss, l2: float) -> None:
        self.features = data.features
        self.target = data.target
        self.loss = loss
        self.l2 = l2

    @abstractmethod
    def scores(self, x: Vector, rows: Features) -> Vector:
        """Return the score of each row, (rows,)."""

    @abstractmethod
    def score_ends(self, w: Vector, v: Vector, upper: float, lower: float, rows: Features) -> tuple[Vector, Vector]:
        """Return the scores of w + lower v, (rows,), and their change to w + upper v."""

    @abstractmethod
    def pulled_back(self, x: Vector, rows: Features, weights: Vector) -> Vector:
        """Return the gradient of weights . scores by x, (n,)."""

    @functools.cached_property
    def rows(self) -> CompressedRows:
        """The rows without their zeros, for loops that read single rows in place."""
        return compressed_rows(self.features)

    def __len__(self) -> int:
        return int(self.target.shape[0])

    def value(self, x: Vector, batch: Indices | slice) -> float:
        return self._loss(x, self.scores(x, self.features[batch]), self.target[batch])

    def _loss(self, x: Vector, scores: Vector, y: Vector) -> float:
        loss = float(np.mean(self.loss.value(scores, y)))
        return loss + 0.5 * self.l2 * float(x @ x) if self.l2 else loss

    def difference(
        self, w: Vector, v: Vector, upper: float, lower: float, batch: Indices | slice
    ) -> tuple[float, float]:
        y = self.target[batch]
        scores, delta = self.score_ends(w, v, upper, lower, self.features[batch])
        change = float(np.mean(self.loss.difference(scores, delta, y)))
        low = float(np.mean(self.loss.value(scores, y)))
        if self.l2:
            extra, extra_low = penalty_difference(w, v, upper, lower, self.l2)
            return change + extra, low + extra_low
        return change, low

    def value_and_gradient(self, x: Vector, batch: Indices | slice) -> tuple[float, Vector]:
        rows, y = self.features[batch], self.target[batch]
        scores = self.scores(x, rows)
        gradient = self.pulled_back(x, rows, self.loss.derivative(scores, y) / len(y))
        return self._loss(x, scores, y), gradient + self.l2 * x if self.l2 else gradient

    def differences(self, w: Vector, v: Vector, upper: float, lower: float, batch: Indices | slice) -> Vector:
        scores, delta = self.score_ends(w, v, upper, lower, self.features[batch])
        return self.loss.difference(scores, delta, self.target[batch])

    def penalty(self, w: Vector, v: Vector, upper: float, lower: float) -> float:
        return penalty_difference(w, v, upper, lower, self.l2)[0] if self.l2 else 0.0

    def evaluate(self, x: Vector) -> dict[str, float]:
        """Return the loss, and the accuracy: the share of rows whose score has the sign of their label."""
        scores = self.scores(x, self.features)
        accuracy = float(np.mean((scores > 0.0) == (self.target > 0.0)))
        return {"loss": self._loss(x, scores, self.target), "accuracy": accuracy}
