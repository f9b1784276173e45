"""An F with noise: what counts as noise, and the radius that the check suggests."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

import numpy as np
import pytest

from zofedht.common.checks.finding import Case, Finding
from zofedht.common.checks.radius import check_radius, noise_advice
from zofedht.common.objective.base import Objective
from zofedht.common.objective.scaling import in_search_units
from zofedht.common.typing import Indices, Vector

_STEEPNESS = 3.0


class _Noisy(Objective):
    """A function of x, with normal noise of a standard deviation; counts how often it is asked."""

    def __init__(self, function: Callable[[Vector], float], dimension: int, noise: float, seed: int = 0) -> None:
        self.function, self.dim, self.noise = function, dimension, noise
        self.rng = np.random.default_rng(seed)
        self.asked = 0

    def value(self, x: Vector, batch: Indices | slice) -> float:
        self.asked += 1
        return float(self.function(x) + self.noise * self.rng.standard_normal())


def _quadratic(x: Vector) -> float:
    """Its slopes at zero have the standard deviation _STEEPNESS, in any number of dimensions."""
    return float(np.sum((x - _STEEPNESS / (2.0 * math.sqrt(x.shape[0]))) ** 2))


def _good(noise: float) -> float:
    """The radius at which noise is a twentieth of the difference."""
    return noise / (math.sqrt(2.0) * 0.05 * _STEEPNESS)


def _found(objective: Objective, radius: float, seed: int = 0) -> Finding:
    searched = in_search_units(objective)
    (finding,) = check_radius(Case.at(searched, searched.zeros(), radius, 0, seed))
    return finding


def _advised(finding: Finding) -> float:
    return float(finding.text.split("try radius = ")[1].split(",")[0])


@pytest.mark.parametrize("dimension", [1, 10, 100])
@pytest.mark.parametrize("noise", [1e-3, 0.1, 2.0])
def test_the_advice_is_a_good_radius_in_every_repeat(noise: float, dimension: int) -> None:
    for repeat in range(20):
        objective = _Noisy(_quadratic, dimension, noise, repeat)
        finding = _found(objective, radius=1e-4)
        assert finding.level == "warning"
        assert objective.asked <= 150
        better = _advised(finding)
        # Along a few directions slopes are not all of their typical size.
        assert 0.3 * _good(noise) <= better <= 3.5 * _good(noise), finding.text
        assert _found(objective, radius=better).level == "ok"


@pytest.mark.parametrize(("times", "level"), [(0.1, "warning"), (1.0, "ok"), (3.0, "ok"), (30.0, "ok")])
def test_a_radius_is_judged_alike_in_every_repeat(times: float, level: str) -> None:
    for repeat in range(20):
        finding = _found(_Noisy(_quadratic, 10, 0.1, repeat), radius=times * _good(0.1))
        assert finding.level == level, finding.text


def test_the_warning_names_noise_and_slope() -> None:
    text = _found(_Noisy(_quadratic, 10, 0.1), radius=1e-3).text
    told = re.search(r"an error near (\S+), where a typical slope is (\S+); ", text)
    assert told
    assert float(told[1]) == pytest.approx(0.1 / (math.sqrt(2.0) * 1e-3), rel=0.5)
    assert float(told[2]) == pytest.approx(_STEEPNESS, rel=0.6)


@pytest.mark.parametrize("noise", [0.01, 0.0])
@pytest.mark.parametrize("radius", [0.03, 0.1, 0.3])
def test_curvature_and_bounds_are_not_taken_for_noise(radius: float, noise: float) -> None:
    class Bounded(_Noisy):
        bounds = (0.0, 1.0)

        def initial(self, rng: np.random.Generator) -> Vector:
            return np.linspace(0.01, 0.99, 10)

    def bent(x: Vector) -> float:
        return float(np.sum(40.0 * np.cos(5.0 * x) + np.exp(4.0 * x)))

    objective = in_search_units(Bounded(bent, 10, noise))
    start = objective.initial(np.random.default_rng(0))
    assert start is not None
    for seed in range(5):
        (finding,) = check_radius(Case.at(objective, start, radius, 0, seed))
        assert finding.level == "ok", finding.text


def test_where_no_radius_helps_the_finding_tells_it() -> None:
    for repeat in range(20):
        flat = _found(_Noisy(lambda x: 1.0, 5, 0.1, repeat), radius=1e-2)
        assert flat.level == "warning"
        assert re.search(r"no larger radius that was tried, up to \S+, is clearer", flat.text)


def test_a_failure_at_a_larger_radius_ends_the_scan() -> None:
    def fragile(x: Vector) -> float:
        if np.abs(x).max() > 1.0:
            raise RuntimeError("the valve is shut")
        return _quadratic(x)

    text = _found(_Noisy(fragile, 10, 10.0), radius=1e-2).text
    assert "the objective raised RuntimeError: the valve is shut" in text
    assert "noise of 1" in text


def test_one_outlier_is_no_noise() -> None:
    class Wild(_Noisy):
        def value(self, x: Vector, batch: Indices | slice) -> float:
            return super().value(x, batch) + 10.0 * (self.asked == 12)

    assert _found(Wild(_quadratic, 10, 1e-3), radius=0.3).level == "ok"


def test_without_noise_the_advice_takes_three_evaluations() -> None:
    objective = _Noisy(_quadratic, 3, 0.0)
    case = Case.at(objective, np.zeros(3), 1e-4, 0, 0)
    assert noise_advice(case) == ""
    assert objective.asked == 3
    objective.noise = 0.1
    assert noise_advice(case).startswith("evaluations of the same x differ, here by 0.")
    assert _good(0.1) / 3.5 < _advised(Finding("", "", noise_advice(case))) < 3.5 * _good(0.1)
