"""A network of one hidden layer, sigmoid at both layers, logistic loss of the output."""

from __future__ import annotations

import numpy as np

from zofedht.common.data.dataset import Dataset
from zofedht.common.models.losses import LOGISTIC
from zofedht.common.models.score import ScoreObjective
from zofedht.common.typing import Features, Matrix, Vector

__all__ = ["MlpObjective"]


class MlpObjective(ScoreObjective):
    """p = sigmoid(sigmoid(X W + b) u + d), loss = mean logistic loss of p + l2/2 |w|^2.

    w holds W (columns x hidden, row by row), then the biases b, if any, then u, then d. On MNIST n = 785 * 50 + 50 =
    39,300 without biases and 39,351 with biases.
    """

    def __init__(
        self, data: Dataset, hidden_units: int, bias: bool, l2: float = 0.0, *, unit_rows: bool = True
    ) -> None:
        """``unit_rows`` tells ``initial`` whether rows have a norm of about 1, else of about sqrt(columns).

        It is not measured: the rows are those of one client, and the start must be the same for all clients.
        """
        super().__init__(data, LOGISTIC, l2)
        self.hidden = hidden_units
        self.bias = bias
        self._unit_rows = unit_rows
        self._columns = int(data.features.shape[1])
        self.dim = self._columns * hidden_units + hidden_units + (hidden_units + 1 if bias else 0)

    def initial(self, rng: np.random.Generator) -> Vector:
        """Return W ~ N(0, 1), or N(0, 1/columns) where rows are not of unit norm, u ~ N(0, 1/hidden), biases 0: (n,).

        So rows W is of order 1. At zero all hidden units would be alike and the gradient of W would be zero.
        """
        x = self.zeros()
        weights, _, u, _ = self._layers(x)
        weights[:] = rng.standard_normal(weights.shape) * (1.0 if self._unit_rows else self._columns**-0.5)
        u[:] = rng.standard_normal(u.shape) * self.hidden**-0.5
        return x

    def stiff(self, x: Vector) -> Matrix:
        """Return what all output weights have in common, (1, n): hidden units are near one half and move together."""
        direction = self.zeros()
        self._layers(direction)[2][:] = 1.0
        return direction[None]

    def _layers(self, w: Vector) -> tuple[Matrix, Vector | float, Vector, float]:
        """Return W, b, u and d as views of w."""
        first = self._columns * self.hidden
        weights = w[:first].reshape(self._columns, self.hidden)
        if not self.bias:
            return weights, 0.0, w[first:], 0.0
        return weights, w[first : first + self.hidden], w[first + self.hidden : -1], float(w[-1])

    def scores(self, x: Vector, rows: Features) -> Vector:
        """Return the network's output before its last sigmoid for each row, (rows,)."""
        from scipy.special import expit

        weights, b, u, d = self._layers(x)
        return expit(rows @ weights + b) @ u + d  # type: ignore[no-any-return]

    def pulled_back(self, x: Vector, rows: Features, weights: Vector) -> Vector:
        from scipy.special import expit

        inner, b, u, _ = self._layers(x)
        hidden = expit(rows @ inner + b)
        gradient = self.zeros()
        by_inner, _, by_u, _ = self._layers(gradient)
        below = weights[:, None] * u * hidden * (1.0 - hidden)
        by_inner[:] = rows.T @ below
        by_u[:] = weights @ hidden
        if self.bias:
            first = self._columns * self.hidden
            gradient[first : first + self.hidden] = below.sum(axis=0)
            gradient[-1] = weights.sum()
        return gradient

    def score_ends(self, w: Vector, v: Vector, upper: float, lower: float, rows: Features) -> tuple[Vector, Vector]:
        from scipy.special import expit

        weights, b, u, d = self._layers(w)
        weights_v, b_v, u_v, d_v = self._layers(v)
        # The first layer is linear in the weights: two products serve both ends.
        hidden, along = rows @ weights + b, rows @ weights_v + b_v
        low = expit(hidden + lower * along) @ (u + lower * u_v) + (d + lower * d_v)
        high = expit(hidden + upper * along) @ (u + upper * u_v) + (d + upper * d_v)
        return low, high - low
