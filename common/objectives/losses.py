"""Losses of a score, with differences that do not cancel.

A loss takes scores a and labels y in {0, 1}; ``difference`` returns loss(a + delta) - loss(a) for each
sample, accurate however small delta is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from scipy.special import expit

from common.typing import Vector

__all__ = ["HINGE", "LOGISTIC", "SQUARED_HINGE", "ScoreLoss", "softplus"]

_LARGE_STEP = 1.0
"""Beyond this change of a score the plain difference is accurate, and expm1 could overflow."""


def softplus(a: Vector) -> Vector:
    """Return log(1 + exp(a)) without overflow."""
    return np.maximum(a, 0.0) + np.log1p(np.exp(-np.abs(a)))


class ScoreLoss(ABC):
    """A convex loss of one score."""

    @abstractmethod
    def value(self, scores: Vector, y: Vector) -> Vector:
        """Return the loss of each sample."""

    @abstractmethod
    def difference(self, scores: Vector, delta: Vector, y: Vector) -> Vector:
        """Return loss(scores + delta) - loss(scores) of each sample, without cancellation."""


class _Logistic(ScoreLoss):
    """log(1 + e^a) - y a."""

    def value(self, scores: Vector, y: Vector) -> Vector:
        return softplus(scores) - y * scores

    def difference(self, scores: Vector, delta: Vector, y: Vector) -> Vector:
        # log1p(expm1(2d) sigmoid(a - d)) - 2 d y, with a - d = scores and 2d = delta.
        small = np.clip(delta, -_LARGE_STEP, _LARGE_STEP)
        growth: Vector = np.log1p(np.expm1(small) * expit(scores))
        if np.any(small != delta):
            growth = np.where(small == delta, growth, softplus(scores + delta) - softplus(scores))
        return growth - delta * y


def _margin_losses(scores: Vector, delta: Vector, y: Vector) -> tuple[Vector, Vector]:
    """Return m+ and m-, the clipped margins max(0, 1 - (2y - 1) a) at both ends."""
    sign = 2.0 * y - 1.0
    return np.maximum(0.0, 1.0 - sign * (scores + delta)), np.maximum(0.0, 1.0 - sign * scores)


class _Hinge(ScoreLoss):
    """max(0, 1 - t a), t = 2y - 1 in {-1, 1}."""

    def value(self, scores: Vector, y: Vector) -> Vector:
        return np.maximum(0.0, 1.0 - (2.0 * y - 1.0) * scores)

    def difference(self, scores: Vector, delta: Vector, y: Vector) -> Vector:
        above, below = _margin_losses(scores, delta, y)
        # Where both ends are active m+ - m- is -t delta; saying so keeps its last digits.
        return np.where((above > 0.0) & (below > 0.0), (1.0 - 2.0 * y) * delta, above - below)


class _SquaredHinge(ScoreLoss):
    """max(0, 1 - t a)^2 / 2: the authors' "SVM"."""

    def value(self, scores: Vector, y: Vector) -> Vector:
        return 0.5 * np.square(HINGE.value(scores, y))

    def difference(self, scores: Vector, delta: Vector, y: Vector) -> Vector:
        above, below = _margin_losses(scores, delta, y)
        return HINGE.difference(scores, delta, y) * (above + below) * 0.5


LOGISTIC: ScoreLoss = _Logistic()
HINGE: ScoreLoss = _Hinge()
SQUARED_HINGE: ScoreLoss = _SquaredHinge()
