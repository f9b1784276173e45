"""The change of variables at bounds."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from zofedht.server.cma.bounds import Box

ENDS = [(-np.inf, np.inf), (0.0, np.inf), (-np.inf, 2.0), (0.0, 2.0), (0.0, 0.05), (1.0, 1.0), (-1e3, 1e3)]
BOX = Box(*(np.array(ends) for ends in zip(*ENDS, strict=True)))
NUMBERS = st.floats(-1e4, 1e4, allow_nan=False)


@given(st.lists(NUMBERS, min_size=len(ENDS), max_size=len(ENDS)))
def test_every_y_leads_within_the_bounds(y: list[float]) -> None:
    x = BOX.inside(np.array(y))
    assert np.all((x >= BOX.lower) & (x <= BOX.upper))


@given(st.lists(st.floats(0.0, 1.0), min_size=len(ENDS), max_size=len(ENDS)))
def test_each_x_is_reached(share: list[float]) -> None:
    low, high = np.maximum(BOX.lower, -5.0), np.minimum(BOX.upper, 5.0)
    x = low + np.array(share) * (high - low)
    np.testing.assert_allclose(BOX.inside(BOX.outside(x)), x, atol=1e-12)


def test_away_from_the_bounds_nothing_changes() -> None:
    x = np.array([3.0, 3.0, -3.0, 1.0, 0.025, 1.0, 7.0])
    np.testing.assert_allclose(BOX.inside(x), x, atol=1e-12)


def test_a_bound_is_a_smooth_minimum() -> None:
    """Around the y that leads to the bound, x rises on both sides alike."""
    bottom = Box(np.zeros(1), np.full(1, 2.0)).outside(np.zeros(1))
    steps = np.array([[-1e-2], [-1e-3], [1e-3], [1e-2]])
    x = Box(np.zeros(1), np.full(1, 2.0)).inside(bottom + steps)[:, 0]
    np.testing.assert_allclose(x, np.square(steps[:, 0]) / 0.4, rtol=1e-9)


def test_rows_are_points() -> None:
    y = np.random.default_rng(1).uniform(-9.0, 9.0, (5, len(ENDS)))
    np.testing.assert_array_equal(BOX.inside(y), [BOX.inside(row) for row in y])
