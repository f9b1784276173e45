"""Two levels: x holds the penalties of an inner problem, and F is the loss of what that problem gives.

Each lab has readings of 24 sensors in four groups, of which the later ones are mostly noise. The inner problem trains
weights y by logistic regression on 60 readings, with a penalty 10^x_g on the weights of group g. F is the loss of y on
200 other readings. No gradient of F is known: it would need the derivative of y.
"""

from __future__ import annotations

import numpy as np

from zofedht import Objective, Shard

GROUPS = np.repeat(np.arange(4), 6)
TRAINED, HELD_OUT = 60, 200
SIZE = np.array([1.0, 0.4, 0.1, 0.0])[GROUPS]  # of the true weights


class Penalties(Objective):
    """F(x) of one lab; ``prepared`` says whether evaluations start from what ``prepare`` found."""

    dim = 4

    def __init__(self, seed: int, *, prepared: bool = True) -> None:
        rng = np.random.default_rng(seed)
        weights = SIZE * np.random.default_rng(0).standard_normal(24) + 0.2 * rng.standard_normal(24) * SIZE
        self.rows = rng.standard_normal((TRAINED + HELD_OUT, 24))
        self.labels = (rng.random(TRAINED + HELD_OUT) < 1.0 / (1.0 + np.exp(-self.rows @ weights))).astype(float)
        self.prepared, self.inner = prepared, np.zeros(24)
        self.inner_steps = 0

    def newton(self, y: np.ndarray, x: np.ndarray, steps: int) -> np.ndarray:
        """Return y after at most so many steps of Newton's method on the inner problem."""
        rows, labels, penalty = self.rows[:TRAINED], self.labels[:TRAINED], 10.0 ** x[GROUPS]
        for _ in range(steps):
            chances = 1.0 / (1.0 + np.exp(-rows @ y))
            slope = rows.T @ (chances - labels) / TRAINED + penalty * y
            if np.linalg.norm(slope) < 1e-10:
                break
            bend = (rows.T * (chances * (1.0 - chances))) @ rows / TRAINED + np.diag(penalty)
            y = y - np.linalg.solve(bend, slope)
            self.inner_steps += 1
        return y

    def prepare(self, x: np.ndarray) -> None:
        """Solve the inner problem at the x that a slot begins with. It starts at 0, so that it follows from x alone."""
        self.inner = self.newton(np.zeros(24), x, 50)

    def value(self, x: np.ndarray, batch: slice) -> float:
        """One inner step from the solution at the slot's beginning, since x is near it; or the whole way."""
        return self.held_out(self.newton(self.inner, x, 1) if self.prepared else self.newton(np.zeros(24), x, 50))

    def evaluate(self, x: np.ndarray) -> dict[str, float]:
        """The exact F: the inner problem solved."""
        return {"loss": self.held_out(self.newton(np.zeros(24), x, 50))}

    def held_out(self, y: np.ndarray) -> float:
        margins = np.where(self.labels[TRAINED:] > 0.5, 1.0, -1.0) * (self.rows[TRAINED:] @ y)
        return float(np.mean(np.logaddexp(0.0, -margins)))

    def initial(self, rng: np.random.Generator) -> np.ndarray:
        return np.full(4, -3.0)


def make(shard: Shard) -> Penalties:
    return Penalties(1 + shard.index)


def make_whole_way(shard: Shard) -> Penalties:
    return Penalties(1 + shard.index, prepared=False)
