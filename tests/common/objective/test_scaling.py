"""Scaled and bounded parameters: what is searched, what the user's function sees, and the slope at a bound."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.common.samples import probe
from tests.waiting import PATIENCE
from zofedht.common.directions.slopes import ENDS, probes
from zofedht.common.errors import ObjectiveError
from zofedht.common.objective.agreement import digest_of
from zofedht.common.objective.base import Objective
from zofedht.common.objective.loading import starting_point
from zofedht.common.objective.scaling import in_search_units, units_of
from zofedht.common.objective.units import Units
from zofedht.common.typing import Vector

_INF = np.inf
_BOUNDS = [(-1.0, 1.0), (0.0, None), (None, 5.0), (2.0, 2.0), (None, None)]


class _Linear(Objective):
    """a.x, which must not be asked outside of the bounds."""

    dim = 5
    slopes = np.array([1.0, -2.0, 0.5, 4.0, -1.0])

    def __init__(self, scale: Any = None, bounds: Any = None) -> None:
        self.scale, self.bounds = scale, bounds
        self.seen: list[Vector] = []

    def value(self, x: Vector, batch: object) -> float:
        self.seen.append(x)
        return float(self.slopes @ x)


def test_without_scale_and_bounds_nothing_is_wrapped() -> None:
    objective = _Linear()
    assert in_search_units(objective) is objective
    assert units_of(objective) is None
    assert digest_of(objective) == ""


def test_the_user_sees_scale_times_z() -> None:
    objective = _Linear(scale=[1.0, 10.0, 100.0, 1e3, 1e-3])
    searched = in_search_units(objective)
    z = np.arange(5.0)
    assert searched.value(z, slice(None)) == objective.value(z * objective.scale, slice(None))
    assert searched.evaluate(z) == objective.evaluate(z * objective.scale)
    np.testing.assert_array_equal(
        searched.values(np.stack([z, -z]), slice(None)), [objective.value(s * z * objective.scale, 0) for s in (1, -1)]
    )


def test_a_scale_changes_nothing_but_the_units() -> None:
    """Steps in z with the scale are those of F(scale z)."""
    scale = np.array([1.0, 10.0, 100.0, 1e3, 1e-3])
    objective = in_search_units(_Linear(scale=scale))
    z, v = np.full(5, 0.5), np.arange(1.0, 6.0)
    for kind in ENDS:
        found = probe(objective, z, v, 1e-3, slice(None), kind).slope
        assert found == pytest.approx(float(_Linear.slopes @ (scale * v)), rel=1e-9)


def test_the_distance_of_two_bounds_is_the_default_scale() -> None:
    units = units_of(_Linear(bounds=_BOUNDS))
    assert units is not None
    np.testing.assert_array_equal(units.scale, [2.0, 1.0, 1.0, 1.0, 1.0])
    np.testing.assert_array_equal(units.lower, [-1.0, 0.0, -_INF, 2.0, -_INF])
    np.testing.assert_array_equal(units.upper, [1.0, _INF, 5.0, 2.0, _INF])
    both = units_of(_Linear(scale=3.0, bounds=(0, None)))
    assert both is not None
    np.testing.assert_array_equal(both.scale, np.full(5, 3.0))
    np.testing.assert_array_equal(both.lower, np.zeros(5))
    two = type("Two", (_Linear,), {"dim": 2})
    np.testing.assert_array_equal(units_of(two(bounds=[(0, 1), (0, 2)])).upper, [1.0, 2.0])
    np.testing.assert_array_equal(units_of(two(bounds=(0, 1))).upper, [1.0, 1.0])
    np.testing.assert_array_equal(units_of(two(bounds=np.array([[0, 1], [0, 2]]))).upper, [1.0, 2.0])


_POINTS = st.lists(st.floats(-1e3, 1e3), min_size=5, max_size=5)


@settings(max_examples=200)
@given(z=_POINTS, v=_POINTS, radius=st.sampled_from([1e-8, 1e-3, 1.0]), kind=st.sampled_from(sorted(ENDS)))
def test_no_evaluation_is_outside_the_bounds(z: list[float], v: list[float], radius: float, kind: str) -> None:
    objective = _Linear(scale=[3.0, 0.1, 7.0, 1.0, 1.0], bounds=_BOUNDS)
    searched, units = in_search_units(objective), units_of(objective)
    assert units is not None
    probe(searched, np.array(z), np.array(v), radius, slice(None), kind)
    searched.value(units.project(np.array(z)), slice(None))
    searched.evaluate(np.array(z))
    for x in objective.seen:
        assert np.all(x >= units.lower)
        assert np.all(x <= units.upper)


@settings(max_examples=100)
@given(z=_POINTS, v=_POINTS, radius=st.sampled_from([1e-8, 1e-3, 1.0]))
def test_slopes_that_share_a_value_stay_within_the_bounds(z: list[float], v: list[float], radius: float) -> None:
    objective = _Linear(scale=[3.0, 0.1, 7.0, 1.0, 1.0], bounds=_BOUNDS)
    units = units_of(objective)
    assert units is not None
    directions = np.array([v, v[::-1], [-number for number in v]])
    probes(in_search_units(objective), np.array(z), directions, radius, slice(None), "forward")
    assert len(objective.seen) == 4
    for x in objective.seen:
        assert np.all((x >= units.lower) & (x <= units.upper))


def test_shared_linear_slopes_are_exact_at_bounds() -> None:
    objective = in_search_units(_Linear(bounds=[(-1.0, 1.0), (0.0, None), (None, 5.0), (-2.0, 2.0), (None, None)]))
    units = units_of(objective)
    assert units is not None
    directions = np.random.default_rng(0).standard_normal((3, 5))
    z = np.array([-1.0, 0.0, 5.0, 2.0, 0.0]) / units.scale
    found = probes(objective, z, directions, 1e-3, slice(None), "forward").slopes
    np.testing.assert_allclose(found, directions @ (units.scale * _Linear.slopes), rtol=1e-9)


@pytest.mark.parametrize("kind", sorted(ENDS))
def test_linear_slopes_are_exact_at_a_bound(kind: str) -> None:
    objective = in_search_units(_Linear(bounds=[(-1.0, 1.0), (0.0, None), (None, 5.0), (-2.0, 2.0), (None, None)]))
    units = units_of(objective)
    assert units is not None
    rng = np.random.default_rng(0)
    for corner in ([-1.0, 0.0, 5.0, 2.0, 0.0], [1.0, 0.0, 5.0, -2.0, 0.0], [0.0, 1.0, 0.0, 0.0, 0.0]):
        z, v = np.array(corner) / units.scale, rng.standard_normal(5)
        found = probe(objective, z, v, 1e-3, slice(None), kind).slope
        assert found == pytest.approx(float(_Linear.slopes @ (units.scale * v)), rel=1e-9)


def test_a_parameter_whose_bounds_meet_is_fixed() -> None:
    objective = _Linear(bounds=_BOUNDS)
    probe(in_search_units(objective), np.zeros(5), np.ones(5), 0.1, slice(None), "central")
    assert {x[3] for x in objective.seen} == {2.0}


def test_a_box_narrower_than_the_probe_shortens_the_probe() -> None:
    objective = _Linear(scale=1.0, bounds=(0.0, 0.5))
    probe(in_search_units(objective), np.full(5, 0.1), np.full(5, 3.0), 1.0, slice(None), "central")
    np.testing.assert_allclose(objective.seen, [np.full(5, 0.5), np.zeros(5)], atol=1e-14)


def test_projection_is_idempotent_and_keeps_the_users_x() -> None:
    units = units_of(_Linear(scale=[3.0, 0.1, 7.0, 1.0, 1.0], bounds=_BOUNDS))
    assert units is not None
    z = np.array([9.0, -9.0, 9.0, 9.0, 9.0])
    inside = units.project(z)
    np.testing.assert_array_equal(units.project(inside), inside)
    np.testing.assert_array_equal(units.to_user(inside), units.to_user(z))
    np.testing.assert_array_equal(units.to_user(z), [1.0, 0.0, 5.0, 2.0, 9.0])


def test_the_users_starting_point_is_in_the_users_units() -> None:
    box = type("Box", (_Linear,), {"initial": lambda self, rng: [0.5, 1.0, 2.0, 2.0, 7.0]})(bounds=_BOUNDS)
    np.testing.assert_array_equal(starting_point(in_search_units(box), 0), [0.25, 1.0, 2.0, 2.0, 7.0])
    box.bounds = [(0.0, 0.1), *_BOUNDS[1:]]
    with pytest.raises(ObjectiveError, match=r"must lie within the bounds, got 0.5 for parameter 0 .*\(0.0, 0.1\)"):
        starting_point(in_search_units(box), 0)


@pytest.mark.parametrize(
    ("scale", "bounds", "sentence"),
    [
        (0.0, None, "scale must be positive and finite, got 0.0 for parameter 0"),
        ([1, 1, -1, 1, 1], None, "got -1.0 for parameter 2"),
        ([1, 1], None, r"scale must be a vector of 5 numbers, got an array of shape \(2,\)"),
        ("wide", None, "scale must be a vector of 5 numbers, got 'wide'"),
        (None, [(0, 1)] * 4, "5 pairs, one for each, got 4 entries"),
        (None, [(0, 1, 2)] * 5, "5 pairs"),
        (None, [1, 2, 3, 4, 5], "5 pairs"),
        (None, (1.0, 0.0), r"lower <= upper, got \(1.0, 0.0\) for parameter 0"),
        (None, (np.nan, 1.0), "got .nan, 1.0. for parameter 0"),
        (None, (np.inf, np.inf), "got .inf, inf."),
    ],
)
def test_malformed_scale_and_bounds_are_refused(scale: Any, bounds: Any, sentence: str) -> None:
    with pytest.raises(ObjectiveError, match=sentence):
        in_search_units(_Linear(scale, bounds))


def test_different_units_have_different_digests() -> None:
    digests = {digest_of(_Linear(*units)) for units in ((1.0,), (2.0,), (1.0, (0, 1)), (1.0, (0, 2)), (1.0, (-1, 1)))}
    assert len(digests) == 5


def test_units_of_different_sizes_are_refused() -> None:
    with pytest.raises(ObjectiveError, match="vectors of one size, got shapes"):
        Units(np.ones(2), np.zeros(3), np.ones(3))


class _Meeting(_Linear):
    """Answers only when two evaluations are there at once."""

    concurrency = 2

    def __init__(self) -> None:
        super().__init__()
        self._both = threading.Barrier(2)

    def value(self, x: Vector, batch: object) -> float:
        self._both.wait(timeout=PATIENCE)
        return super().value(x, batch)


@pytest.mark.parametrize("kind", sorted(set(ENDS) - {"three-point"}))  # of three, one would wait alone
def test_both_ends_of_a_probe_run_at_once(kind: str) -> None:
    z, v = np.zeros(5), np.arange(1.0, 6.0)
    measured = probe(_Meeting(), z, v, 1e-3, slice(None), kind)
    assert measured == probe(_Linear(), z, v, 1e-3, slice(None), kind)


def test_many_values_run_at_once_in_their_order() -> None:
    points = np.arange(20.0).reshape(4, 5)
    np.testing.assert_array_equal(_Meeting().values(points, slice(None)), _Linear().values(points, slice(None)))


def test_moving_parameters_at_a_bound_are_counted() -> None:
    rng = np.random.default_rng(0)
    scale = np.exp(rng.normal(0.0, 5.0, 200))
    lower, upper = rng.uniform(-2.0, -1.0, 200), rng.uniform(1.0, 2.0, 200)
    upper[:10] = lower[:10]
    units = Units(scale, lower, upper)
    z = units.project(units.to_search(rng.uniform(-3.0, 3.0, 200)))
    x = units.to_user(z)
    at, free = units.at_bounds(z)
    assert free == 190
    assert 0 < at < 190
    assert at == int(np.sum(np.isclose(x, lower, 1e-12) | np.isclose(x, upper, 1e-12))) - 10
    assert units.bounded
    assert not Units(np.ones(2), np.full(2, -_INF), np.full(2, _INF)).bounded
