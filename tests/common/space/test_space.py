"""Named parameters, and the way between them and coordinates."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zofedht.common.errors import ObjectiveError
from zofedht.common.space.kinds import Choice
from zofedht.common.space.numbers import Integer, Real
from zofedht.common.space.space import Space, space_mismatch

PUMP = {
    "valve": Real(0, 1),
    "pause": Real(1e-3, 10, log=True),
    "teeth": Integer(8, 40),
    "cells": Integer(1, 4096, log=True),
    "mode": Choice("a", "b", 3, True),
}


def pump() -> Space:
    return Space.of(PUMP)


def test_settings_come_back_from_their_coordinates() -> None:
    space, rng = pump(), np.random.default_rng(0)
    for _ in range(200):
        settings = {
            "valve": float(rng.random()),
            "pause": float(10 ** rng.uniform(-3, 1)),
            "teeth": int(rng.integers(8, 41)),
            "cells": int(rng.integers(1, 4097)),
            "mode": space.parameters[-1][1].options[rng.integers(4)],  # type: ignore[union-attr]
        }
        back = space.settings(space.coordinates(settings))
        assert back.pop("pause") == pytest.approx(settings.pop("pause"), rel=1e-13)
        assert back == settings
        assert [type(value) for value in back.values()] == [type(value) for value in settings.values()]


@given(st.integers(1, 10**12), st.integers(-20, 6))
def test_round_numbers_come_back_from_their_logarithm(digits: int, exponent: int) -> None:
    value = float(f"{digits}e{exponent}")
    kind = Real(1e-20, 1e18, log=True)
    assert kind.from_coordinates(kind.to_coordinates(value)) == value


def test_bounds_are_reached_exactly() -> None:
    space = pump()
    low, high = space.settings(space.box[:, 0]), space.settings(space.box[:, 1])
    assert (low["pause"], high["pause"]) == (1e-3, 10.0)
    assert (low["teeth"], high["teeth"]) == (8, 40)
    assert (low["cells"], high["cells"]) == (1, 4096)


def test_any_coordinates_give_values_in_range() -> None:
    space, rng = pump(), np.random.default_rng(1)
    for x in rng.normal(0.0, 50.0, (300, space.dim)):
        settings = space.settings(x)
        assert np.all(space.coordinates(settings) >= space.box[:, 0])
        assert np.all(space.coordinates(settings) <= space.box[:, 1])


def test_integers_have_equal_shares_of_their_range() -> None:
    space = Space.of({"teeth": Integer(1, 4)})
    (low, high) = space.box[0]
    found = [space.settings(np.array([c]))["teeth"] for c in np.linspace(low, high, 4001)]
    assert all(abs(found.count(teeth) - 1000) <= 2 for teeth in (1, 2, 3, 4))


def test_log_starts_in_the_middle_of_the_logarithm() -> None:
    assert Space.of({"pause": Real(1e-6, 1, log=True)}).middle["pause"] == pytest.approx(1e-3)


def test_reals_without_bounds_start_at_zero() -> None:
    space = Space.of({"free": Real(), "up": Real(2.0, None), "down": Real(None, -1.0)})
    assert space.middle == {"free": 0.0, "up": 2.0, "down": -1.0}


def test_snapped_points_have_the_same_settings() -> None:
    space, rng = pump(), np.random.default_rng(2)
    points = rng.uniform(space.box[:, 0], space.box[:, 1], (100, space.dim))
    snapped = space.snapped(points)
    assert [space.settings(x) for x in snapped] == [space.settings(x) for x in points]
    assert np.array_equal(space.snapped(snapped), snapped)
    assert np.array_equal(space.snapped(points[0]), snapped[0])


def test_text_and_rows_give_the_space_back() -> None:
    assert Space.of_text(pump().text) == pump()
    assert Space.of_rows(pump().rows).text == pump().text
    assert Space.of_names(["x", "y"]) == Space.of({"x": Real(), "y": Real()})


def test_missing_settings_come_from_the_start() -> None:
    space = Space.of({"valve": Real(0, 1), "mode": Choice("a", "b")})
    assert space.coordinates({"valve": 0.25}, space.middle).tolist() == [0.25, 1.0, 0.0]
    with pytest.raises(ObjectiveError, match="got none for 'mode'"):
        space.coordinates({"valve": 0.25})


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Real(1, 0), r"Real must have lower < upper, got \(1, 0\)"),
        (lambda: Real(0, 1, log=True), r"Real with log=True must have 0 < lower < upper, got \(0, 1\)"),
        (lambda: Real(1, None, log=True), r"0 < lower < upper, got \(1, inf\)"),
        (lambda: Real("0", 1), r"Real must have numbers for bounds, got '0'"),
        (lambda: Real(float("nan"), 1), r"Real must have lower < upper, got \(nan, 1\)"),
        (lambda: Real(0, 1, log="yes"), r"log of Real must be True or False, got 'yes'"),
        (lambda: Integer(8, 8), r"Integer must have lower < upper, got \(8, 8\)"),
        (lambda: Integer(0.5, 2), r"Integer must have whole numbers for bounds, got 0.5"),
        (lambda: Integer(0, float("inf")), r"Integer must have finite bounds, got inf"),
        (lambda: Integer(0, 9, log=True), r"Integer with log=True must have 0 < lower < upper, got \(0, 9\)"),
        (Choice, r"Choice must have 2 to 100 options, got 0"),
        (lambda: Choice("a"), r"Choice must have 2 to 100 options, got 1"),
        (lambda: Choice("a", "a"), r"Choice must have different options, got 'a' more than once"),
        (lambda: Choice(0, 0), r"Choice must have different options, got 0 more than once"),
        (lambda: Choice("a", None), r"an option of Choice must be a text, a number, True or False, got None"),
        (lambda: Space.of({}), r"parameters must map names to Real, Integer or Choice, got none"),
        (lambda: Space.of(3), r"parameters must map names to Real, Integer or Choice, got 3"),
        (lambda: Space.of({"valve": (0, 1)}), r"got \(0, 1\) for 'valve'"),
        (lambda: Space.of({"": Real(0, 1)}), r"a parameter's name must have 1 to 64 printable characters, got ''"),
        (lambda: Space.of([("v", Real(0, 1)), ("v", Real(0, 2))]), r"different names, got 'v' more than once"),
        (lambda: Space.of({"m": Choice(1, 2), "m=1": Real()}), r"coordinates must have different names, got 'm=1'"),
        (
            lambda: Space.of_rows({"valve": {"lower": 1, "upper": 0}}),
            r"parameter 'valve': Real must have lower < upper",
        ),
        (lambda: Space.of_rows({"valve": {"xyz": 1}}), r"parameter 'valve' must be a row .*got \{'xyz': 1\}"),
        (
            lambda: Space.of_rows({"teeth": {"lower": 8, "uper": 40, "integer": True}}),
            r"^parameter 'teeth': unknown key 'uper'; did you mean 'upper'\?$",
        ),
        (lambda: Space.of_rows({"mode": {"option": ["a", "b"]}}), r"unknown key 'option'; did you mean 'options'\?"),
        (lambda: Space.of_rows({"valve": 3}), r"parameter 'valve' must be a row .*got 3"),
        (
            lambda: Space.of_rows({"teeth": {"integer": True, "upper": 3}}),
            r"parameter 'teeth': Integer must have finite",
        ),
        (
            lambda: pump().coordinates({**pump().middle, "valve": 2}),
            r"parameter 'valve' must be a number from 0 to 1, got 2",
        ),
        (lambda: pump().coordinates({**pump().middle, "teeth": 8.5}), r"'teeth' must be a whole number from 8 to 40"),
        (lambda: pump().coordinates({**pump().middle, "mode": 1}), r"'mode' must be one of 'a', 'b', 3, True, got 1"),
        (lambda: pump().coordinates({"valv": 0.5}), r"there is no parameter 'valv'; there are valve, pause"),
        (lambda: Space.of({"up": Real(2.0)}).coordinates({"up": 1}), r"must be a number of at least 2, got 1"),
    ],
)
def test_malformed_parameters_give_one_sentence(make, sentence) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ObjectiveError, match=sentence):
        make()


def test_the_first_difference_of_two_spaces_is_named() -> None:
    other = Space.of(PUMP | {"teeth": Integer(8, 41)})
    text = space_mismatch(pump(), other, "site a", "site b")
    assert "site a has the parameter 'teeth' as Integer(lower=8, upper=40" in text
    assert space_mismatch(pump(), pump(), "a", "b") == ""
    assert "b names its parameters and a does not" in space_mismatch(None, pump(), "a", "b")


def test_ranges_are_at_bounds_and_options_are_not() -> None:
    space = Space.of({"a": Real(0, 1), "b": Real(1, 10, log=True), "c": Integer(8, 40), "d": Choice("x", "y")})
    for settings, count in (
        ({"a": 0.0, "b": 10.0, "c": 40, "d": "y"}, 3),
        ({"a": 0.5, "b": 2.0, "c": 8, "d": "x"}, 1),
        ({"a": 0.5, "b": 2.0, "c": 9, "d": "x"}, 0),
    ):
        assert space.at_bounds(space.coordinates(settings)) == (count, 3)


def test_bounds_that_no_float_can_tell_apart_are_refused() -> None:
    with pytest.raises(ObjectiveError, match=r"Real must have a range of less than 1\.8e308"):
        Real(-1e308, 1e308)
    with pytest.raises(ObjectiveError, match=r"Integer must have bounds up to 2\^53, got 1152921504606846976"):
        Integer(0, 2**60)
