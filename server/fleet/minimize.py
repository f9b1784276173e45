"""``fleet.minimize``: CMA-ES over the sites of a fleet, in the fleet's units."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import OptimizeResult

from zofedht.common.blas import one_thread
from zofedht.common.errors import BudgetError, FleetError
from zofedht.common.typing import Matrix, Vector
from zofedht.server.cma.search import Generation, Problem, State, ask, begin, middle, tell
from zofedht.server.fleet.campaign import Campaign, checked_points

__all__ = ["METHODS", "minimize"]

METHODS = ("cma-es",)
_MOST_PARAMETERS = 200

Callback = Callable[[OptimizeResult], Any]


def minimize(
    campaign: Campaign, x0: Any, *, method: str, maxfev: int, seed: int, callback: Callback | None
) -> OptimizeResult:
    """Return where the search ends; ``Fleet.minimize`` says the rest."""
    parameters = campaign.begin().parameters
    box, sites = parameters.box, campaign.names
    [start] = checked_points([parameters.start if x0 is None else x0], parameters)
    limit = _limit(campaign, method, maxfev, parameters.dim)
    problem = Problem(box.to_search(start), box.lower / box.scale, box.upper / box.scale, sites=len(sites), seed=seed)
    search = _Search(campaign, problem, limit)
    message = search.run(start, callback)
    return search.result(message)


def _limit(campaign: Campaign, method: str, maxfev: int, dimension: int) -> int:
    """Return the site evaluations that the search may ask for. Raises FleetError."""
    if method not in METHODS:
        raise FleetError(f"method must be {' or '.join(METHODS)}, got {method!r}")
    if isinstance(maxfev, bool) or not isinstance(maxfev, int | np.integer) or maxfev < 0:
        raise FleetError(f"maxfev must be a whole number of at least 0, got {maxfev!r}")
    if dimension > _MOST_PARAMETERS:
        raise FleetError(f"cma-es is for n of at most {_MOST_PARAMETERS} parameters, this fleet has n = {dimension}")
    left = campaign.left
    if not maxfev and left is None:
        raise FleetError("minimize must have an end: give maxfev, or the fleet a budget")
    return min(maxfev or math.inf, math.inf if left is None else left)  # type: ignore[return-value]


class _Search:
    """Carries the generations of one search to the sites."""

    def __init__(self, campaign: Campaign, problem: Problem, limit: int) -> None:
        self._campaign, self._problem, self._limit = campaign, problem, limit
        self._box = campaign.begin().parameters.box
        self._spent = 0
        self._state: State = begin(problem)
        self._first = math.nan  # mean at the start
        self._best: tuple[float, Vector] = (math.inf, problem.start)  # of those that all sites have answered

    def run(self, start: Vector, callback: Callback | None) -> str:
        """Search until the limit, or until the callback says so; return why it ended."""
        everywhere = len(self._campaign.names)
        self._first = self._all_sites(start)
        if not math.isnan(self._first):
            self._best = (self._first, start)
        while True:
            with one_thread():
                generation = ask(self._problem, self._state)
            count = len(generation.sites) * len(generation.points) * (1 + generation.twice)
            if self._spent + count + 2 * everywhere > self._limit:  # with the ends of this valley and of the search
                return f"the {self._limit:,} site evaluations are spent"
            try:
                self._carry(generation)
            except BudgetError as error:
                return str(error)
            if callback is not None and self._stopped(callback):
                return "the callback has stopped the search"

    def _carry(self, generation: Generation) -> None:
        points, repeats = self._box.to_user(generation.points), 1 + generation.twice
        names = [self._campaign.names[site] for site in generation.sites]
        told = self._asked(np.tile(points, (repeats, 1)), names)
        tables = np.split(told, repeats, axis=1)
        if len(names) == len(self._campaign.names):
            for mean, point in zip(np.mean(tables[0], axis=0), points, strict=True):
                if mean < self._best[0]:  # NaN is not
                    self._best = (float(mean), point)
        before = self._state
        with one_thread():
            self._state = tell(self._problem, before, tables)
        if self._state.restarts > before.restarts:
            self._keep(self._point(before))

    def _keep(self, x: Vector) -> None:
        fun = self._all_sites(x)
        if fun < self._best[0]:
            self._best = (fun, x)

    def _stopped(self, callback: Callback) -> bool:
        try:
            return callback(OptimizeResult(x=self._mean, nit=self._state.generation, nfev=self._spent)) is True
        except StopIteration:
            return True

    def result(self, message: str) -> OptimizeResult:
        """Return the best x seen by all sites where answers are equal when asked twice, else the mean."""
        state, x = self._state, self._mean
        fun = self._all_sites(x)
        if self._best[0] < fun and state.watch.quiet:
            fun, x = self._best
        seen = "answers are equal when asked twice" if state.watch.quiet else "answers are noisy"
        m = state.watch.sites(self._problem.sites)
        return OptimizeResult(
            x=x,
            fun=fun,
            nfev=self._spent,
            nit=state.generation,
            success=bool(fun < self._first),
            message=f"{message}; {seen}; the last generation was for {m} of {self._problem.sites} sites",
            start_fun=self._first,
            restarts=state.restarts,
        )

    @property
    def _mean(self) -> Vector:
        return self._point(self._state)

    def _point(self, state: State) -> Vector:
        x: Vector = self._box.to_user(middle(self._problem, state))
        return x

    def _all_sites(self, x: Vector) -> float:
        """Return the mean over all sites at x, NaN where one is lost: such a mean compares with no other."""
        try:
            return float(np.mean(self._asked(x[None], None)))
        except BudgetError:
            return math.nan

    def _asked(self, points: Matrix, names: list[str] | None) -> Matrix:
        before = self._campaign.begin().questions.evaluations
        try:
            return self._campaign.ask(points, names)[0]
        finally:
            self._spent += self._campaign.begin().questions.evaluations - before
