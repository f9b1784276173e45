"""Minimizers over a fleet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.optimize import OptimizeResult

from tests.server.fleet.pump import Pump
from zofedht import Fleet, FleetError, Shard


def pumps(**options: Any) -> Fleet:
    return Fleet.local({f"c{index}": Pump(Shard(f"c{index}")) for index in range(5)}, **options)


MIDDLE = [0.5, 50.0]
"""Of the optima of the five pumps."""


def test_it_ends_in_the_middle_of_the_sites() -> None:
    with pumps() as fleet:
        found = fleet.minimize(method="cma-es", maxfev=4000)
        np.testing.assert_allclose(found.x, MIDDLE, rtol=1e-5)
        assert found.fun == fleet(found.x) < found.start_fun == fleet(fleet.x0)
        assert (found.success, found.nfev <= 4000) == (True, True)
        assert "answers are equal when asked twice; the last generation was for 5 of 5 sites" in found.message


@pytest.mark.parametrize("method", ["auto", "cma-es"])
def test_it_resumes_by_replay_with_noise(tmp_path: Path, method: str) -> None:
    def never(x: np.ndarray) -> float:
        raise AssertionError("nothing must be asked")

    def noisy(x: np.ndarray, rng: np.random.Generator = np.random.default_rng()) -> float:  # noqa: B008
        return float(np.sum(x * x) + 0.1 * rng.standard_normal())

    ends = []
    for site in (noisy, never):
        with Fleet.local([site] * 4, x0=[1.0, 1.0], folder=tmp_path) as fleet:
            found = fleet.minimize(method=method, maxfev=1500, seed=3)
            ends.append((found.x.tolist(), found.fun, found.nfev, found.message))
    assert ends[0] == ends[1]
    assert {"auto": "answers differ when asked twice", "cma-es": "answers are noisy"}[method] in ends[0][3]


def test_it_ends_within_what_it_may_ask(tmp_path: Path) -> None:
    for options, limit in (({"maxfev": 203}, 203), ({}, 157), ({"maxfev": 400}, 157)):
        with pumps(budget=157 if limit == 157 else 0) as fleet:
            found = fleet.minimize(method="cma-es", **options)
            assert limit - 60 < found.nfev == fleet.evaluations <= limit
            assert np.isfinite(found.fun)
            assert f"the {limit} site evaluations are spent" in found.message


def test_valleys_that_were_left_are_remembered() -> None:
    with Fleet.local([lambda x: float(x @ x)] * 6, x0=[1.0, 1.0]) as fleet:
        found = fleet.minimize(method="cma-es", maxfev=3000)
        assert found.restarts > 0
        assert found.fun < 1e-15
        assert "for 2 of 6 sites" in found.message


def test_lost_answers_do_not_stop_it() -> None:
    rng = np.random.default_rng(1)

    def torn(x: np.ndarray) -> float:
        if rng.random() < 0.1:
            raise TimeoutError("no reading")
        return float(x @ x)

    with Fleet.local([torn] * 4, x0=[1.0, 1.0], max_retries=0) as fleet:
        assert np.linalg.norm(fleet.minimize(method="cma-es", maxfev=1000).x) < 1e-3


def test_a_callback_hears_and_stops() -> None:
    heard: list[OptimizeResult] = []
    for answer in (True, StopIteration):

        def callback(now: OptimizeResult, answer: Any = answer) -> Any:
            heard.append(now)
            if now.nit < 3:
                return None
            if answer is StopIteration:
                raise StopIteration
            return answer

        with pumps() as fleet:
            found = fleet.minimize(method="cma-es", maxfev=4000, callback=callback)
            assert found.nit == 3
            assert found.message.startswith("the callback has stopped the search")
    assert [now.nit for now in heard] == [1, 2, 3] * 2
    assert all(now.x.shape == (2,) for now in heard)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({}, "minimize must have an end: give maxfev, or the fleet a budget"),
        ({"maxfev": 14}, "at least 3 evaluations for each of 5 sites, got 14 in all"),
        ({"maxfev": 1.5}, "maxfev must be a whole number"),
        ({"maxfev": 10, "method": "adam"}, "method must be auto, cma-es or lbfgs, got 'adam'"),
        ({"maxfev": 10, "x0": [2.0, 50.0]}, "lies outside of its bounds"),
    ],
)
def test_wrong_arguments_are_refused(options: dict[str, Any], reason: str) -> None:
    with pumps() as fleet, pytest.raises(FleetError, match=reason):
        fleet.minimize(**options)


def test_it_is_for_few_parameters() -> None:
    with Fleet.local([np.sum], x0=np.zeros(201)) as fleet, pytest.raises(FleetError, match="at most 200 parameters"):
        fleet.minimize(maxfev=10)


def rosenbrock(x: np.ndarray) -> float:
    return float(np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2))


def test_lbfgs_asks_a_batch_for_each_gradient(tmp_path: Path) -> None:
    with Fleet.local([rosenbrock] * 3, x0=np.zeros(4), folder=tmp_path) as fleet:
        found = fleet.minimize(method="lbfgs", maxfev=3000)
        np.testing.assert_allclose(found.x, 1.0, atol=1e-4)
        assert found.message.startswith(f"no step gains any more after {found.nit} gradients")
        spent = found.nfev
        assert fleet(found.x) == found.fun
    rounds = [line.split(",")[1] for line in (tmp_path / "candidates.csv").read_text().splitlines()[1:]]
    sizes = [rounds.count(str(gradient)) for gradient in range(2, found.nit + 2)]  # the first is F(x_0)
    assert set(sizes) == {5, 9}  # forward differences, and central ones at the end
    assert sizes == sorted(sizes)
    assert spent == 3 * (1 + sum(sizes))


def test_lbfgs_stays_within_the_bounds_and_finds_them() -> None:
    with pumps(x0=[0.5, 50.0]) as fleet:
        inner = fleet.minimize(method="lbfgs", maxfev=3000)
        np.testing.assert_allclose(inner.x, MIDDLE, rtol=1e-6)
    sites = [lambda x, c=c: float(np.sum((x - c) ** 2)) for c in (-0.5, -1.0)]
    with Fleet.local(sites, x0=[1.0, 0.0, 0.5], bounds=[(0.0, 1.0), (0.0, 0.0), (-2.0, None)]) as fleet:
        found = fleet.minimize(method="lbfgs", maxfev=3000)
        np.testing.assert_allclose(found.x, [0.0, 0.0, -0.75], atol=1e-6)


def test_lbfgs_bears_lost_answers() -> None:
    rng = np.random.default_rng(4)

    def torn(x: np.ndarray) -> float:
        return float("nan") if rng.random() < 0.05 else float(x @ x)

    with Fleet.local([torn] * 5, x0=[1.0, -2.0], max_retries=0) as fleet:
        assert np.linalg.norm(fleet.minimize(method="lbfgs", maxfev=600).x) < 1e-3


def test_auto_descends_where_sites_are_quiet_and_smooth() -> None:
    with Fleet.local([rosenbrock] * 3, x0=np.zeros(4)) as fleet:
        found = fleet.minimize(maxfev=3000)
        assert found.fun < 1e-10
        assert "equal when asked twice; smooth, as far as 14 evaluations of a site tell" in found.message
        assert "L-BFGS-B took" in found.message


def test_auto_waits_until_many_sites_are_asked() -> None:
    sites = [lambda x, c=c: float(np.sum((x - c) ** 2)) for c in np.linspace(0.5, 1.5, 12)]
    for maxfev, gradients in ((400, False), (4000, True)):
        with Fleet.local(sites, x0=np.zeros(3)) as fleet:
            found = fleet.minimize(maxfev=maxfev)
            assert ("L-BFGS-B" in found.message) == gradients
            assert found.success
    np.testing.assert_allclose(found.x, 1.0, atol=1e-6)


@pytest.mark.parametrize(
    ("site", "saw"),
    [
        (lambda x: float(np.sum(np.floor(4.0 * np.abs(x + 0.1)))), "some slopes at the start are 0 or lost"),
        (lambda x: float(np.sum(np.abs(x - 1.0004) ** 0.5)), "slopes over 1e-3 and over 1e-5 differ"),
    ],
)
def test_auto_takes_cma_es_where_slopes_mislead(site: Any, saw: str) -> None:
    with Fleet.local([site] * 3, x0=np.ones(3)) as fleet:
        found = fleet.minimize(maxfev=900)
        assert saw in found.message
        assert "L-BFGS-B" not in found.message


def test_auto_looks_within_the_bounds() -> None:
    asked = []

    def site(x: np.ndarray) -> float:
        asked.append(x)
        return float(np.sum((x - 0.5) ** 2))

    with Fleet.local([site] * 2, x0=[0.0, 1.0], bounds=[(0.0, 1.0)] * 2) as fleet:
        found = fleet.minimize(maxfev=500)
    assert np.min(asked) >= 0.0
    assert np.max(asked) <= 1.0
    np.testing.assert_allclose(found.x, 0.5, atol=1e-6)


def test_a_small_budget_is_not_spent_on_looking() -> None:
    with pumps() as fleet:
        found = fleet.minimize(maxfev=200)
        assert found.nit > 2
        assert found.success
