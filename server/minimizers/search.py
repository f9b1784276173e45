"""A search for the least mean of F over sites, as pure functions of a frozen state.

``ask`` says which sites to ask about which points, ``tell`` takes their answers, and ``answer`` is where the search
would end now. Whoever carries the messages keeps nothing else. Methods:

cma-es: CMA-ES to the end.
lbfgs:  L-BFGS-B from the start, until no step leads lower.
auto:   1. Integers or choices: cma-es. 2. A look at the start (``look``); where F is noisy, rough or flat: cma-es.
        3. Else cma-es while it asks fewer than .3 of the sites (not at all with 6 sites or fewer), then L-BFGS-B from
        its mean if each site has 5 (n + 1) answers left, for half of what is left at most. Then cma-es anew: from the
        start, for other valleys, or from the best of a descent that was not at its end.
        Where the look would cost more than a tenth of what may be asked: cma-es without a look.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from zofedht.common.machine.blas import one_thread
from zofedht.common.objective.units import Units
from zofedht.common.rules import LARGEST_LOSS
from zofedht.common.space.space import Space
from zofedht.common.typing import Matrix, Vector
from zofedht.server.cma import search as cma
from zofedht.server.cma.cells import cells_of
from zofedht.server.cma.search import Generation, Problem, State
from zofedht.server.minimizers.descent import Descent, around, begun, learnt
from zofedht.server.minimizers.look import (
    Look,
    cost_of_slopes,
    repeats_look,
    seen_slopes,
    seen_twice,
    slopes_look,
)

__all__ = [
    "METHODS",
    "SHARE",
    "Generation",
    "Left",
    "Problem",
    "Search",
    "answer",
    "ask",
    "begin_search",
    "descent_of",
    "problem_of",
    "tell",
]

METHODS = ("auto", "cma-es", "lbfgs")

Phase = Literal["repeats", "slopes", "few-sites", "cma-es", "lbfgs", "over"]
"""The looks at the start; cma-es until it asks many sites; cma-es to the end; the descent; no step leads lower."""

_PRICE = 0.1  # of all that may be asked
SHARE, _FEW = 0.3, 6
_GRADIENTS = 5
_DESCENT = 0.5  # of what is left when it begins


@dataclass(frozen=True)
class Left:
    """What may still be asked: answers of one site to one point, and batches."""

    answers: float = math.inf
    batches: float = math.inf


@dataclass(frozen=True)
class Search:
    """Where a search is."""

    start: Vector  # (n,), in search units
    method: str
    phase: Phase
    evolution: State
    descent: Descent | None = None
    look: Look | None = None  # of auto
    until: Left = Left()  # the answers asked for, and the gradients, at which a descent ends
    restarts: int = 0  # of cma-es after a descent
    answers: int = 0  # asked for so far
    empty: int = 0  # batches in a row of which every answer was lost

    @property
    def over(self) -> bool:
        """Whether nothing is left to be asked."""
        return self.phase == "over"

    @property
    def doing(self) -> str:
        """What it does now: look, cma-es or lbfgs."""
        return {"repeats": "look", "slopes": "look", "few-sites": "cma-es", "over": "lbfgs"}.get(self.phase, self.phase)

    @property
    def quiet(self) -> bool:
        """Whether answers are known to have no noise."""
        return self.evolution.watch.quiet or self.method == "lbfgs" or bool(self.look and self.look.quiet)

    @property
    def gradients(self) -> int:
        """Those of L-BFGS-B."""
        return 0 if self.descent is None else self.descent.gradients


def problem_of(
    start: Vector, units: Units | None, space: Space | None, sites: int, seed: int, *, all_sites: bool = False
) -> Problem:
    """Return what is searched, from the start in search units and what the sites declare.

    ``all_sites`` has each generation asked of all of them.
    """
    if units is None:
        nothing = np.full(len(start), np.inf)
        return Problem(start, -nothing, nothing, sites, seed, all_sites=all_sites)
    lower, upper = units.lower / units.scale, units.upper / units.scale
    return Problem(start, lower, upper, sites, seed, cells=cells_of(space, units.scale), all_sites=all_sites)


def begin_search(problem: Problem, method: str, left: Left) -> Search:
    """Return the search before the first question."""
    search = Search(problem.start, method, "cma-es", cma.begin(problem))
    if method == "lbfgs":
        return replace(search, phase="lbfgs", descent=begun(problem.start))
    if method == "cma-es":
        return search
    if problem.cells is not None:
        return replace(search, look=Look(why="integers"))
    if repeats_look(problem).answers + cost_of_slopes(problem) > _PRICE * left.answers:
        return replace(search, look=Look(why="budget"))
    return replace(search, phase="repeats")


def ask(problem: Problem, search: Search) -> Generation:
    """Return what is to be asked now."""
    match search.phase:
        case "repeats":
            return repeats_look(problem)
        case "slopes":
            return slopes_look(problem)
        case "lbfgs":
            return Generation(tuple(range(problem.sites)), around(problem, descent_of(search)), False)
        case _:
            with one_thread():
                return cma.ask(_seeded(problem, search), search.evolution)


def tell(problem: Problem, search: Search, tables: Sequence[Matrix], left: Left) -> Search:
    """Return the search after the answers: one table, (sites, points), or two where it was asked twice.

    ``left`` is what may be asked after that.
    """
    with one_thread(), np.errstate(invalid="ignore"):
        tables = [np.where(np.abs(table) <= LARGEST_LOSS, table, np.nan) for table in tables]
        empty = search.empty + 1 if all(np.all(np.isnan(table)) for table in tables) else 0
        answers = search.answers + sum(table.size for table in tables)
        search = replace(search, answers=answers, empty=empty)
        match search.phase:
            case "repeats":
                look = seen_twice(tables)
                if look.quiet and cost_of_slopes(problem) + search.answers > _PRICE * (left.answers + search.answers):
                    look = replace(look, why="budget")
                return replace(search, look=look, phase="cma-es" if look.why else "slopes")
            case "slopes":
                look = seen_slopes(problem, tables[0])
                search = replace(search, look=look, phase="few-sites" if look.smooth else "cma-es")
            case "lbfgs":
                descent = learnt(problem, descent_of(search), tables[0])
                return _while_lower(problem, replace(search, descent=descent))
            case _:
                search = replace(search, evolution=cma.tell(_seeded(problem, search), search.evolution, tables))
        return _descending(problem, search, left) if search.phase == "few-sites" else search


def answer(problem: Problem, search: Search) -> Vector:
    """Return where the search would end now, (n,), in search units."""
    if search.descent is not None and search.phase in ("lbfgs", "over") and search.descent.best is not None:
        return search.descent.best.x
    return cma.answer(_seeded(problem, search), search.evolution)


def _seeded(problem: Problem, search: Search) -> Problem:
    return replace(problem, seed=problem.seed + search.restarts) if search.restarts else problem


def descent_of(search: Search) -> Descent:
    """Return the descent of a search that has begun one."""
    assert search.descent is not None  # else the phase is another one
    return search.descent


def _descending(problem: Problem, search: Search, left: Left) -> Search:
    """Return the search, on its way down as soon as many sites are asked and there is enough left for that."""
    many = problem.sites <= _FEW or search.evolution.watch.sites(problem.sites) >= SHARE * problem.sites
    enough = left.batches >= _GRADIENTS and left.answers >= _GRADIENTS * (len(problem.start) + 1) * problem.sites
    if not many:
        return search
    if not enough:
        return replace(search, phase="cma-es")
    start = cma.answer(problem, search.evolution)
    until = Left(search.answers + _DESCENT * left.answers, max(_GRADIENTS, _DESCENT * left.batches))
    return replace(search, phase="lbfgs", descent=begun(start), until=until)


def _while_lower(problem: Problem, search: Search) -> Search:
    """Return the search: as it is while a step leads lower and auto may pay for it; else over, or with cma-es anew."""
    descent, until = descent_of(search), search.until
    if descent.point is not None:
        price = len(around(problem, descent)) * problem.sites
        if search.answers + price <= until.answers and descent.gradients < until.batches:
            return search
    if search.method == "lbfgs":
        return replace(search, phase="over")
    search = replace(search, phase="cma-es", restarts=search.restarts + 1)
    seeded = _seeded(problem, search)
    if descent.point is not None and descent.best is not None:  # it was still on its way
        seeded = replace(seeded, start=descent.best.x)
    fresh = cma.begin(seeded)
    watch = replace(fresh.watch, noise=0.0)  # that was seen
    return replace(search, evolution=replace(fresh, watch=watch, valley=descent.best))
