"""Rows end where the loop of their source does, on its problem and with its settings."""

from __future__ import annotations

from statistics import fmean

import pytest

from zofedht.experiments.family.published import CURVATURE, OF_SOURCE, START, final_value


def test_the_problem_is_the_published_one() -> None:
    """The public code prints this value of the start."""
    assert pytest.approx(2.4382012201258774, rel=1e-12) == 0.5 * START @ (CURVATURE * START)


@pytest.mark.parametrize("row", OF_SOURCE)
def test_a_row_ends_where_its_source_does(row: str) -> None:
    mean, spread = OF_SOURCE[row][500]
    ours = fmean(final_value(row, 500, seed) for seed in range(3))
    assert abs(ours - mean) < 4.0 * spread * (1 / 3 + 1 / 5) ** 0.5
