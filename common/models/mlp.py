"""A network of one hidden layer, sigmoid at both layers, logistic loss of the output."""

from __future__ import annotations

import functools

import numpy as np
from scipy.special import expit

from zofedht.common.data.dataset import Dataset
from zofedht.common.models.linear import accuracy, penalty_difference
from zofedht.common.models.losses import LOGISTIC
from zofedht.common.models.rows import CompressedRows, compressed_rows
from zofedht.common.objective.base import ExactObjective
from zofedht.common.typing import Features, Indices, Matrix, Vector

__all__ = ["MlpObjective"]


class MlpObjective(ExactObjective):
    """p = sigmoid(sigmoid(X W + b) u + d), loss = mean logistic loss of p + l2/2 |w|^2.

    w holds W (columns x hidden, row by row), then b if there are biases, then u, then d:
    n = 785 * 50 + 50 = 39,300 without biases and 39,351 with them on MNIST.
    """

    def __init__(
        self, data: Dataset, hidden_units: int, bias: bool, l2: float = 0.0, *, unit_rows: bool = True
    ) -> None:
        """``unit_rows``: whether rows have a norm of about 1, else of about sqrt(columns); ``initial`` follows it.

        It is told, not measured: the rows are those of one client, and the start must be the same for all.
        """
        self.features = data.features
        self.target = data.target
        self.hidden = hidden_units
        self.bias = bias
        self.l2 = l2
        self._unit_rows = unit_rows
        self._columns = int(data.features.shape[1])
        self.dim = self._columns * hidden_units + hidden_units + (hidden_units + 1 if bias else 0)

    @functools.cached_property
    def rows(self) -> CompressedRows:
        """The rows without their zeros, for loops that read single rows in place."""
        return compressed_rows(self.features)

    def __len__(self) -> int:
        return int(self.target.shape[0])

    def initial(self, rng: np.random.Generator) -> Vector:
        """Return W ~ N(0, 1), or N(0, 1/columns) where rows are not of unit norm, u ~ N(0, 1/hidden), biases 0: (n,).

        So rows W is of order 1. At zero all hidden units would be alike, and the gradient of W zero: a saddle.
        """
        x = self.zeros()
        weights, _, u, _ = self._layers(x)
        weights[:] = rng.standard_normal(weights.shape) * (1.0 if self._unit_rows else self._columns**-0.5)
        u[:] = rng.standard_normal(u.shape) * self.hidden**-0.5
        return x

    def _layers(self, w: Vector) -> tuple[Matrix, Vector | float, Vector, float]:
        """Return W, b, u and d as views of w."""
        first = self._columns * self.hidden
        weights = w[:first].reshape(self._columns, self.hidden)
        if not self.bias:
            return weights, 0.0, w[first:], 0.0
        return weights, w[first : first + self.hidden], w[first + self.hidden : -1], float(w[-1])

    def _scores(self, rows: Features, w: Vector) -> Vector:
        weights, b, u, d = self._layers(w)
        scores: Vector = expit(rows @ weights + b) @ u + d
        return scores

    def scores(self, w: Vector) -> Vector:
        """Return the network's output before its last sigmoid for all rows, (rows,)."""
        return self._scores(self.features, w)

    def value(self, x: Vector, batch: Indices | slice) -> float:
        loss = np.mean(LOGISTIC.value(self._scores(self.features[batch], x), self.target[batch]))
        return float(loss + 0.5 * self.l2 * (x @ x)) if self.l2 else float(loss)

    def difference(
        self, w: Vector, v: Vector, upper: float, lower: float, batch: Indices | slice
    ) -> tuple[float, float]:
        rows, y = self.features[batch], self.target[batch]
        weights, b, u, d = self._layers(w)
        weights_v, b_v, u_v, d_v = self._layers(v)
        # The first layer is linear in the weights: two products serve both ends.
        hidden, along = rows @ weights + b, rows @ weights_v + b_v
        low = expit(hidden + lower * along) @ (u + lower * u_v) + (d + lower * d_v)
        high = expit(hidden + upper * along) @ (u + upper * u_v) + (d + upper * d_v)
        change = float(np.mean(LOGISTIC.difference(low, high - low, y)))
        loss = float(np.mean(LOGISTIC.value(low, y)))
        if self.l2:
            extra, extra_low = penalty_difference(w, v, upper, lower, self.l2)
            return change + extra, loss + extra_low
        return change, loss

    def evaluate(self, x: Vector) -> dict[str, float]:
        scores = self._scores(self.features, x)
        loss = float(np.mean(LOGISTIC.value(scores, self.target)))
        if self.l2:
            loss += 0.5 * self.l2 * float(x @ x)
        return {"loss": loss, "accuracy": accuracy(scores, self.target)}
