"""All that a minimizer may ask for: site evaluations up to a limit, in search units; and the best x on the way."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
from scipy.optimize import OptimizeResult

from zofedht.common.errors import BudgetError
from zofedht.common.objective.parameters import Parameters
from zofedht.common.typing import Matrix, Vector
from zofedht.server.results import asks_to_stop

__all__ = ["Callback", "Door", "Evaluator", "SpentError", "StoppedError"]

Callback = Callable[[OptimizeResult], Any]


class Evaluator(Protocol):
    """Sites that answer about points in the user's units."""

    @property
    def names(self) -> tuple[str, ...]:
        """The sites."""

    @property
    def parameters(self) -> Parameters:
        """What they declare."""

    @property
    def evaluations(self) -> int:
        """Site evaluations so far."""

    @property
    def left(self) -> int | None:
        """Site evaluations that are left of a budget, None where there is none."""

    def ask(self, points: Any, sites: Sequence[str] | None = None) -> tuple[Matrix, Vector]:
        """Return the table, (sites, points), NaN where an answer is lost, and the means. Raises BudgetError."""


class SpentError(Exception):
    """What is asked for exceeds the limit. Nothing of it was asked."""


class StoppedError(Exception):
    """The callback has stopped the search."""


class Door:
    """Counts what is asked, and keeps the best x that all sites have answered."""

    def __init__(
        self, evaluator: Evaluator, start: Vector, limit: float, callback: Callback | None = None, sign: float = 1.0
    ) -> None:
        """``start``: (n,), in the user's units. ``sign`` times F is minimised."""
        self._evaluator, self.limit, self._callback, self._sign = evaluator, limit, callback, sign
        self.asked = self.lost = 0
        self._box = evaluator.parameters.box
        self._reserve = len(evaluator.names)  # for the end
        self.sites = len(evaluator.names)
        self.spent = 0
        self.first: Vector = self._everywhere(start)  # of all sites at the start, (N,)
        self.best: tuple[float, Vector] = (math.inf, start)
        self.keep(float(np.mean(self.first)), start)

    def to_user(self, z: Matrix) -> Matrix:
        """Return the points in the user's units."""
        x: Matrix = self._box.to_user(z)
        space = self._evaluator.parameters.space
        return x if space is None else space.snapped(x)

    @property
    def left(self) -> float:
        """The site evaluations that are left, without those of the end."""
        return self.limit - self.spent - self._reserve

    def table(self, z: Matrix, sites: Sequence[int] | None = None) -> Matrix:
        """Return F of some sites, all unless given, at points in search units, (sites, points).

        Raises SpentError when the limit does not suffice.
        """
        chosen = None if sites is None else [self._evaluator.names[site] for site in sites]
        if len(z) * (self.sites if chosen is None else len(chosen)) > self.left:
            raise SpentError
        return self._asked(self.to_user(z), chosen)

    def full(self, x: Vector) -> float:
        """Return the mean over all sites at the user's x: NaN where one is lost, as it compares with no other mean."""
        return float(np.mean(self._everywhere(x)))

    def keep(self, fun: float, x: Vector) -> None:
        """Keep the user's x if its mean over all sites is the lowest; NaN is not."""
        if fun < self.best[0]:
            self.best = (fun, x)

    def tell(self, z: Vector, iterations: int) -> None:
        """Tell the callback. Raises StoppedError where it wants no more."""
        if self._callback is None:
            return
        declared, [x] = self._evaluator.parameters, self.to_user(z[None])
        settings = declared.named.settings(x) if declared.names else {}
        told = OptimizeResult(x=x, settings=settings, nit=iterations, nfev=self.spent)
        if asks_to_stop(self._callback, told):
            raise StoppedError

    def _everywhere(self, x: Vector) -> Vector:
        try:
            answers: Vector = self._asked(x[None], None)[:, 0]
            return answers
        except SpentError:
            return np.full(self.sites, np.nan)

    def _asked(self, points: Matrix, sites: list[str] | None) -> Matrix:
        before = self._evaluator.evaluations
        try:
            table = self._evaluator.ask(points, sites)[0]
            self.asked, self.lost = self.asked + table.size, self.lost + int(np.isnan(table).sum())
            return self._sign * table
        except BudgetError as error:
            raise SpentError from error
        finally:
            self.spent += self._evaluator.evaluations - before
