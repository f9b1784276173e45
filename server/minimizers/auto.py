"""Which minimizer: a rule that looks at the answers, and says what it saw.

0. Integers or choices among the parameters: CMA-ES.
1. Answers at the start differ when they are asked twice: CMA-ES.
2. Central slopes along 3 directions at radii 1e-3 and 1e-5 differ by more than 5%, or are 0: CMA-ES.
3. Else F is quiet and smooth as far as these questions tell: CMA-ES while it asks fewer than .3 of the sites (not at
   all with 6 sites or fewer), then L-BFGS-B from its mean if each site has 5 (n + 1) evaluations left, then CMA-ES anew
   from the start for other valleys.

Other valleys cannot be seen from the start. Where these questions would cost more than a tenth of the limit, it is
CMA-ES without a look.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from zofedht.common.random.streams import stream
from zofedht.common.typing import Matrix, Vector
from zofedht.server.cma.search import Problem
from zofedht.server.minimizers.cma_es import Evolution
from zofedht.server.minimizers.door import Door
from zofedht.server.minimizers.lbfgs import descend

__all__ = ["Auto"]

_DIRECTIONS, _RADII, _UNLIKE = 3, (1e-3, 1e-5), 0.05
_SHARE, _FEW = 0.3, 6
_GRADIENTS = 5
_LOOKED_AT = 2  # sites whose slopes are looked at
_PRICE = 0.1  # of the limit


class Auto:
    """A search by the rule; ``saw`` is a sentence about F."""

    def __init__(self, door: Door, problem: Problem) -> None:
        self._door, self._problem = door, problem
        self.evolution = Evolution(door, problem)
        self.quiet = False
        self.looked, self.saw = False, "the budget is too small to look for smoothness"
        if problem.cells is not None:
            self.looked, self.saw = True, "integers or choices among the parameters"
        self.gradients = 0

    @property
    def sites(self) -> int:
        """N."""
        return self._problem.sites

    def run(self) -> None:
        """Search until the limit. Raises SpentError or StoppedError."""
        if self._problem.cells is not None or not self._smooth():
            self.evolution.run()  # to the end
        problem, door = self._problem, self._door
        if problem.sites > _FEW:
            self.evolution.run(lambda state: state.watch.sites(problem.sites) >= _SHARE * problem.sites)
        if door.limit - door.spent >= _GRADIENTS * (len(problem.start) + 1) * problem.sites:
            self.descend(self.evolution.mean)
        self.evolution = Evolution(door, replace(problem, seed=problem.seed + 1))
        self.evolution.run()

    def descend(self, start: Vector) -> None:
        """Descend by L-BFGS-B from a point in search units. Raises SpentError or StoppedError."""
        descend(self._door, self._problem, start, self._count)

    def _count(self) -> None:
        self.gradients += 1

    def _smooth(self) -> bool:
        """Whether F looks quiet and smooth at the start."""
        start = self._problem.start
        points, lengths = self._ends(start)
        sites = list(range(min(_LOOKED_AT, self._problem.sites)))
        if self._problem.sites + len(points) * len(sites) > _PRICE * self._door.limit:
            return False  # it would cost too much to look
        self.looked = True
        again = self._door.table(start[None])[:, 0]
        if np.any(np.isnan(again + self._door.first)):
            self.saw = "answers at the start are lost"
            return False
        if not np.array_equal(again, self._door.first):
            self.saw = "answers differ when asked twice"
            return False
        self.quiet = True
        table = self._door.table(points, sites)
        ends = table.reshape(len(sites), len(_RADII), _DIRECTIONS, 2)
        slopes = (ends[..., 0] - ends[..., 1]) / lengths.reshape(len(_RADII), _DIRECTIONS)
        large, small = slopes[:, 0], slopes[:, 1]
        asked = 2 + points.shape[0]
        if np.any(np.isnan(slopes)) or np.any(slopes == 0.0):
            self.saw = "equal when asked twice; some slopes at the start are 0 or lost"
            return False
        if np.any(np.abs(large - small) > _UNLIKE * np.maximum(np.abs(large), np.abs(small))):
            self.saw = "equal when asked twice; slopes over 1e-3 and over 1e-5 differ"
            return False
        self.saw = f"equal when asked twice; smooth, as far as {asked} evaluations of a site tell"
        return True

    def _ends(self, start: Vector) -> tuple[Matrix, Vector]:
        """Return both ends of each probe, by radius and direction, (12, n), and their distances, (6,)."""
        problem = self._problem
        directions = stream(problem.seed, "check").standard_normal((_DIRECTIONS, len(start)))
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        ends = []
        for radius in _RADII:
            for v in directions:
                # Both ends move inward together, so that they keep their distance.
                reach = radius * np.abs(v)
                middle = np.clip(start, problem.lower + reach, problem.upper - reach)
                ends += [middle + radius * v, middle - radius * v]
        points = np.clip(np.array(ends), problem.lower, problem.upper)
        lengths = np.linalg.norm(points[0::2] - points[1::2], axis=1)
        return points, np.where(lengths > 0.0, lengths, np.nan)
