"""Objectives of named parameters as objectives of coordinates."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest

from zofedht import Choice, FunctionObjective, Integer, Objective, ObjectiveError, Real
from zofedht.common.objective.loading import checked_objective, starting_point
from zofedht.common.objective.named import space_of
from zofedht.common.objective.points import evaluate_points
from zofedht.common.objective.scaling import in_search_units, units_of


class Pump(Objective):
    parameters: ClassVar[Any] = {"valve": Real(0, 1), "teeth": Integer(8, 40), "mode": Choice("a", "b")}

    def value(self, x: Any, batch: Any) -> float:
        assert list(x) == ["valve", "teeth", "mode"]
        return float((x["valve"] - 0.3) ** 2 + abs(x["teeth"] - 12) + (x["mode"] == "a"))


class Together(Pump):
    def values(self, ws: Any, batch: Any) -> Any:
        return [self.value(w, batch) for w in ws]


@pytest.mark.parametrize("kind", [Pump, Together])
def test_a_class_gets_a_mapping(kind: type[Pump]) -> None:
    made = checked_objective(kind(), "pump:Pump")
    points = np.array([[0.3, 12.4, 0.2, 0.9], [0.8, 40.5, 1.0, 0.0]])
    assert [answer.value for answer in evaluate_points(made, points)] == [0.0, 0.25 + 28 + 1]
    assert made.evaluate(points[0]) == {"loss": 0.0}
    assert made.names == ("valve", "teeth", "mode=a", "mode=b")


def test_the_units_are_the_ranges() -> None:
    units = units_of(checked_objective(Pump(), "pump:Pump"))
    assert units is not None
    assert units.scale.tolist() == [1.0, 33.0, 1.0, 1.0]
    assert (units.lower[1], units.upper[1]) == (7.5, 40.5)


def test_a_start_may_name_some_parameters() -> None:
    class Started(Pump):
        def initial(self, rng: Any) -> Any:
            return {"teeth": 9}

    for kind, teeth in ((Pump, 24.0), (Started, 9.0)):
        start = starting_point(checked_objective(kind(), "pump:Pump"), 0)
        assert start is not None
        assert start.tolist() == [0.5, teeth, 1.0, 0.0]


def test_a_function_gets_keywords() -> None:
    heard = []

    def energy(limit: float, valve: float, batch: Any) -> float:
        heard.append((limit, valve, batch))
        return 1.0

    made = FunctionObjective(energy, samples=3, parameters={"valve": Real(0, 1)}, args=(7.0,))
    searched = in_search_units(checked_objective(made, "energy"))
    searched.value(np.array([0.25]), slice(None))
    assert (len(searched), heard) == (3, [(7.0, 0.25, slice(None))])
    space = space_of(searched)
    assert space is not None
    assert space.names == ("valve",)


def test_names_alone_are_a_space_too() -> None:
    made = FunctionObjective(lambda x: 0.0, [1.0, 2.0])
    assert space_of(made) is None
    made.names = ("valve", "pause")
    space = space_of(made)
    assert space is not None
    assert space.settings(np.array([3.0, 4.0])) == {"valve": 3.0, "pause": 4.0}


def test_a_function_of_other_arguments_is_refused() -> None:
    with pytest.raises(ObjectiveError, match=r"must take its parameters by name, \(valve=\), but it takes \(x\)"):
        FunctionObjective(lambda x: 0.0, parameters={"valve": Real(0, 1)})
    with pytest.raises(ObjectiveError, match="may be called 'batch'"):
        FunctionObjective(lambda batch: 0.0, samples=2, parameters={"batch": Real(0, 1)})


def test_bounds_beside_parameters_are_refused() -> None:
    class Twice(Pump):
        bounds = ((0.0, 1.0),) * 3

    with pytest.raises(ObjectiveError, match="pump:Twice: bounds and parameters exclude each other"):
        checked_objective(Twice(), "pump:Twice")
