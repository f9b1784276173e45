"""A parameter that changes nothing is named beside others that do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from zofedht.common.checks.check import check_objective
from zofedht.common.checks.finding import Finding
from zofedht.common.objective.base import Objective


class _Plant(Objective):
    names = ("valve", "heat", "pause")

    def __init__(self, weights: list[float], step: float = 0.0, bounds: Any = None) -> None:
        self.dim, self._weights, self._step, self.bounds = len(weights), np.array(weights), step, bounds
        self.names = self.names[: self.dim]

    def value(self, x: Any, batch: Any) -> float:
        seen = np.round(x / self._step) * self._step if self._step else x
        return float(self._weights @ np.square(seen - 3.2))


def _found(objective: Objective, radius: float = 1e-3) -> list[Finding]:
    return [each for each in check_objective(objective, radius=radius) if each.name == "parameters"]


def test_a_flat_parameter_is_named():
    [found] = _found(_Plant([1.0, 0.0, 2.0]))
    assert found.level == "warning"
    assert found.text.startswith(
        "around the start F does not change with parameter 1 ('heat'), neither by the radius nor by its scale"
    )


def test_parameters_that_count_are_ok():
    assert [found.level for found in _found(_Plant([1.0, 1e-3, 2.0]))] == ["ok"]


def test_a_parameter_of_steps_asks_for_a_larger_scale():
    class Stepped(_Plant):
        def value(self, x: Any, batch: Any) -> float:
            return super().value([x[0], np.round(x[1]), x[2]] - np.zeros(3), batch)

    [found] = _found(Stepped([1.0, 1.0, 1.0]))
    assert "parameter 1 ('heat') within radius 0.001, but does within its scale" in found.text


@pytest.mark.parametrize("weights", [[0.0, 0.0, 0.0], [0.0]])
def test_what_is_flat_everywhere_is_told_by_the_radius(weights: list[float]):
    assert _found(_Plant(weights)) == []
    assert any(each.name == "radius" and "flat" in each.text for each in check_objective(_Plant(weights)))


def test_a_parameter_that_its_bounds_fix_is_not_flat():
    assert [found.level for found in _found(_Plant([1.0, 0.0], bounds=[(None, None), (2.0, 2.0)]))] == ["ok"]


def test_noise_hides_a_flat_parameter():
    """Losses that differ for the same x cannot be compared."""
    rng = np.random.default_rng(0)

    class Noisy(_Plant):
        def value(self, x: Any, batch: Any) -> float:
            return super().value(x, batch) + float(rng.normal())

    assert _found(Noisy([1.0, 0.0, 1.0])) == []


def test_many_parameters_are_not_moved_one_by_one():
    class Many(Objective):
        dim = 101

        def value(self, x: Any, batch: Any) -> float:
            return float(x[0])

    assert _found(Many()) == []
