"""Losses of a score, with differences that do not cancel.

A loss takes scores a and labels y in {0, 1}. ``difference`` returns loss(a + delta) - loss(a) for each sample,
accurate for any size of delta.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np

from zofedht.common.typing import Matrix, Vector

__all__ = ["HINGE", "LOGISTIC", "SQUARED_HINGE", "ScoreLoss", "softplus"]

_LARGE_CHANGE = 1.0  # of a score: beyond it the plain difference is accurate, and expm1 could overflow


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

    @abstractmethod
    def derivative(self, scores: Vector, y: Vector) -> Vector:
        """Return the derivative of each sample's loss by its score; that of a kink's right end."""

    def along(self, delta: Matrix, y: Matrix) -> Callable[[int, Vector], float]:
        """Return the function (k, scores) -> mean of ``difference`` with row k of delta and y, (steps, samples) each.

        Terms without the scores are computed once for all steps.
        """
        return lambda k, scores: float(self.difference(scores, delta[k], y[k]).mean())


class _Logistic(ScoreLoss):
    """log(1 + e^a) - y a."""

    def value(self, scores: Vector, y: Vector) -> Vector:
        return softplus(scores) - y * scores

    def derivative(self, scores: Vector, y: Vector) -> Vector:
        from scipy.special import expit

        return np.asarray(expit(scores) - y)

    def difference(self, scores: Vector, delta: Vector, y: Vector) -> Vector:
        from scipy.special import expit

        # log1p(expm1(2d) sigmoid(a - d)) - 2 d y, with a - d = scores and 2d = delta.
        small = np.clip(delta, -_LARGE_CHANGE, _LARGE_CHANGE)
        growth: Vector = np.log1p(np.expm1(small) * expit(scores))
        if np.any(small != delta):
            growth = np.where(small == delta, growth, softplus(scores + delta) - softplus(scores))
        return growth - delta * y

    def along(self, delta: Matrix, y: Matrix) -> Callable[[int, Vector], float]:
        from scipy.special import expit

        if np.max(np.abs(delta), initial=0.0) > _LARGE_CHANGE:
            return super().along(delta, y)
        growth, linear = np.expm1(delta), (delta * y).mean(axis=1)

        def mean(k: int, scores: Vector) -> float:
            part = expit(scores)
            part *= growth[k]
            return float(np.add.reduce(np.log1p(part, out=part))) / len(part) - float(linear[k])

        return mean


def _clipped(above: Vector, below: Vector, move: Vector) -> tuple[Vector, Vector]:
    """Clip the margins 1 - t a at both ends, in place; return m+ - m- and m+ + m-. move is t delta, t = 2y - 1."""
    np.maximum(above, 0.0, out=above)
    np.maximum(below, 0.0, out=below)
    # Where both ends are active, m+ - m- is -t delta, and this form keeps the last digits.
    change = np.where((above > 0.0) & (below > 0.0), -move, above - below)
    above += below
    return change, above


def _margins(scores: Vector, delta: Vector, y: Vector) -> tuple[Vector, Vector]:
    """Return m+ - m- and m+ + m- of each sample."""
    sign = 2.0 * y - 1.0
    return _clipped(1.0 - sign * (scores + delta), 1.0 - sign * scores, sign * delta)


def _margins_along(delta: Matrix, y: Matrix) -> Callable[[int, Vector], tuple[Vector, Vector]]:
    """Return the function (k, scores) -> ``_margins`` with row k of delta and y."""
    sign = 2.0 * y - 1.0
    move = sign * delta

    def margins(k: int, scores: Vector) -> tuple[Vector, Vector]:
        below = 1.0 - sign[k] * scores
        return _clipped(below - move[k], below, move[k])

    return margins


class _Hinge(ScoreLoss):
    """max(0, 1 - t a), t = 2y - 1 in {-1, 1}."""

    def value(self, scores: Vector, y: Vector) -> Vector:
        return np.maximum(0.0, 1.0 - (2.0 * y - 1.0) * scores)

    def derivative(self, scores: Vector, y: Vector) -> Vector:
        sign = 2.0 * y - 1.0
        return -sign * (sign * scores < 1.0)

    def difference(self, scores: Vector, delta: Vector, y: Vector) -> Vector:
        return _margins(scores, delta, y)[0]

    def along(self, delta: Matrix, y: Matrix) -> Callable[[int, Vector], float]:
        margins = _margins_along(delta, y)
        return lambda k, scores: float(np.add.reduce(margins(k, scores)[0])) / len(scores)


class _SquaredHinge(ScoreLoss):
    """max(0, 1 - t a)^2 / 2: the authors' "SVM"."""

    def value(self, scores: Vector, y: Vector) -> Vector:
        return 0.5 * np.square(HINGE.value(scores, y))

    def derivative(self, scores: Vector, y: Vector) -> Vector:
        return -(2.0 * y - 1.0) * HINGE.value(scores, y)

    def difference(self, scores: Vector, delta: Vector, y: Vector) -> Vector:
        change, total = _margins(scores, delta, y)
        return change * total * 0.5

    def along(self, delta: Matrix, y: Matrix) -> Callable[[int, Vector], float]:
        margins = _margins_along(delta, y)
        return lambda k, scores: 0.5 * float(np.dot(*margins(k, scores))) / len(scores)


LOGISTIC: ScoreLoss = _Logistic()
HINGE: ScoreLoss = _Hinge()
SQUARED_HINGE: ScoreLoss = _SquaredHinge()
