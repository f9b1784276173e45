"""A plain function as an objective."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

from zofedht.common.errors import ObjectiveError
from zofedht.common.objective.function import FunctionObjective
from zofedht.common.objective.loading import starting_point
from zofedht.common.space.numbers import Real


def test_a_function_of_x_has_no_samples() -> None:
    objective = FunctionObjective(lambda x: float(x.sum()), [1, 2, 3])
    assert (objective.dim, len(objective)) == (3, 1)
    assert objective.value(np.ones(3), slice(None)) == 3.0
    np.testing.assert_array_equal(starting_point(objective, 0), [1.0, 2.0, 3.0])


def test_a_function_of_x_and_batch_gets_the_batch() -> None:
    rows = np.arange(5.0)
    objective = FunctionObjective(lambda x, batch: float(rows[batch].mean() + x[0]), [0.0], samples=5)
    assert len(objective) == 5
    assert objective.value(np.array([1.0]), np.array([4, 2])) == 4.0
    assert objective.value(np.array([1.0]), slice(None)) == 3.0


def test_the_function_may_change_its_x() -> None:
    def meddle(x: Any) -> float:
        x += 1.0
        return float(x.sum())

    x = np.zeros(2)
    assert FunctionObjective(meddle, x).value(x, slice(None)) == 2.0
    np.testing.assert_array_equal(x, 0.0)


@pytest.mark.parametrize(
    ("function", "x0", "samples", "sentence"),
    [
        (lambda x: 0.0, "here", None, "x0 must be a vector of finite numbers, got 'here'"),
        (
            lambda x: 0.0,
            [[1.0]],
            None,
            "x0 must be a vector of finite numbers, got an array of shape .1, 1.",
        ),
        (lambda x: 0.0, [], None, "x0 must be a vector of .* got an array of shape .0,."),
        (lambda x: 0.0, [np.nan], None, "x0 must be a vector of .* got nan for parameter 0"),
        (lambda x, batch: 0.0, [1.0], None, r"must take \(x\), but it takes \(x, batch\); .* needs samples=N"),
        (lambda x: 0.0, [1.0], 5, r"must take \(x, batch\), but it takes \(x\); leave out samples"),
    ],
)
def test_unusable_functions_and_starts_are_refused(function: Any, x0: Any, samples: int | None, sentence: str) -> None:
    with pytest.raises(ObjectiveError, match=sentence):
        FunctionObjective(function, x0, samples)


def test_a_refusal_shows_the_arguments_that_are_open() -> None:
    bound = functools.partial(lambda valve, shard: valve, shard="north")
    with pytest.raises(ObjectiveError, match=r"\(pause=\), but it takes \(valve\)"):
        FunctionObjective(bound, parameters={"pause": Real(0, 1)})
