"""A search for the least mean of F over sites, as pure functions of a frozen state.

``ask`` says which sites to ask about which points, ``tell`` takes their answers, and ``answer`` is where the search
would end now. Whoever carries the messages keeps nothing else. Methods:

cma-es: CMA-ES to the end.
lbfgs:  L-BFGS-B from the start, until no step leads lower.
auto:   1. Integers or choices: cma-es. 2. A look at the start (``look``); where F is noisy, rough or flat: cma-es.
        3. Else cma-es while it asks fewer than .3 of the sites (not at all with 6 sites or fewer), then L-BFGS-B from
        its mean if each site has 5 (n + 1) answers left, then cma-es anew from the start, for other valleys.
        Where the look would cost more than a tenth of what may be asked: cma-es without a look.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from zofedht.common.machine.blas import one_thread
from zofedht.common.objective.scaling import Units
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
    "Generation",
    "Left",
    "Problem",
    "Search",
    "about",
    "answer",
    "ask",
    "begin_search",
    "problem_of",
    "sentence_of",
    "tell",
    "why_changed",
]

METHODS = ("auto", "cma-es", "lbfgs")

Phase = Literal["repeats", "slopes", "few-sites", "cma-es", "lbfgs", "over"]
"""The looks at the start; cma-es until it asks many sites; cma-es to the end; the descent; no step leads lower."""

_LARGEST = 1e100  # of a value that counts: squares of such values overflow
_PRICE = 0.1  # of all that may be asked
_SHARE, _FEW = 0.3, 6
_GRADIENTS = 5


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
            return Generation(tuple(range(problem.sites)), around(problem, _point(search))[0], False)
        case _:
            with one_thread():
                return cma.ask(_seeded(problem, search), search.evolution)


def tell(problem: Problem, search: Search, tables: Sequence[Matrix], left: Left) -> Search:
    """Return the search after the answers: one table, (sites, points), or two where it was asked twice.

    ``left`` is what may be asked after that.
    """
    with one_thread(), np.errstate(invalid="ignore"):
        tables = [np.where(np.abs(table) <= _LARGEST, table, np.nan) for table in tables]
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
                assert search.descent is not None
                descent = learnt(problem, search.descent, tables[0])
                return _while_lower(problem, replace(search, descent=descent))
            case _:
                search = replace(search, evolution=cma.tell(_seeded(problem, search), search.evolution, tables))
        return _descending(problem, search, left) if search.phase == "few-sites" else search


def answer(problem: Problem, search: Search) -> Vector:
    """Return where the search would end now, (n,), in search units."""
    if search.descent is not None and search.phase in ("lbfgs", "over") and search.descent.best is not None:
        return search.descent.best.x
    return cma.answer(_seeded(problem, search), search.evolution)


def why_changed(before: Search, after: Search) -> str:
    """Return why the search does something else than before, for people; empty where it does not."""
    match before.doing, after.doing:
        case "look", _ if after.doing != "look":
            return "" if after.look is None else after.look.sentence
        case "cma-es", "lbfgs":
            return f"{_SHARE:g} of the sites are asked, and F looked smooth"
        case "lbfgs", "cma-es":
            return "no step leads lower, and there may be other valleys"
    return ""


def about(problem: Problem, search: Search) -> dict[str, Any]:
    """Return what was seen and done, as fields."""
    look = search.look or Look()
    return {
        "method": search.method,
        "doing": search.doing,
        "over": search.over,
        "quiet": search.quiet,
        "smooth": look.smooth,
        "why": look.why,
        "gradients": search.gradients,
        "restarts": search.evolution.restarts + search.restarts,
        "sites": search.evolution.watch.sites(problem.sites),
        "of_sites": problem.sites,
        "sentence": sentence_of(problem, search),
    }


def sentence_of(problem: Problem, search: Search) -> str:
    """Return what was seen and done, for people."""
    parts = [f"L-BFGS-B took {search.gradients} gradients"] if search.gradients else []
    if search.method == "lbfgs":
        return parts[0] if parts else "nothing was asked"
    seen = "answers are equal when asked twice" if search.quiet else "answers are noisy"
    parts.insert(0, seen if search.look is None or search.look.why == "budget" else search.look.sentence)
    m = search.evolution.watch.sites(problem.sites)
    return "; ".join([*parts, f"the last generation was for {m} of {problem.sites} sites"])


def _seeded(problem: Problem, search: Search) -> Problem:
    return replace(problem, seed=problem.seed + search.restarts) if search.restarts else problem


def _point(search: Search) -> Vector:
    assert search.descent is not None
    assert search.descent.point is not None  # else the phase is another one
    return search.descent.point


def _descending(problem: Problem, search: Search, left: Left) -> Search:
    """Return the search, on its way down as soon as many sites are asked and there is enough left for that."""
    many = problem.sites <= _FEW or search.evolution.watch.sites(problem.sites) >= _SHARE * problem.sites
    enough = left.batches >= _GRADIENTS and left.answers >= _GRADIENTS * (len(problem.start) + 1) * problem.sites
    if not many:
        return search
    if not enough:
        return replace(search, phase="cma-es")
    start = cma.answer(problem, search.evolution)
    return replace(search, phase="lbfgs", descent=begun(start))


def _while_lower(problem: Problem, search: Search) -> Search:
    """Return the search: as it is while a step leads lower, else over, or by auto with cma-es anew."""
    descent = search.descent
    assert descent is not None
    if descent.point is not None:
        return search
    if search.method == "lbfgs":
        return replace(search, phase="over")
    search = replace(search, phase="cma-es", restarts=search.restarts + 1)
    fresh = cma.begin(_seeded(problem, search))
    watch = replace(fresh.watch, noise=0.0)  # that was seen
    return replace(search, evolution=replace(fresh, watch=watch, valley=descent.best))
