"""The door of the minimizers: checks what is asked for, runs one, and tells where it ended."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from zofedht.common.errors import FleetError
from zofedht.common.rules import check_whole
from zofedht.common.typing import Vector
from zofedht.server.cma.search import middle
from zofedht.server.minimizers.door import Callback, Door, Evaluator, SpentError, StoppedError
from zofedht.server.minimizers.search import (
    METHODS,
    Left,
    Problem,
    Search,
    answer,
    ask,
    begin_search,
    problem_of,
    tell,
)
from zofedht.server.minimizers.words import sentence_of
from zofedht.server.results import ShortResult, takes_one

__all__ = ["METHODS", "minimize"]

_MOST_PARAMETERS = 200
_LEAST = 3  # evaluations of a site: at the start, at a valley that is left, and at the end


def minimize(
    evaluator: Evaluator,
    start: Vector,
    *,
    method: str,
    maxfev: int,
    seed: int,
    callback: Callback | None,
    maximize: bool = False,
) -> ShortResult:
    """Return where the search from ``start``, in the user's units, ends; ``Fleet.minimize`` says the rest.

    Raises FleetError.
    """
    if method not in METHODS:
        raise FleetError(f"method must be {', '.join(METHODS[:-1])} or {METHODS[-1]}, got {method!r}")
    if len(start) > _MOST_PARAMETERS:
        raise FleetError(f"minimize is for at most {_MOST_PARAMETERS} parameters, this fleet has n = {len(start)}")
    if callback is not None and not takes_one(callback):
        raise FleetError(f"callback must be a function of one argument, got {callback!r}")
    declared = evaluator.parameters
    start_z = declared.box.to_search(start)
    problem = problem_of(start_z, declared.box, declared.space, len(evaluator.names), seed)
    if method == "lbfgs" and problem.cells is not None:
        raise FleetError("lbfgs needs slopes, and integers and choices have none; take cma-es or auto")
    limit = _limit(evaluator, maxfev)
    sign = -1.0 if maximize else 1.0
    door = Door(evaluator, start, limit, callback, sign)
    first = float(np.mean(door.first))
    search = begin_search(problem, method, Left(door.left))
    why, ended = "no step gains any more", "converged"
    try:
        while not search.over:
            search = _carried(door, problem, search)
            door.tell(answer(problem, search), _iterations(search))
    except SpentError:
        why, ended = f"the {limit:,.0f} site evaluations are spent", "budget"
    except StoppedError:
        why, ended = "the callback has stopped the search", "callback"
    of_descent = None if search.descent is None else search.descent.best
    for found in (search.evolution.best, search.evolution.valley, of_descent):
        if found is not None:
            door.keep(found.mean, door.to_user(found.x))
    if method == "lbfgs":
        return _result(door, first, search, f"{why} after {search.gradients} gradients", ended, sign)
    x = door.to_user(middle(problem, search.evolution))
    fun = door.full(x)
    if search.quiet:
        door.keep(fun, x)
    else:
        door.best = (fun, x)  # the lowest of noisy means is low by luck
    return _result(door, first, search, f"{why}; {sentence_of(problem, search)}", ended, sign)


def _carried(door: Door, problem: Problem, search: Search) -> Search:
    """Return the search after its next question. Raises SpentError."""
    asked = ask(problem, search)
    if search.phase == "repeats":  # one of both answers is known
        tables = [door.first[list(asked.sites), None], door.table(asked.points, asked.sites)]
    else:
        told = door.table(np.tile(asked.points, (asked.repeats, 1)), asked.sites)
        tables = np.split(told, asked.repeats, axis=1)
    return tell(problem, search, tables, Left(door.left))


def _iterations(search: Search) -> int:
    return search.gradients if search.method == "lbfgs" else search.evolution.generation


def _limit(evaluator: Evaluator, maxfev: int) -> float:
    check_whole("maxfev", maxfev)
    left = evaluator.left
    if not maxfev and left is None:
        raise FleetError("minimize must have an end: give maxfev, or the fleet a budget")
    limit = min(maxfev or math.inf, math.inf if left is None else left)
    if limit < _LEAST * len(evaluator.names):
        raise FleetError(
            f"minimize must have at least {_LEAST} evaluations for each of {len(evaluator.names)} sites, got"
            f" {limit:g} in all"
        )
    return limit


def _result(door: Door, first: float, search: Search, message: str, ended: str, sign: float) -> ShortResult:
    fun, x = door.best
    if door.lost:
        message += f"; {door.lost:,} of {door.asked:,} answers were lost"
    fields: dict[str, Any] = {"x": x, "fun": sign * fun, "start_fun": sign * first, "success": bool(fun < first)}
    counts = {"nfev": door.spent, "nit": _iterations(search), "lost": door.lost}
    more = {"message": message, "ended": ended, "quiet": search.quiet, "restarts": search.evolution.restarts}
    return ShortResult(fields, **counts, **more)
