"""CMA-ES over sites: carries the generations of ``server.cma``."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from zofedht.common.machine.blas import one_thread
from zofedht.common.typing import Vector
from zofedht.server.cma.search import Problem, State, ask, begin, middle, tell
from zofedht.server.minimizers.door import Door

__all__ = ["Evolution"]


class Evolution:
    """One search; ``state`` is where it is."""

    def __init__(self, door: Door, problem: Problem) -> None:
        self._door, self._problem = door, problem
        self.state: State = begin(problem)

    @property
    def mean(self) -> Vector:
        """The mean of the distribution, within the bounds, in search units."""
        return middle(self._problem, self.state)

    def run(self, enough: Callable[[State], bool] = lambda state: False) -> None:
        """Carry generations until it is ``enough``. Raises SpentError or StoppedError."""
        while not enough(self.state):
            self.carry()
            self._door.tell(self.mean, self.state.generation)

    def carry(self) -> None:
        """Ask for one generation and tell its answers. Raises SpentError."""
        before = self.state
        with one_thread():
            asked = ask(self._problem, before)
        repeats = 1 + asked.twice
        told = self._door.table(np.tile(asked.points, (repeats, 1)), asked.sites)
        tables = np.split(told, repeats, axis=1)
        with one_thread():
            self.state = tell(self._problem, before, tables)
        for found in (self.state.best, self.state.valley):
            if found is not None:
                self._door.keep(found.mean, self._door.to_user(found.x))
