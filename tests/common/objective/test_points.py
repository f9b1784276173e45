"""F at several points."""

from __future__ import annotations

import numpy as np
import pytest

from tests.server.fleet.pump import Pump, Shut
from zofedht import Objective, ObjectiveError, Shard
from zofedht.common.objective.parameters import parameters_of
from zofedht.common.objective.points import evaluate_points
from zofedht.common.objective.scaling import in_search_units
from zofedht.common.typing import Matrix, Vector

POINTS = np.array([[0.5, 50.0], [0.95, 50.0], [0.05, 50.0], [0.3, 7.0]])


class Together(Pump):
    """Writes values itself, and refuses a point."""

    calls = 0

    def values(self, ws: Matrix, batch: object) -> Vector:
        self.calls += 1
        if np.any(ws[:, 0] == 0.3):
            raise RuntimeError("not this one")
        return np.array([super(Together, self).value(x, batch) for x in ws])

    def value(self, x: Vector, batch: object) -> float:
        return float(self.values(x[None], batch)[0])


def test_points_are_in_the_users_units_in_any_wrapping() -> None:
    plain = Pump(Shard("c1"))
    answers = evaluate_points(in_search_units(plain), POINTS)
    assert [answer.value for answer in answers] == [plain.value(x, slice(None)) for x in POINTS]
    assert all(answer.cause is None and answer.seconds >= 0.0 for answer in answers)


def test_each_failure_costs_its_own_point() -> None:
    answers = evaluate_points(Shut(Shard("c1")), POINTS, error_text=lambda error: error.public_text)
    assert [answer.cause for answer in answers] == [None, "raised", "not-finite", None]
    assert answers[1].reason.startswith("the objective raised RuntimeError (pump.py")


def test_threads_change_no_number() -> None:
    threaded = Shut(Shard("c1"))
    threaded.concurrency = 3
    for one, other in zip(evaluate_points(threaded, POINTS), evaluate_points(Shut(Shard("c1")), POINTS), strict=True):
        assert (one.cause, one.reason) == (other.cause, other.reason)
        np.testing.assert_equal(one.value, other.value)


def test_values_gets_all_points_at_once() -> None:
    objective = Together(Shard("c1"))
    answers = evaluate_points(objective, POINTS[:3], most_seconds=0.0)
    assert [answer.value for answer in answers] == [Pump.value(objective, x, slice(None)) for x in POINTS[:3]]
    assert objective.calls == 1
    assert [answer.cause for answer in evaluate_points(objective, POINTS)] == [None, None, None, "raised"]


def test_a_long_question_is_answered_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr("zofedht.common.objective.points.perf_counter", lambda: clock[0])

    class Slow(Pump):
        def value(self, x: Vector, batch: object) -> float:
            clock[0] += 10.0
            return super().value(x, batch)

    slow = Slow(Shard("c1"))
    assert [answer.seconds for answer in evaluate_points(slow, POINTS, most_seconds=5.0)] == [10.0]
    assert len(evaluate_points(slow, POINTS, most_seconds=15.0)) == 2
    slow.concurrency = 3
    assert len(evaluate_points(slow, POINTS, most_seconds=5.0)) == 3


@pytest.mark.parametrize("value", [np.float32(1.0), np.array([1.0]), "1", None, True])
def test_what_is_no_loss_is_told(value: object) -> None:
    class Wrong(Objective):
        dim = 1

        def value(self, x: Vector, batch: object) -> float:
            return value  # type: ignore[return-value]

    [answer] = evaluate_points(Wrong(), np.zeros((1, 1)))
    assert answer.cause == "not-a-loss"
    assert "must return one float64 number" in answer.reason


@pytest.mark.parametrize("points", [POINTS[:, :1], POINTS[:0], POINTS * np.nan, POINTS + 1000.0, POINTS[0]])
def test_points_that_are_none_are_refused(points: Matrix) -> None:
    with pytest.raises(ObjectiveError, match="points must"):
        evaluate_points(Pump(Shard("c1")), points)


def test_a_point_may_be_changed_by_the_objective() -> None:
    class Rude(Pump):
        def value(self, x: Vector, batch: object) -> float:
            x[:] = 0.0
            return 1.0

    points = POINTS.copy()
    evaluate_points(Rude(Shard("c1")), points)
    np.testing.assert_array_equal(points, POINTS)


def test_parameters_are_as_they_were_declared() -> None:
    for objective in (Pump(Shard("c1")), in_search_units(Pump(Shard("c1")))):
        told = parameters_of(objective)
        assert (told.start.tolist(), told.names, told.labels) == ([0.7, 3.3], ("valve", "pause"), ("valve", "pause"))
        assert (told.box.lower.tolist(), told.box.upper.tolist()) == ([0.0, 1.0], [1.0, 100.0])


def test_the_default_start_is_nearest_to_zero() -> None:
    class Bare(Pump):
        names = None
        initial = Objective.initial

    told = parameters_of(Bare(Shard("c1")))
    assert (told.start.tolist(), told.names, told.labels) == ([0.0, 1.0], (), ("x0", "x1"))


def test_a_start_outside_of_the_bounds_is_refused() -> None:
    class Outside(Pump):
        def initial(self, rng: np.random.Generator) -> list[float]:
            return [2.0, 5.0]

    with pytest.raises(ObjectiveError, match="must lie within the bounds"):
        parameters_of(Outside(Shard("c1")))
