"""The door of the minimizers: checks what is asked for, runs one, and tells where it ended."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.optimize import OptimizeResult

from zofedht.common.errors import FleetError
from zofedht.common.typing import Vector
from zofedht.server.cma.cells import cells_of
from zofedht.server.cma.search import Problem
from zofedht.server.minimizers.auto import Auto
from zofedht.server.minimizers.cma_es import Evolution
from zofedht.server.minimizers.door import Callback, Door, Evaluator, SpentError, StoppedError

__all__ = ["METHODS", "minimize"]

METHODS = ("auto", "cma-es", "lbfgs")
_MOST_PARAMETERS = 200
_LEAST = 3  # evaluations of a site: at the start, at a valley that is left, and at the end


def minimize(
    evaluator: Evaluator, start: Vector, *, method: str, maxfev: int, seed: int, callback: Callback | None
) -> OptimizeResult:
    """Return where the search from ``start``, in the user's units, ends; ``Fleet.minimize`` says the rest.

    Raises FleetError.
    """
    if method not in METHODS:
        raise FleetError(f"method must be {', '.join(METHODS[:-1])} or {METHODS[-1]}, got {method!r}")
    if len(start) > _MOST_PARAMETERS:
        raise FleetError(f"minimize is for at most {_MOST_PARAMETERS} parameters, this fleet has n = {len(start)}")
    box = evaluator.parameters.box
    problem = Problem(
        start=box.to_search(start),
        lower=box.lower / box.scale,
        upper=box.upper / box.scale,
        sites=len(evaluator.names),
        seed=seed,
        cells=cells_of(evaluator.parameters.space, box.scale),
    )
    if method == "lbfgs" and problem.cells is not None:
        raise FleetError("lbfgs needs slopes, and integers and choices have none; take cma-es or auto")
    limit = _limit(evaluator, maxfev)
    door = Door(evaluator, start, limit, callback)
    first = float(np.mean(door.first))
    rule = Auto(door, problem)
    try:
        if method == "cma-es":
            rule.evolution.run()
        elif method == "lbfgs":
            rule.descend(problem.start)
        else:
            rule.run()
        why = "no step leads lower"
    except SpentError:
        why = f"the {limit:,.0f} site evaluations are spent"
    except StoppedError:
        why = "the callback has stopped the search"
    if method == "lbfgs":
        return _result(door, first, rule.gradients, f"{why} after {rule.gradients} gradients", quiet=True)
    evolution = rule.evolution
    quiet = evolution.state.watch.quiet or rule.quiet
    x = door.to_user(evolution.mean)
    fun = door.full(x)
    if quiet:
        door.keep(fun, x)
    else:
        door.best = (fun, x)  # the lowest of noisy means is low by luck
    message, state = _told(why, rule, evolution, quiet), evolution.state
    return _result(door, first, state.generation, message, quiet=quiet, restarts=state.restarts)


def _limit(evaluator: Evaluator, maxfev: int) -> float:
    if isinstance(maxfev, bool) or not isinstance(maxfev, int | np.integer) or maxfev < 0:
        raise FleetError(f"maxfev must be a whole number of at least 0, got {maxfev!r}")
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


def _told(why: str, rule: Auto, evolution: Evolution, quiet: bool) -> str:
    saw = "answers are equal when asked twice" if quiet else "answers are noisy"
    parts = [why, rule.saw if rule.looked else saw]
    if rule.gradients:
        parts.append(f"L-BFGS-B took {rule.gradients} gradients")
    m, of = evolution.state.watch.sites(rule.sites), rule.sites
    return "; ".join([*parts, f"the last generation was for {m} of {of} sites"])


def _result(
    door: Door, first: float, iterations: int, message: str, *, quiet: bool, restarts: int = 0
) -> OptimizeResult:
    fun, x = door.best
    fields: dict[str, Any] = {"x": x, "fun": fun, "nfev": door.spent, "nit": iterations, "start_fun": first}
    return OptimizeResult(fields, success=bool(fun < first), message=message, quiet=quiet, restarts=restarts)
