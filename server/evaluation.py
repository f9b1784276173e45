"""Full evaluations: on all rows where the server has the data set, else by asking every client."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from common.blas import one_thread
from common.config import CLIENTS_HOLD_DATA, RunConfig
from common.objective import starting_point
from common.shards import held_out_objective, train_objective
from common.typing import Vector
from server.coordinator import Metrics

__all__ = ["CentralEvaluator", "central_evaluator", "mean_over_clients"]


class CentralEvaluator:
    """Evaluates a built-in objective on the whole training set, and accuracy on the test set; knows where it begins."""

    def __init__(self, config: RunConfig) -> None:
        self._train = train_objective(config)
        self._test = held_out_objective(config)
        self.dim = self._train.dim
        self._seed = config.seed

    def starting_point(self) -> Vector | None:
        """Return the start that every client's objective has as its own, (n,), or None if it has none."""
        return starting_point(self._train, self._seed)

    def __call__(self, x: Vector) -> Metrics:
        """Return train_loss, and train_accuracy where the model classifies."""
        # A diverged x gives inf or NaN, which the history says; it is no error of the evaluation.
        with one_thread(), np.errstate(over="ignore", invalid="ignore"):
            return {f"train_{name}": value for name, value in self._train.evaluate(x).items()}

    def test(self, x: Vector) -> Metrics:
        """Return the same figures of the test set, as test_loss and test_accuracy."""
        with one_thread(), np.errstate(over="ignore", invalid="ignore"):
            return {f"test_{name}": value for name, value in self._test.evaluate(x).items()}


def central_evaluator(config: RunConfig) -> CentralEvaluator | None:
    """Return the evaluator, or None where only the clients have rows or the objective."""
    if config.objective or config.dataset == CLIENTS_HOLD_DATA:
        return None
    return CentralEvaluator(config)


def mean_over_clients(answers: Iterable[Metrics]) -> Metrics:
    """Return the unweighted mean over clients, f = (1/N) sum_i f_i, of each figure that all of them gave."""
    rows = list(answers)
    names = [name for name in rows[0] if all(name in row for row in rows)]
    return {name: sum(row[name] for row in rows) / len(rows) for name in names}
