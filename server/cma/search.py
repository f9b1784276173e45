"""The search over sites: ask for a generation, tell its answers. A pure function of the problem, the state and a table.

No generator is kept: a draw is named by (seed, purpose, generation).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from zofedht.common.random.streams import stream
from zofedht.common.typing import Indices, Matrix, Vector
from zofedht.server.cma.bounds import Box
from zofedht.server.cma.cells import Cells
from zofedht.server.cma.evolution import Distribution, first_population, fresh, moved, points_of
from zofedht.server.cma.learning_rates import Rates, braked
from zofedht.server.cma.sites import LEAST, Turns, Watch
from zofedht.server.cma.tables import read

__all__ = ["Generation", "Problem", "State", "ask", "begin", "middle", "tell"]

_SIGMA = 0.5
_EVERY = 10  # generations from one that is asked twice to the next
_NARROW = 1e-11


@dataclass(frozen=True)
class Problem:
    """start, lower, upper: (n,), in search units. sites: N. cells: where there are integers and choices."""

    start: Vector
    lower: Vector
    upper: Vector
    sites: int
    seed: int = 0
    sigma: float = _SIGMA
    cells: Cells | None = None

    @property
    def box(self) -> Box:
        """The bounds."""
        return Box(self.lower, self.upper, self.cells)


@dataclass(frozen=True)
class State:
    """Where the search is; generations are counted over restarts. The distribution is one of ``box.inside``'s y."""

    distribution: Distribution
    population: int  # lambda
    watch: Watch
    turns: Turns = field(default_factory=Turns)
    rates: Rates | None = None
    generation: int = 0
    restarts: int = 0
    lows: tuple[float, ...] = ()  # the lowest mean of each generation that all sites have answered


@dataclass(frozen=True)
class Generation:
    """sites: numbers of those to be asked. points: (lambda, n), within the bounds. twice: ask all of it twice."""

    sites: tuple[int, ...]
    points: Matrix
    twice: bool


def begin(problem: Problem) -> State:
    """Return the state before the first generation."""
    lambda_ = first_population(problem.start.shape[0])
    least = float(min(LEAST, problem.sites))
    return State(fresh(problem.box.outside(problem.start), problem.sigma), lambda_, Watch(least))


def ask(problem: Problem, state: State) -> Generation:
    """Return what is to be asked now."""
    sites, _ = state.turns.next(problem.seed, problem.sites, state.watch.sites(problem.sites))
    points = points_of(state.distribution, _normal(problem, state))
    twice = state.generation % _EVERY == 0 and not state.watch.quiet
    return Generation(sites, problem.box.inside(points), twice)


def middle(problem: Problem, state: State) -> Vector:
    """Return the mean of the distribution as a point within the bounds, (n,)."""
    return problem.box.inside(state.distribution.mean)


def tell(problem: Problem, state: State, tables: Sequence[Matrix]) -> State:
    """Return the state after the answers: one table, (sites, lambda), or two where it was asked twice."""
    _, turns = state.turns.next(problem.seed, problem.sites, state.watch.sites(problem.sites))
    state = replace(state, turns=turns)
    watch = state.watch
    if len(tables) > 1:
        watch = replace(watch, noise=_noise(tables, watch.noise))
    table = tables[0] if len(tables) == 1 else _mean_of(tables)
    reading, kept = read(table)
    following = replace(state, generation=state.generation + 1, watch=watch)
    if not kept.size:
        return following
    watch = watch.after(reading, problem.sites, len(tables))
    normal = _normal(problem, state)
    order = _order(state.population, kept, reading.values)
    distribution, rates = moved(state.distribution, normal, order), state.rates
    if rates is None and watch.loud:
        rates = Rates.fresh(problem.start.shape[0])
    if rates is not None:
        distribution, rates = braked(state.distribution, distribution, rates)
    distribution = problem.box.kept_open(distribution, state.population)
    low = (float(np.min(reading.values)),) if reading.sites == problem.sites and watch.quiet else ()
    following = replace(following, distribution=distribution, rates=rates, watch=watch, lows=state.lows + low)
    return _restarted(problem, following) if _done(problem, following) else following


def _normal(problem: Problem, state: State) -> Matrix:
    rng = stream(problem.seed, "candidates", state.generation)
    return rng.standard_normal((state.population, problem.start.shape[0]))


def _noise(tables: Sequence[Matrix], before: float | None) -> float | None:
    """Return the variance of one answer; 0.0 where all are equal."""
    differences = tables[0] - tables[1]
    differences = differences[~np.isnan(differences)]
    if not differences.size:
        return before
    now = 0.5 * float(np.mean(differences * differences))
    return now if before is None else 0.7 * before + 0.3 * now


def _mean_of(tables: Sequence[Matrix]) -> Matrix:
    """Return the mean of both answers, or the one that is there."""
    first, second = tables
    return np.where(np.isnan(first), second, np.where(np.isnan(second), first, 0.5 * (first + second)))


def _order(population: int, kept: Indices, values: Vector) -> Indices:
    """Return the candidates' numbers, best first, and lost ones last."""
    ranked = kept[np.argsort(values, kind="stable")]
    if len(ranked) < population // 2:
        return ranked
    return np.concatenate([ranked, np.setdiff1d(np.arange(population), kept)])


def _done(problem: Problem, state: State) -> bool:
    """Whether this valley is found as far as numbers go; under noise a search never is."""
    if not state.watch.quiet:
        return False
    discrete = () if problem.cells is None else problem.cells.places
    spread = np.delete(state.distribution.spread, discrete)
    if spread.size and float(np.max(spread)) < _NARROW:
        return True
    window = 10 + math.ceil(30.0 * problem.start.shape[0] / state.population)
    if len(state.lows) <= window:
        return False
    return min(state.lows[-window:]) == max(state.lows[-window:])


def _restarted(problem: Problem, state: State) -> State:
    """Return a search that begins anew with twice the population: anywhere within the bounds, or near the start."""
    n, restarts = problem.start.shape[0], state.restarts + 1
    rng = stream(problem.seed, "restart", restarts)
    width = problem.upper - problem.lower
    boxed = np.isfinite(width)
    anywhere = np.where(boxed, problem.lower, 0.0) + rng.random(n) * np.where(boxed, width, 0.0)
    near = np.clip(problem.start + rng.standard_normal(n), problem.lower, problem.upper)
    return replace(
        state,
        distribution=fresh(problem.box.outside(np.where(boxed, anywhere, near)), problem.sigma),
        population=2 * state.population,
        rates=None,
        restarts=restarts,
        lows=(),
    )
