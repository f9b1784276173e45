"""CMA-ES of one function."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from zofedht.common.algorithms import first_population
from zofedht.common.random.streams import stream
from zofedht.server.cma import evolution
from zofedht.server.cma.evolution import constants, fresh, moved, points_of
from zofedht.server.cma.learning_rates import Rates, braked


def generations(count: int, **changes: Any) -> evolution.Distribution:
    """Return the distribution after generations on an ellipsoid."""
    state = fresh(np.array([1.0, -0.5, 0.3, 2.0]), 0.5)
    for generation in range(count):
        normal = stream(3, "candidates", generation).standard_normal((8, 4))
        values = np.sum(np.array([1.0, 10.0, 100.0, 1000.0]) * points_of(state, normal) ** 2, axis=1)
        state = moved(state, normal, np.argsort(values * changes.get("times", 1.0)))
    return state


@pytest.mark.parametrize(("n", "population"), [(1, 4), (3, 7), (10, 10), (30, 14), (10, 40), (200, 19)])
def test_constants_keep_what_the_tutorial_says(n: int, population: int) -> None:
    c = constants(n, population)
    assert np.sum(c.weights[: c.parents]) == pytest.approx(1.0)
    assert np.all(np.diff(c.weights) <= 0.0)
    assert 1.0 <= c.effective <= c.parents
    assert 0.0 < c.rank_one + c.rank_mu <= 1.0
    # With these negative weights the covariance keeps positive eigenvalues, eq. 52.
    assert -n * c.rank_mu * np.sum(np.minimum(c.weights, 0.0)) <= 1.0 - c.rank_one - c.rank_mu + 1e-12


def test_the_population_is_the_tutorials() -> None:
    assert [first_population(n) for n in (1, 3, 10, 30, 100)] == [4, 7, 10, 14, 17]


def test_signs_of_eigenvectors_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = generations(30)
    eigh = np.linalg.eigh

    def flipped(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        values, vectors = eigh(matrix)
        return values, vectors * np.array([-1.0, 1.0, -1.0, -1.0])

    monkeypatch.setattr(evolution.np.linalg, "eigh", flipped)
    other = generations(30)
    assert other.mean.tobytes() == plain.mean.tobytes()
    assert other.covariance.tobytes() == plain.covariance.tobytes()


def test_the_covariance_learns_the_inverse_of_the_curvature() -> None:
    spread = generations(400).spread
    ratios = spread / spread[0] * np.sqrt([1.0, 10.0, 100.0, 1000.0])
    assert np.all((ratios > 0.2) & (ratios < 5.0))


def test_a_generation_without_signal_keeps_the_mean_law() -> None:
    """Ranks at random: the step has mean 0 and the variance 1 / mu_eff of a candidate's; five standard errors."""
    c, steps = constants(4, 8), []
    for trial in range(4000):
        normal = stream(trial, "candidates").standard_normal((8, 4))
        steps.append(moved(fresh(np.zeros(4), 1.0), normal, np.arange(8)).mean)
    assert np.mean(np.square(steps)) == pytest.approx(1.0 / c.effective, rel=5.0 * np.sqrt(2.0 / 16_000))


def test_fewer_ranks_than_candidates_are_taken() -> None:
    normal = stream(1, "candidates").standard_normal((8, 4))
    after = moved(fresh(np.zeros(4), 1.0), normal, np.array([2, 5]))
    assert np.all(np.isfinite(after.covariance))
    assert np.linalg.eigvalsh(after.covariance)[0] > 0.0


def test_rates_of_one_change_nothing_but_rounding() -> None:
    before, after = generations(9), generations(10)
    braked_after, rates = braked(before, after, Rates.fresh(4))
    scale = rates.mean.rate, rates.covariance.rate
    assert all(0.9 < rate <= 1.0 for rate in scale)
    np.testing.assert_allclose(braked_after.mean, before.mean + scale[0] * (after.mean - before.mean), rtol=1e-12)


def test_rates_fall_where_steps_are_noise() -> None:
    state, rates = fresh(np.zeros(4), 1.0), Rates.fresh(4)
    for generation in range(300):
        normal = stream(5, "candidates", generation).standard_normal((8, 4))
        state, rates = braked(state, moved(state, normal, np.arange(8)), rates)
    assert rates.mean.rate < 0.3
    assert rates.covariance.rate < 0.3
