"""The names that keys choose among, and the texts of labels and transforms of the features."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from zofedht.common import choices
from zofedht.common.choices import label_texts, parse_labels, parse_transforms
from zofedht.common.data.partition import DEALERS
from zofedht.common.data.preprocessing import TRANSFORMS
from zofedht.common.directions.probes import LAWS
from zofedht.common.directions.slopes import ENDS
from zofedht.common.errors import DataError
from zofedht.common.models.table import BUILDERS


@pytest.mark.parametrize(
    ("names", "table"),
    [
        (choices.PARTITIONS, DEALERS),
        (choices.PREPROCESS, TRANSFORMS),
        (choices.MODELS, BUILDERS),
        (choices.PROBE_LAWS, LAWS),
        (choices.SLOPES[:-2], ENDS),  # a gradient has no ends, nor has one of a surrogate
    ],
)
def test_every_name_stands_for_something(names: tuple[str, ...], table: Collection[str]) -> None:
    assert names == tuple(table)


def test_every_transform_can_be_named() -> None:
    assert parse_transforms(" , ".join(TRANSFORMS)) == tuple(TRANSFORMS)
    assert parse_transforms("none") == ()


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ("2", {2}),
        ("1,3,5", {1, 3, 5}),
        ("5-9", {5, 6, 7, 8, 9}),
        ("-1", {-1}),
        ("+1", {1}),
        ("-3--1", {-3, -2, -1}),
        ("-1-1", {-1, 0, 1}),
        (" 7 , 0-2,7 ", {0, 1, 2, 7}),
        ("4-4", {4}),
        ("auto", set()),
    ],
)
def test_labels_are_numbers_ranges_and_lists(text: str, labels: set[int]) -> None:
    assert parse_labels(text) == labels


@pytest.mark.parametrize("text", ["", ",", "1,", "a,", "1.5", "1 2", "5-", "--1", "1-2-3", "9" * 16])
def test_nonsense_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(DataError, match=r"positive-labels must be 'auto', .*such as '5-9'.*, or texts, got '"):
        parse_labels(text)


@pytest.mark.parametrize(("text", "named"), [("yes", {"yes"}), (" M , Maybe", {"m", "maybe"}), ("1e3,5", {"1e3", "5"})])
def test_texts_name_the_labels_that_count_as_1(text: str, named: set[str]) -> None:
    assert label_texts(text) == named
    assert parse_labels(text) == {1}


@pytest.mark.parametrize("text", ["9-5", "0-999999999999", "-1--3"])
def test_backward_and_endless_ranges_are_refused(text: str) -> None:
    with pytest.raises(DataError, match=f"ranges that run upwards.*'{text}'.*smaller label first"):
        parse_labels(text)


def test_every_range_equals_its_list() -> None:
    for first in range(-4, 5):
        for last in range(first, 5):
            listed = ",".join(map(str, range(first, last + 1)))
            assert parse_labels(f"{first}-{last}") == parse_labels(listed)
