"""Objectives: what the base class gives, and what counts as a loss."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.common.samples import Sum
from zofedht.common.errors import ObjectiveError
from zofedht.common.objective.base import checked_loss


def test_pair_gives_both_ends_and_leaves_w_alone() -> None:
    w, v = np.array([1.0, 2.0, 3.0]), np.array([1.0, 0.0, 1.0])
    assert Sum().pair(w, v, 0.5, np.array([0, 1])) == (14.0, 10.0)
    np.testing.assert_array_equal(w, [1.0, 2.0, 3.0])


def test_values_are_the_values_of_each_row() -> None:
    values = Sum().values(np.array([[1.0, 2.0, 3.0], [0.0, 0.0, 1.0]]), np.array([0]))
    np.testing.assert_array_equal(values, [6.0, 1.0])
    assert values.dtype == np.float64


def test_evaluation_is_the_loss_on_the_whole_shard() -> None:
    assert Sum().evaluate(np.ones(3)) == {"loss": 12.0}


@pytest.mark.parametrize("value", [1.5, np.float64(1.5), np.longdouble(1.5), 2, -1e300])
def test_numbers_of_full_precision_are_losses(value: Any) -> None:
    loss = checked_loss(value)
    assert type(loss) is float
    assert loss == value


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        (float("nan"), "returned nan, not a finite number"),
        (np.float64("inf"), "returned inf, not a finite number"),
        (np.float32(1.0), "got float32"),
        (np.float16(1.0), "got float16"),
        (np.array([1.0]), r"got an array of shape \(1,\)"),
        (np.array(1.0, dtype=np.float32), "got float32"),
        (True, "got bool"),
        (None, "got NoneType"),
        ("1.0", "got str"),
        ([1.0], "got list"),
    ],
)
def test_anything_else_is_no_loss(value: Any, complaint: str) -> None:
    with pytest.raises(ObjectiveError, match=complaint):
        checked_loss(value)
