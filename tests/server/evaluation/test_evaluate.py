"""Full evaluations: on all rows, or the unweighted mean over clients."""

from __future__ import annotations

import numpy as np
import pytest

from tests.helpers import small
from zofedht.common.objective.loading import starting_point
from zofedht.common.shards import members_of, objective_of, train_objective
from zofedht.server.evaluation.evaluate import CentralEvaluator, mean_over_clients


def test_the_central_evaluation_is_that_of_the_training_rows():
    config = small()
    x = np.random.default_rng(0).standard_normal(65)
    expected = train_objective(config).evaluate(x)
    assert CentralEvaluator(config)(x) == {"train_loss": expected["loss"], "train_accuracy": expected["accuracy"]}


def test_the_logistic_loss_of_zero_is_log_2():
    evaluate = CentralEvaluator(small())
    x = np.zeros(evaluate.dim)
    assert evaluate(x)["train_loss"] == pytest.approx(np.log(2), rel=1e-14)
    assert evaluate.test(x)["test_loss"] == pytest.approx(np.log(2), rel=1e-14)


def test_the_server_knows_the_start_that_clients_have():
    assert CentralEvaluator(small()).starting_point() is None
    config = small(model="mlp", hidden_units=3)
    start = starting_point(objective_of(config.task, 1), config.seed)
    assert start is not None
    np.testing.assert_array_equal(CentralEvaluator(config).starting_point(), start)


def test_test_rows_are_not_training_rows():
    evaluate = CentralEvaluator(small())
    x = np.random.default_rng(0).standard_normal(evaluate.dim)
    assert evaluate(x)["train_loss"] != evaluate.test(x)["test_loss"]


def test_a_model_that_classifies_nothing_has_no_accuracy():
    evaluate = CentralEvaluator(small(model="quadratic"))
    assert set(evaluate(np.zeros(evaluate.dim))) == {"train_loss"}


@pytest.mark.parametrize("far", [1e200, 1e308, np.inf, np.nan])
@pytest.mark.parametrize("model", ["logistic", "svm-squared-hinge", "quadratic"])
def test_a_diverged_x_is_evaluated_without_a_warning(model: str, far: float):
    evaluate = CentralEvaluator(small(model=model))
    assert not np.isfinite(evaluate(np.full(evaluate.dim, far))["train_loss"]) or far < 1e308


def test_equal_shards_give_the_central_loss():
    config = small(num_clients=2, clients_per_round=2, train_rows=1000)
    x = np.random.default_rng(0).standard_normal(65)
    answers = [objective_of(config.task, member.shard_index).evaluate(x) for member in members_of(config)]
    mean = mean_over_clients([{"train_loss": answer["loss"]} for answer in answers])
    assert mean["train_loss"] == pytest.approx(CentralEvaluator(config)(x)["train_loss"], rel=1e-13)


def test_the_mean_holds_metrics_of_all_clients():
    answers = [{"train_loss": 1.0, "train_accuracy": 0.5}, {"train_loss": 2.0}, {"train_loss": 6.0}]
    assert mean_over_clients(answers) == {"train_loss": 3.0}
