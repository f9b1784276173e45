"""Tables with gaps."""

from __future__ import annotations

import numpy as np

from zofedht.server.cma.tables import read, whole

NAN = np.nan


def test_gaps_are_filled_by_site_and_candidate() -> None:
    levels, effects = np.array([1.0, 10.0, -3.0]), np.array([0.0, 2.0, 5.0, 7.0])
    table = levels[:, None] + effects
    torn = table.copy()
    torn[0, 1] = torn[2, 3] = NAN
    filled, kept, _ = whole(torn)
    np.testing.assert_allclose(filled, table, atol=1e-12)
    assert kept.tolist() == [0, 1, 2, 3]


def test_a_candidate_that_most_sites_lost_is_left_out() -> None:
    table = np.array([[1.0, NAN, 3.0], [2.0, NAN, 4.0], [3.0, 9.0, 5.0]])
    filled, kept, _ = whole(table)
    assert kept.tolist() == [0, 2]
    assert filled.tolist() == [[1.0, 3.0], [2.0, 4.0], [3.0, 5.0]]


def test_a_site_with_less_than_half_is_left_out() -> None:
    table = np.array([[1.0, 2.0, 3.0], [NAN, NAN, 4.0], [3.0, 4.0, 5.0]])
    filled, kept, _ = whole(table)
    assert filled.tolist() == [[1.0, 2.0, 3.0], [3.0, 4.0, 5.0]]
    assert kept.tolist() == [0, 1, 2]


def test_nothing_is_nothing() -> None:
    for table in (np.full((3, 4), NAN), np.empty((0, 0))):
        reading, kept = read(table)
        assert kept.size == reading.values.size == 0


def test_variances_are_those_of_an_additive_table() -> None:
    """Means over 2000 tables of sd 1 around candidates of variance 4; five standard errors are below 3%."""
    rng = np.random.default_rng(1)
    residual, variance = [], []
    for _ in range(2000):
        table = 50.0 * rng.standard_normal((3, 1)) + 2.0 * rng.standard_normal(8) + rng.standard_normal((3, 8))
        reading, _ = read(table)
        residual.append(reading.residual)
        variance.append(reading.variance)
    np.testing.assert_allclose(np.mean(residual), 1.0, rtol=0.03)
    np.testing.assert_allclose(np.mean(variance), 4.0 + 1.0 / 3.0, rtol=0.07)
