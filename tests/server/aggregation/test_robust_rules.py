"""The robust rules: what each is, and what a false row can do to it."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from zofedht.common.typing import Matrix
from zofedht.server.aggregation.robust_rules import RULES, robust_mean, usual_length

_HONEST = np.random.default_rng(5).normal(1.0, 0.3, size=(10, 40))  # the mean is ~ 1 in each coordinate


def _usual(rows: Matrix) -> float:
    return float(np.median(np.linalg.norm(rows, axis=1)))


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("false", [1, 2, 3])
@pytest.mark.parametrize("times", [-1.0, -10.0, -1000.0, 1e150, 1e300])
def test_no_few_false_rows_turn_the_result(rule: str, false: int, times: float):
    rows = _HONEST.copy()
    rows[:false] *= times
    result = robust_mean(rule, rows, _usual(_HONEST), 3)
    honest = _HONEST.mean(axis=0)
    along = float(result @ honest) / float(honest @ honest)
    # A false row of at most twice the usual length takes away at most 2 x 3 of 10 - 3 parts, so some .1 is left.
    assert 0.05 < along < 1.8


@pytest.mark.parametrize("rule", RULES)
def test_equal_rows_give_that_row(rule: str):
    row = np.linspace(-2.0, 3.0, 7)
    np.testing.assert_allclose(robust_mean(rule, np.tile(row, (5, 1)), float(np.linalg.norm(row)), 1), row, rtol=1e-15)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("rows", [1, 2, 3, 4])
def test_few_rows_are_borne(rule: str, rows: int):
    few = _HONEST[:rows]
    result = robust_mean(rule, few, _usual(few), 3)
    assert result.shape == (40,)
    assert np.all((few.min(axis=0) - 1e-12 <= result) & (result <= few.max(axis=0) + 1e-12))


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_is_the_same_in_other_units(rule: str):
    usual = _usual(_HONEST)
    scaled = robust_mean(rule, 8.0 * _HONEST, 8.0 * usual, 2)
    np.testing.assert_array_equal(scaled, 8.0 * robust_mean(rule, _HONEST, usual, 2))


@pytest.mark.parametrize("rule", ["median", "trimmed-mean", "krum", "multi-krum"])
def test_a_rule_moves_with_the_origin(rule: str):
    there = robust_mean(rule, _HONEST + 5.0, 0.0, 2)
    np.testing.assert_allclose(there, robust_mean(rule, _HONEST, 0.0, 2) + 5.0, rtol=1e-12)


def test_the_trimmed_mean_without_trimming_is_the_mean():
    np.testing.assert_allclose(robust_mean("trimmed-mean", _HONEST, 0.0, 0), _HONEST.mean(axis=0), rtol=1e-14)


def test_the_most_trimmed_mean_is_the_median():
    rows = _HONEST[:7]
    np.testing.assert_array_equal(robust_mean("trimmed-mean", rows, 0.0, 3), np.median(rows, axis=0))


def test_clipping_leaves_what_is_no_longer_than_usual_twice():
    np.testing.assert_array_equal(robust_mean("clipped", _HONEST, 1e9, 0), _HONEST.mean(axis=0))
    rows = np.array([[3.0, 4.0], [300.0, 400.0]])
    np.testing.assert_allclose(robust_mean("clipped", rows, 5.0, 0), [4.5, 6.0])  # the second becomes (6, 8)


def test_krum_is_the_row_of_the_definition():
    rows, false = _HONEST[:8], 2
    scores = []
    for i in range(8):
        apart = sorted(float(np.sum((rows[i] - rows[j]) ** 2)) for j in range(8) if j != i)
        scores.append(sum(apart[: 8 - false - 2]))
    np.testing.assert_array_equal(robust_mean("krum", rows, 0.0, false), rows[int(np.argmin(scores))])
    best = np.sort(np.argsort(scores)[: 8 - false])
    np.testing.assert_allclose(robust_mean("multi-krum", rows, 0.0, false), rows[best].mean(axis=0), rtol=1e-14)


def test_centered_clipping_takes_the_steps_of_the_definition():
    v = np.zeros(40)
    for _ in range(3):
        lengths = np.linalg.norm(_HONEST - v, axis=1)
        radius = np.median(lengths)
        v = v + np.mean([min(1.0, radius / s) * (row - v) for s, row in zip(lengths, _HONEST, strict=True)], axis=0)
    np.testing.assert_allclose(robust_mean("centered-clipping", _HONEST, 0.0, 0), v, rtol=1e-13)


def test_the_usual_length_is_a_median_over_five_rounds():
    medians: tuple[float, ...] = ()
    for length in (1.0, 2.0, 3.0, 4.0, 100.0):
        usual, medians = usual_length(medians, [length, length, 1e9])
    assert (usual, medians) == (3.0, (1.0, 2.0, 3.0, 4.0, 100.0))
    assert usual_length(medians, [5.0])[1] == (2.0, 3.0, 4.0, 100.0, 5.0)


def test_the_order_of_slots_changes_no_more_than_rounding():
    for rule, order in itertools.product(RULES, (slice(None, None, -1), np.r_[5:10, 0:5])):
        one, other = (robust_mean(rule, rows, _usual(_HONEST), 2) for rows in (_HONEST, _HONEST[order]))
        np.testing.assert_allclose(one, other, rtol=1e-12)
