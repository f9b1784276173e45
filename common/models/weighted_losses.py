"""Losses of weighted rows, and of real targets: what estimators need beyond the losses of a label."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from zofedht.common.data.dataset import Dataset
from zofedht.common.models.linear import LinearObjective
from zofedht.common.models.losses import ScoreLoss
from zofedht.common.typing import Vector

__all__ = ["ABSOLUTE", "SQUARED", "Quantile", "RegressionObjective", "WeightedLoss", "weighted_target"]


def weighted_target(target: Vector, weights: Vector) -> Vector:
    """Return the target of ``WeightedLoss``: the weight of a row, negative where its label is 0."""
    return np.where(target > 0.5, weights, -weights)


@dataclass(frozen=True)
class WeightedLoss(ScoreLoss):
    """Each row's loss times its weight; labels and weights are one number, as ``weighted_target`` makes it."""

    loss: ScoreLoss

    def value(self, scores: Vector, y: Vector) -> Vector:
        return np.abs(y) * self.loss.value(scores, (y > 0.0).astype(np.float64))

    def difference(self, scores: Vector, delta: Vector, y: Vector) -> Vector:
        return np.abs(y) * self.loss.difference(scores, delta, (y > 0.0).astype(np.float64))

    def derivative(self, scores: Vector, y: Vector) -> Vector:
        return np.abs(y) * self.loss.derivative(scores, (y > 0.0).astype(np.float64))


class _Squared(ScoreLoss):
    """(a - y)^2 / 2."""

    def value(self, scores: Vector, y: Vector) -> Vector:
        return 0.5 * np.square(scores - y)

    def difference(self, scores: Vector, delta: Vector, y: Vector) -> Vector:
        return delta * (scores - y + 0.5 * delta)

    def derivative(self, scores: Vector, y: Vector) -> Vector:
        return scores - y


@dataclass(frozen=True)
class Quantile(ScoreLoss):
    """q (y - a) below y, and (1 - q) (a - y) above it: the least is at the q-th quantile (Koenker and Bassett 1978)."""

    q: float = 0.5
    height: float = 1.0  # 2 makes the median's loss |a - y|

    def value(self, scores: Vector, y: Vector) -> Vector:
        short = y - scores
        return self.height * np.maximum(self.q * short, (self.q - 1.0) * short)

    def difference(self, scores: Vector, delta: Vector, y: Vector) -> Vector:
        above = self.height * (1.0 - self.q) * delta
        below = -self.height * self.q * delta
        low, high = scores - y, scores + delta - y
        crossing = self.value(scores + delta, y) - self.value(scores, y)
        return np.where((low >= 0.0) & (high >= 0.0), above, np.where((low <= 0.0) & (high <= 0.0), below, crossing))

    def derivative(self, scores: Vector, y: Vector) -> Vector:
        return self.height * np.where(scores >= y, 1.0 - self.q, -self.q)


SQUARED: ScoreLoss = _Squared()
ABSOLUTE: ScoreLoss = Quantile(0.5, 2.0)


class RegressionObjective(LinearObjective):
    """mean loss(X w, y) + l2/2 |w|^2 of a real target."""

    def __init__(self, data: Dataset, loss: ScoreLoss, l2: float = 0.0) -> None:
        super().__init__(data, loss, l2)

    def evaluate(self, x: Vector) -> dict[str, float]:
        return {"loss": self.value(x, slice(None))}
