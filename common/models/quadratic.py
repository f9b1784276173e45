"""A quadratic with known curvature: for theory, tests and estimating a mean."""

from __future__ import annotations

import numpy as np

from zofedht.common.models.score import penalty_difference
from zofedht.common.objective.base import ExactObjective
from zofedht.common.typing import Features, Indices, Vector

__all__ = ["QuadraticObjective"]


class QuadraticObjective(ExactObjective):
    """F(w; i) = 1/2 sum_j h_j (w_j - z_ij)^2 + l2/2 |w|^2: the minimum for sample i alone is its row z_i."""

    def __init__(self, centres: Features, curvature: Vector | None = None, l2: float = 0.0) -> None:
        """Take the centres z, (samples, n), dense or sparse, and the curvature h, (n,), by default 1."""
        self.centres = centres
        self.dim = int(centres.shape[1])
        self.curvature = np.ones(self.dim) if curvature is None else curvature
        self.l2 = l2
        squares: Features = np.square(centres) if isinstance(centres, np.ndarray) else centres.power(2)
        self._constant: Vector = np.asarray(squares @ self.curvature)  # sum_j h_j z_ij^2 of each row

    def __len__(self) -> int:
        return int(self.centres.shape[0])

    def _mean_centre(self, batch: Indices | slice) -> Vector:
        centre: Vector = np.asarray(self.centres[batch].mean(axis=0)).ravel()
        return centre

    def value(self, x: Vector, batch: Indices | slice) -> float:
        return self._value(x, self._mean_centre(batch), batch)

    def _value(self, x: Vector, centre: Vector, batch: Indices | slice) -> float:
        bent = self.curvature * x
        constant = float(np.mean(self._constant[batch]))
        return 0.5 * (float(bent @ x) - 2.0 * float(bent @ centre) + constant + self.l2 * float(x @ x))

    def difference(
        self, w: Vector, v: Vector, upper: float, lower: float, batch: Indices | slice
    ) -> tuple[float, float]:
        centre = self._mean_centre(batch)
        bent = self.curvature * v
        middle = 0.5 * (upper + lower)
        change = (upper - lower) * (float(bent @ (w - centre)) + middle * float(bent @ v))
        if self.l2:
            change += penalty_difference(w, v, upper, lower, self.l2)[0]
        return change, self._value(w + lower * v, centre, batch)

    def value_and_gradient(self, x: Vector, batch: Indices | slice) -> tuple[float, Vector]:
        centre = self._mean_centre(batch)
        return self._value(x, centre, batch), self.curvature * (x - centre) + self.l2 * x

    def differences(self, w: Vector, v: Vector, upper: float, lower: float, batch: Indices | slice) -> Vector:
        bent, middle = self.curvature * v, 0.5 * (upper + lower)
        towards: Vector = float(bent @ w) + middle * float(bent @ v) - np.asarray(self.centres[batch] @ bent)
        return (upper - lower) * towards

    def penalty(self, w: Vector, v: Vector, upper: float, lower: float) -> float:
        return penalty_difference(w, v, upper, lower, self.l2)[0] if self.l2 else 0.0
