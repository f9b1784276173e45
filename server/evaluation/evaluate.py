"""Full evaluations: on all rows where the server has the data set, else by asking every client.

The rule for a client that cannot evaluate x is here, the same for every engine.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from zofedht.common.config.run_config import RunConfig
from zofedht.common.errors import ObjectiveError, cause_of
from zofedht.common.machine.blas import one_thread
from zofedht.common.objective.loading import starting_point
from zofedht.common.shards import held_out_objective, train_objective
from zofedht.common.typing import Vector
from zofedht.server.evaluation.full_evaluation import FullEvaluation, Metrics, Unevaluated, who_is_missing

__all__ = ["Answer", "Answered", "CentralEvaluator", "central_evaluator", "evaluate_clients", "mean_over_clients"]


class Answered(NamedTuple):
    """A client's metrics, and the samples that they are the mean of."""

    metrics: Metrics
    samples: int
    digest: str = ""  # of parameters in place


Answer = Answered | Exception
"""What a client answered, or why it did not: an ObjectiveError where its evaluation failed, else it was lost."""

_NOT_THERE = "not connected, or still busy with earlier work"
_ASTRAY = "its parameters are not those of the other clients, bit for bit; it must join again from the start"


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

    def evaluation(self, x: Vector) -> FullEvaluation:
        """Return the metrics as a full evaluation."""
        return FullEvaluation(self(x), samples=len(self._train))

    def test(self, x: Vector) -> Metrics:
        """Return the same metrics of the test set, as test_loss and test_accuracy."""
        with one_thread(), np.errstate(over="ignore", invalid="ignore"):
            return {f"test_{name}": value for name, value in self._test.evaluate(x).items()}


def central_evaluator(config: RunConfig) -> CentralEvaluator | None:
    """Return the evaluator, or None where only the clients have rows or the objective."""
    return CentralEvaluator(config) if config.server_has_rows else None


def mean_over_clients(answers: Iterable[Metrics]) -> Metrics:
    """Return the unweighted mean over clients, f = (1/N) sum_i f_i, of each metric that all gave; of nobody, none."""
    rows = list(answers)
    if not rows:
        return {}
    names = [name for name in rows[0] if all(name in row for row in rows)]
    return {name: sum(row[name] for row in rows) / len(rows) for name in names}


def evaluate_clients(
    ask: Callable[[Collection[str]], Mapping[str, Answer]],
    known: Collection[str] = (),
    *,
    max_retries: int,
    on_error: str,
) -> FullEvaluation:
    """Return the mean over the clients that could evaluate x, and who is missing.

    ``ask`` asks all that are there but for those given, who have answered, and returns the answers by name, in an order
    that does not depend on who answers first. Who fails is asked again up to max-retries times, as for a lost slot.
    ``known`` are clients that belong to the run and may not be there.

    Raises ObjectiveError when an evaluation failed to the end and on-error is stop.
    """
    answers: dict[str, Answer] = {}
    for _ in range(max_retries + 1):
        done = {name for name, answer in answers.items() if not isinstance(answer, Exception)}
        if answers and len(done) == len(answers):
            break
        answers |= ask(done)
    good = {name: answer for name, answer in answers.items() if isinstance(answer, Answered)}
    digest = _most_frequent([one.digest for one in good.values()])
    astray = {name: ObjectiveError(_ASTRAY, cause="other-directions") for name in good if good[name].digest != digest}
    good = {name: one for name, one in good.items() if name not in astray}
    failed = {name: answer for name, answer in answers.items() if isinstance(answer, Exception)}
    failed |= astray
    failed |= {name: ConnectionError(_NOT_THERE) for name in known if name not in answers}
    missing = tuple(
        Unevaluated(name, cause_of(error), str(error) or type(error).__name__) for name, error in failed.items()
    )
    if on_error == "stop" and any(isinstance(error, ObjectiveError) for error in failed.values()):
        raise ObjectiveError(
            f"x could not be evaluated by all clients ({who_is_missing(missing)}); the run stops since on-error = stop"
            " (another one leaves such clients out, and a run that has begun can be resumed with it)"
        )
    metrics = mean_over_clients({f"train_{key}": value for key, value in one.metrics.items()} for one in good.values())
    told = dict.fromkeys(key for one in good.values() for key in one.metrics)
    lacking = {key: tuple(name for name, one in good.items() if key not in one.metrics) for key in told}
    return FullEvaluation(
        metrics,
        tuple(good),
        missing,
        {key: names for key, names in lacking.items() if names},
        losses=tuple(one.metrics["loss"] for one in good.values()),
        samples=sum(one.samples for one in good.values()),
        digest=digest,
    )


def _most_frequent(digests: Sequence[str]) -> str:
    """Return the digest that most clients tell, the first of equally many."""
    return max(digests, key=digests.count, default="")
