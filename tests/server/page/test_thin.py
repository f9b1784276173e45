"""Fewer points keep what one looks for in a curve."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from zofedht.server.page.thin import Point, thinned

LOSS = st.none() | st.floats(-10, 10)


def points(losses: list[float | None], full: bool = True) -> list[Point]:
    return [Point(r, 10 * r, 0.1 * r, r, loss, full, 0.1, 0.0, 3, 0) for r, loss in enumerate(losses)]


@given(st.lists(LOSS, max_size=300), st.integers(4, 60))
def test_ends_and_extremes_stay(losses: list[float | None], most: int):
    every = points(losses)
    shown = thinned(every, most)
    assert len(shown) <= most
    assert [p.round for p in shown] == sorted({p.round for p in shown})
    assert set(shown) <= set(every)
    if every:
        assert (shown[0], shown[-1]) == (every[0], every[-1])
    known = [p.loss for p in every if p.loss is not None]
    if known:
        assert {min(known), max(known)} <= {p.loss for p in shown}


def test_full_evaluations_win_over_probes():
    every = [p._replace(full=p.round % 50 == 49) for p in points([float(r % 7) for r in range(1000)])]
    shown = thinned(every, 60)
    assert sum(p.full for p in shown) == 20


def test_few_points_stay_as_they_are():
    every = points([1.0, None, 2.0])
    assert thinned(every, 4) == every
