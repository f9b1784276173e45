"""The search over sites: ask for a generation, tell its answers. A pure function of the problem, the state and a table.

No generator is kept: a draw is named by (seed, purpose, generation).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter

import numpy as np

from zofedht.common.algorithms import first_population
from zofedht.common.random.streams import stream
from zofedht.common.typing import Indices, Matrix, Vector
from zofedht.server.cma.bounds import Box
from zofedht.server.cma.cells import Cells
from zofedht.server.cma.evolution import Distribution, fresh, moved, points_of
from zofedht.server.cma.learning_rates import Rates, braked
from zofedht.server.cma.sites import LEAST, Turns, Watch
from zofedht.server.cma.tables import read

__all__ = ["Found", "Generation", "Problem", "State", "answer", "ask", "begin", "middle", "tell"]

_MEAN = attrgetter("mean")
_SIGMA = 0.5
_EVERY = 10  # generations from one that is asked twice to the next
_NARROW = 1e-11
_MOST = 512  # candidates of a generation: asked twice, they are one message of a fleet


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
    all_sites: bool = False  # whether each generation asks all of them: among few, false ones may be most

    @property
    def least(self) -> int:
        """The fewest sites that a generation asks."""
        return self.sites if self.all_sites else min(LEAST, self.sites)

    @property
    def box(self) -> Box:
        """The bounds."""
        return Box(self.lower, self.upper, self.cells)


@dataclass(frozen=True)
class Found:
    """A point in search units, (n,), and its mean over all sites."""

    x: Vector
    mean: float


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
    best: Found | None = None  # of this valley's candidates, as long as all sites are asked
    left: Vector | None = None  # the middle of a valley that was left; its mean is asked for next
    valley: Found | None = None  # the best of the valleys that were left


@dataclass(frozen=True)
class Generation:
    """sites: numbers of those to be asked. points: (lambda, n), within the bounds. twice: ask all of it twice."""

    sites: tuple[int, ...]
    points: Matrix
    twice: bool

    @property
    def repeats(self) -> int:
        """How often all of it is asked: 1 or 2."""
        return 1 + self.twice

    @property
    def answers(self) -> int:
        """The answers that are asked for: of one site to one point."""
        return len(self.sites) * len(self.points) * self.repeats


def begin(problem: Problem) -> State:
    """Return the state before the first generation."""
    lambda_ = first_population(problem.start.shape[0])
    return State(fresh(problem.box.outside(problem.start), problem.sigma), lambda_, Watch(float(problem.least)))


def ask(problem: Problem, state: State) -> Generation:
    """Return what is to be asked now."""
    if state.left is not None:
        return Generation(tuple(range(problem.sites)), state.left[None], False)
    sites, _ = state.turns.next(problem.seed, problem.sites, state.watch.sites(problem.sites))
    twice = state.generation % _EVERY == 0 and not state.watch.quiet
    return Generation(sites, problem.box.inside(_candidates(problem, state)), twice)


def middle(problem: Problem, state: State) -> Vector:
    """Return the mean of the distribution as a point within the bounds, (n,)."""
    return problem.box.inside(state.distribution.mean)


def answer(problem: Problem, state: State) -> Vector:
    """Return where the search would end now, (n,).

    Without noise it is the best point that all sites have answered, if any: one of this valley, or the middle of
    another. Under noise the lowest of many means is low by luck, so it is the mean of the distribution.
    """
    known = [found for found in (state.best, state.valley) if found is not None]
    if not (state.watch.quiet and known):
        return middle(problem, state)
    return min(known, key=_MEAN).x


def tell(problem: Problem, state: State, tables: Sequence[Matrix]) -> State:
    """Return the state after the answers: one table, (sites, lambda), or two where it was asked twice."""
    if state.left is not None:
        return replace(state, left=None, valley=_lower(state.valley, state.left[None], tables[0]))
    _, turns = state.turns.next(problem.seed, problem.sites, state.watch.sites(problem.sites))
    state = replace(state, turns=turns)
    watch = state.watch
    if len(tables) > 1:
        watch = replace(watch, noise=_noise(tables, watch.noise))
    table = tables[0] if len(tables) == 1 else _mean_of(tables)
    reading, kept = read(table)
    whole = len(table) == problem.sites
    best = _lower(state.best, problem.box.inside(_candidates(problem, state)), table) if whole else None
    following = replace(state, generation=state.generation + 1, watch=watch, best=best)
    if not kept.size:
        return following
    watch = watch.after(reading, problem.sites, len(tables))
    if problem.all_sites:
        watch = replace(watch, wanted=float(problem.sites))
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


def _candidates(problem: Problem, state: State) -> Matrix:
    return points_of(state.distribution, _normal(problem, state))


def _lower(before: Found | None, points: Matrix, table: Matrix) -> Found | None:
    """Return the point with the lowest mean of a table of all sites, or the one before; what is lost is no mean."""
    means = np.mean(table, axis=0)
    if np.all(np.isnan(means)):
        return before
    place = int(np.nanargmin(means))
    now = Found(points[place], float(means[place]))
    return now if before is None or now.mean < before.mean else before


def _noise(tables: Sequence[Matrix], before: float | None) -> float | None:
    """Return the variance of one answer; 0.0 where all are equal.

    What all candidates of a site have in common, as the level of a minibatch, sets no two of them apart.
    """
    differences = tables[0] - tables[1]
    there = ~np.isnan(differences)
    if not there.any():
        return before
    now = 0.0
    if np.any(differences[there] != 0.0):
        rows = there.sum(axis=1)
        level = np.where(there, differences, 0.0).sum(axis=1) / np.maximum(rows, 1)
        centred = np.where(there, differences - level[:, None], 0.0)
        freedom = int(np.sum(np.maximum(rows - 1, 0)))
        now = max(0.5 * float(np.sum(centred * centred)) / max(freedom, 1), np.finfo(np.float64).tiny)
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
        population=min(2 * state.population, _MOST),
        rates=None,
        restarts=restarts,
        lows=(),
        best=None,
        left=middle(problem, state),
        valley=state.best if state.valley is None else min(state.valley, state.best or state.valley, key=_MEAN),
    )
