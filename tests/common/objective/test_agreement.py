"""Units of two clients: the same, or which parameter differs and how."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zofedht.common.objective.agreement import units_as_bytes, units_mismatch
from zofedht.common.objective.units import Units

_INF = np.inf


def units(scale: Any, lower: Any = -_INF, upper: Any = _INF, dimension: int = 3) -> Units:
    return Units(*(np.array(np.broadcast_to(part, (dimension,)), dtype=float) for part in (scale, lower, upper)))


@given(st.integers(1, 5), st.integers(0, 2), st.data())
def test_the_differing_number_is_told_with_both_values(dimension: int, part: int, data: st.DataObject):
    index = data.draw(st.integers(0, dimension - 1))
    mine = units(2.0, -1.0, 1.0, dimension)
    theirs = units(2.0, -1.0, 1.0, dimension)
    name = ("scale", "lower", "upper")[part]
    getattr(theirs, name)[index] = (3.0, -5.0, 7.0)[part]
    told = units_mismatch(units_as_bytes(mine), units_as_bytes(theirs), "mine", "yours")
    here, there = (float(getattr(which, name)[index]) for which in (mine, theirs))
    word = ("scale", "lower bound", "upper bound")[part]
    assert told.startswith(
        f"mine has the {word} {here!r} for parameter {index}, yours has {there!r}; all clients of a run"
    )


def test_equal_units_agree_and_minus_zero_differs_from_zero():
    assert units_mismatch(units_as_bytes(units(1.0)), units_as_bytes(units(1.0)), "a", "b") == ""
    assert units_mismatch(b"", b"", "a", "b") == ""
    signed = units_mismatch(units_as_bytes(units(1.0, 0.0, 1.0)), units_as_bytes(units(1.0, -0.0, 1.0)), "a", "b")
    assert signed.startswith("a has the lower bound 0.0 for parameter 0, b has -0.0 (3 parameters differ)")


@pytest.mark.parametrize(("mine", "theirs", "who"), [(units(1.0), None, "a"), (None, units(1.0), "b")])
def test_a_missing_declaration_names_its_client(mine: Units | None, theirs: Units | None, who: str):
    told = units_mismatch(units_as_bytes(mine), units_as_bytes(theirs), "a", "b")
    assert told.startswith(f"{who} declares a scale or bounds and {'b' if who == 'a' else 'a'} does not; all clients")


def test_long_units_are_compared_by_digest():
    long, other = units(1.0, dimension=3000), units(2.0, dimension=3000)
    assert len(units_as_bytes(long)) == 72_000
    assert len(units_as_bytes(long, 48 * 1024)) == 32
    assert units_as_bytes(long, 48 * 1024) == units_as_bytes(units(1.0, dimension=3000), 48 * 1024)
    told = units_mismatch(units_as_bytes(long, 48 * 1024), units_as_bytes(other, 48 * 1024), "a", "b")
    assert told.startswith("a has another scale or other bounds than b; all clients")
