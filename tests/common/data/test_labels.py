"""The rule "auto" of positive-labels, and the binary target."""

from __future__ import annotations

import numpy as np
import pytest

from zofedht.common.data.labels import binary_target, check_both_classes, choose_positive, whole_labels
from zofedht.common.errors import DataError


@pytest.mark.parametrize(
    ("found", "positive"),
    [
        ([0, 1], {1}),
        ([-1, 1], {1}),
        ([3, 8], {8}),
        ([40, 2], {40}),
        (range(10), range(5, 10)),
        ([1, 2, 6], range(5, 10)),
    ],
)
def test_auto_takes_the_larger_label_or_digits(found: list[int], positive: set[int]) -> None:
    labels = np.repeat(np.array(found), 3)
    assert choose_positive(frozenset(), labels, "some") == set(positive)
    assert choose_positive(frozenset({1}), labels, "some") == {1}


@pytest.mark.parametrize(
    ("found", "listed"),
    [
        ([0, 5, 10], "0, 5, 10"),
        ([0, 1, 2], "0, 1, 2"),
        ([6, 7, 8], "6, 7, 8"),
        ([-1, 0, 1], "-1, 0, 1"),
        ([4], "has 4;"),
        (list(range(30)), r"9, \.\.\. \(30 in all\)"),
    ],
)
def test_auto_refuses_other_labels(found: list[int], listed: str) -> None:
    with pytest.raises(DataError, match=f"positive-labels 'auto'.*'some'.*{listed}.*name the positive labels"):
        choose_positive(frozenset(), np.array(found), "some")


@pytest.mark.parametrize("dtype", [np.uint8, np.int64, np.float32, np.float64])
def test_whole_numbers_of_any_dtype_are_labels(dtype: type) -> None:
    labels = whole_labels(np.array([3, 0, 9], dtype=dtype), "some")
    assert labels.dtype == np.intp
    assert labels.tolist() == [3, 0, 9]


@pytest.mark.parametrize("value", [0.5, 1e300, np.nan, -np.inf])
def test_other_labels_are_refused_with_their_row(value: float) -> None:
    with pytest.raises(DataError, match=r"'some'.*whole numbers, got .* at row 2; number the classes"):
        whole_labels(np.array([1.0, value]), "some")


def test_target_is_one_exactly_on_the_positive_labels() -> None:
    labels = np.arange(10)
    target = binary_target(labels, frozenset({2, 7, 99}))
    assert target.dtype == np.float64
    assert np.flatnonzero(target).tolist() == [2, 7]
    assert target.sum() == 2.0


@pytest.mark.parametrize(("positive", "side"), [({8}, "negative"), ({0, 1, 2}, "positive")])
def test_training_rows_of_one_class_are_refused(positive: set[int], side: str) -> None:
    labels = np.array([0, 1, 2])
    target = binary_target(labels, frozenset(positive))
    with pytest.raises(DataError, match=f"positive-labels must.*all 3 training rows of 'some' are {side}.*0, 1, 2"):
        check_both_classes(target, labels, frozenset(positive), "some")
