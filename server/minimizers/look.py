"""A look at F at the start: is it without noise, and smooth?

Answers are asked for twice at up to ten sites, then central slopes along 3 directions at radii 1e-3 and 1e-5 at two
sites. F looks smooth if the slopes of both radii differ by less than 5% and none is 0. Other valleys cannot be seen
from the start.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from zofedht.common.random.streams import stream
from zofedht.common.typing import Matrix, Vector
from zofedht.server.cma.search import Generation, Problem

__all__ = ["Look", "cost_of_slopes", "repeats_look", "seen_slopes", "seen_twice", "slopes_look"]

_DIRECTIONS, _RADII, _UNLIKE = 3, (1e-3, 1e-5), 0.05
_POINTS = 2 * _DIRECTIONS * len(_RADII)
_ASKED_TWICE, _LOOKED_AT = 10, 2  # sites

Why = Literal["", "integers", "budget", "lost", "noise", "flat", "rough"]
"""Why F is not known to be smooth."""

_SENTENCES: dict[str, str] = {
    "": f"equal when asked twice; smooth, as far as {2 + _POINTS} evaluations of a site tell",
    "integers": "integers or choices among the parameters",
    "budget": "the budget is too small to look for smoothness",
    "lost": "answers at the start are lost",
    "noise": "answers differ when asked twice",
    "flat": "equal when asked twice; some slopes at the start are 0 or lost",
    "rough": "equal when asked twice; slopes over 1e-3 and over 1e-5 differ",
}


@dataclass(frozen=True)
class Look:
    """What was seen; None where it is not known."""

    quiet: bool | None = None
    smooth: bool | None = None
    why: Why = ""

    @property
    def sentence(self) -> str:
        """The same for people."""
        return _SENTENCES[self.why]


def repeats_look(problem: Problem) -> Generation:
    """Return the question about noise."""
    return Generation(tuple(range(min(_ASKED_TWICE, problem.sites))), problem.start[None], True)


def seen_twice(tables: Sequence[Matrix]) -> Look:
    """Return what two answers of each site tell; whether F is smooth is not known yet."""
    first, again = tables
    if np.any(np.isnan(first + again)):
        return Look(why="lost")
    return Look(quiet=True) if np.array_equal(first, again) else Look(quiet=False, why="noise")


def cost_of_slopes(problem: Problem) -> int:
    """Return the answers that ``slopes_look`` asks for."""
    return _POINTS * min(_LOOKED_AT, problem.sites)


def slopes_look(problem: Problem) -> Generation:
    """Return the question about slopes."""
    return Generation(tuple(range(min(_LOOKED_AT, problem.sites))), _ends(problem)[0], False)


def seen_slopes(problem: Problem, table: Matrix) -> Look:
    """Return what the ends of the probes tell, (sites, points), of a quiet F."""
    ends = table.reshape(len(table), len(_RADII), _DIRECTIONS, 2)
    slopes = (ends[..., 0] - ends[..., 1]) / _ends(problem)[1].reshape(len(_RADII), _DIRECTIONS)
    large, small = slopes[:, 0], slopes[:, 1]
    if np.any(np.isnan(slopes)) or np.any(slopes == 0.0):
        return Look(quiet=True, smooth=False, why="flat")
    if np.any(np.abs(large - small) > _UNLIKE * np.maximum(np.abs(large), np.abs(small))):
        return Look(quiet=True, smooth=False, why="rough")
    return Look(quiet=True, smooth=True)


def _ends(problem: Problem) -> tuple[Matrix, Vector]:
    """Return both ends of each probe, by radius and direction, (12, n), and their distances, (6,)."""
    start = problem.start
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
