"""Laws of the search over sites."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from zofedht.common.algorithms import first_population
from zofedht.common.random.streams import stream
from zofedht.common.typing import Matrix, Vector
from zofedht.server.cma.evolution import fresh, moved, points_of
from zofedht.server.cma.search import Generation, Problem, State, ask, begin, middle, tell
from zofedht.server.cma.sites import Turns

Function = Callable[[Vector], float]
N = 10


def quadratics(count: int = N, spread: float = 0.1, n: int = 4, seed: int = 1) -> list[Function]:
    """Return ellipsoids of condition 100 around optima of their own; their mean has its optimum at 0."""
    rng = np.random.default_rng(seed)
    centres = spread * rng.standard_normal((count, n))
    centres -= centres.mean(axis=0)
    weights = 100.0 ** (np.arange(n) / (n - 1))
    return [lambda x, c=c: float(np.sum(weights * np.square(x - c))) for c in centres]


def gap(x: Vector) -> float:
    """Return how much of the height at the start is left."""
    weights = 100.0 ** (np.arange(len(x)) / (len(x) - 1))
    return float(np.sum(weights * np.square(x)) / np.sum(weights))


def problem(sites: int = N, n: int = 4, low: float = -np.inf, high: float = np.inf, **changes: Any) -> Problem:
    return Problem(np.ones(n), np.full(n, low), np.full(n, high), sites, **({"seed": 1} | changes))


@dataclass
class Run:
    """A search, and what its sites were asked."""

    sites: Sequence[Function]
    problem: Problem = field(default_factory=problem)
    change: Callable[[Matrix, Generation], Matrix] = lambda table, asked: table
    asked: list[Generation] = field(default_factory=list)
    evaluations: int = 0

    def until(self, evaluations: int, state: State | None = None) -> State:
        state = state or begin(self.problem)
        while self.evaluations < evaluations:
            state = self.once(state)
        return state

    def once(self, state: State) -> State:
        asked = ask(self.problem, state)
        self.asked.append(asked)
        tables = [self.change(self.table(asked), asked) for _ in range(1 + asked.twice)]
        self.evaluations += len(tables) * tables[0].size
        return tell(self.problem, state, tables)

    def table(self, asked: Generation) -> Matrix:
        return np.array([[self.sites[site](x) for x in asked.points] for site in asked.sites])


def bits(state: State) -> bytes:
    distribution = state.distribution
    return distribution.mean.tobytes() + distribution.covariance.tobytes() + np.float64(distribution.sigma).tobytes()


def noisy(deviation: float, seed: int = 2) -> Callable[[Matrix, Generation], Matrix]:
    rng = np.random.default_rng(seed)
    return lambda table, asked: table + deviation * rng.standard_normal(table.shape)


def test_values_times_eight_change_no_bit() -> None:
    eightfold = [lambda x, f=f: 8.0 * f(x) for f in quadratics(spread=2.0)]
    assert bits(Run(eightfold).until(3000)) == bits(Run(quadratics(spread=2.0)).until(3000))


def test_a_sites_level_changes_nothing_but_rounding() -> None:
    levels = np.random.default_rng(3).uniform(0.0, 100.0, N)
    raised = [lambda x, f=f, at=at: f(x) + at for f, at in zip(quadratics(), levels, strict=True)]
    one, other = Run(raised).until(500), Run(quadratics()).until(500)
    np.testing.assert_allclose(one.distribution.mean, other.distribution.mean, rtol=1e-9)


def test_one_site_is_plain_cma() -> None:
    [site] = quadratics(1, 0.0)
    one = problem(1)
    run, state = Run([site], one), begin(one)
    plain = fresh(one.start, 0.5)
    for generation in range(60):
        normal = stream(1, "candidates", generation).standard_normal((first_population(4), 4))
        values = [site(x) for x in points_of(plain, normal)]
        plain = moved(plain, normal, np.argsort(values, kind="stable"))
        state = run.once(state)
    assert state.distribution.mean.tobytes() == plain.mean.tobytes()
    assert state.distribution.covariance.tobytes() == plain.covariance.tobytes()


def test_identical_quiet_sites_are_asked_two_at_a_time() -> None:
    run = Run(quadratics(spread=0.0))
    state = run.until(2000)
    assert {len(asked.sites) for asked in run.asked} == {2}
    assert gap(state.distribution.mean) < 1e-9
    assert [asked.twice for asked in run.asked] == [True] + [False] * (len(run.asked) - 1)


def test_sites_that_differ_are_all_asked_in_the_end() -> None:
    run = Run(quadratics(spread=3.0))
    state = run.until(9000)
    assert len(run.asked[-1].sites) == N
    assert gap(state.distribution.mean) < 1e-4


def test_all_sites_take_their_turns() -> None:
    turns, counts = Turns(), np.zeros(7, dtype=int)
    for _ in range(70):
        taken, turns = turns.next(4, 7, 3)
        assert len(set(taken)) == 3
        counts[list(taken)] += 1
    assert counts.max() - counts.min() <= 1


def test_noise_brings_the_brakes_and_quiet_does_not() -> None:
    quiet = Run(quadratics()).until(4000)
    assert (quiet.rates, quiet.watch.quiet) == (None, True)
    run = Run(quadratics(), change=noisy(20.0))
    loud = run.until(6000)
    assert loud.rates is not None
    assert [asked.twice for asked in run.asked] == [place % 10 == 0 for place in range(len(run.asked))]
    assert loud.watch.noise == pytest.approx(400.0, rel=0.3)


def losing(share: float, seed: int) -> Callable[[Matrix, Generation], Matrix]:
    rng = np.random.default_rng(seed)
    return lambda table, asked: np.where(rng.random(table.shape) < share, np.nan, table)


@pytest.mark.parametrize(("evaluations", "most"), [(600, 3.0), (2500, np.inf)])
def test_a_fifth_of_the_answers_lost_costs_little(evaluations: int, most: float) -> None:
    gaps = [
        float(np.median([
            gap(Run(quadratics(), problem(seed=seed), losing(share, seed)).until(evaluations).distribution.mean)
            for seed in range(5)
        ]))
        for share in (0.0, 0.2)
    ]  # fmt: skip
    assert gaps[1] < most * gaps[0]
    assert gaps[1] < {600: 1e-2, 2500: 1e-3}[evaluations]  # it ends where sites differ more than candidates do


def test_without_answers_the_mean_stays() -> None:
    run = Run(quadratics(), change=lambda table, asked: table * np.nan)
    state = run.until(500)
    assert state.generation == len(run.asked) > 3
    assert state.distribution.mean.tolist() == [1.0] * 4
    assert len({asked.points.tobytes() for asked in run.asked}) == len(run.asked)  # each generation draws anew


def test_nothing_is_asked_outside_of_the_bounds() -> None:
    boxed = problem(low=0.5, high=1.25)
    run = Run(quadratics(), boxed)
    state = run.until(3000)
    points = np.concatenate([asked.points for asked in run.asked])
    assert points.min() >= 0.5
    assert points.max() <= 1.25
    np.testing.assert_allclose(middle(boxed, state), 0.5, atol=1e-9)


def test_a_valley_that_is_found_is_left_for_another() -> None:
    run = Run([lambda x: float(np.sum(np.square(x)))], problem(1, 2, low=-5.0, high=5.0))
    state = run.until(3000)
    assert state.restarts > 0
    assert state.population == first_population(2) * 2**state.restarts


def test_the_state_alone_goes_on() -> None:
    """No generator, no clock, nothing else is kept: the second half from its state equals the whole."""
    first, second, whole = (Run(quadratics(spread=1.0)) for _ in range(3))
    end = second.until(1500, first.until(1500))
    assert bits(end) == bits(whole.until(first.evaluations + second.evaluations))
