"""Bounds as a change of variables, as pycma's BoundTransform (Hansen): no penalty, and a smooth minimum at a bound.

Within a margin a of a bound, x = lower + (y - lower + a)^2 / (4 a): slope 1 at the inner end, slope 0 at the bound, and
mirrored beyond it. Elsewhere x = y.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from zofedht.common.typing import Matrix, Vector
from zofedht.server.cma.cells import Cells
from zofedht.server.cma.evolution import Distribution

__all__ = ["Box"]

_MARGIN = 0.1  # in search units, in which a change of 1 matters; at most half of the width


@dataclass(frozen=True)
class Box:
    """lower, upper: (n,), infinite where there is no bound. cells: of integers and choices, which have ends instead."""

    lower: Vector
    upper: Vector
    cells: Cells | None = None

    @property
    def _open(self) -> Box:
        """The box of the other parameters."""
        lower, upper = self.lower.copy(), self.upper.copy()
        if self.cells is not None:
            lower[self.cells.places], upper[self.cells.places] = -np.inf, np.inf
        return Box(lower, upper)

    def kept_open(self, distribution: Distribution, population: int) -> Distribution:
        """Return the distribution with room for other values of integers and choices."""
        return distribution if self.cells is None else self.cells.kept_open(distribution, population)

    @property
    def margin(self) -> Vector:
        """a of each parameter, (n,)."""
        margin: Vector = np.minimum(_MARGIN, 0.5 * (self.upper - self.lower))
        return margin

    def inside(self, y: Matrix) -> Matrix:
        """Return x of any y, (n,) or one a row: always within the bounds."""
        if self.cells is not None:
            return np.clip(self.cells.snapped(self._open.inside(y)), self.lower, self.upper)
        margin = self.margin
        safe = np.where(margin > 0.0, margin, 1.0)  # a parameter whose bounds meet is fixed: clip sees to it
        low, high = np.isfinite(self.lower), np.isfinite(self.upper)
        bottom, top = np.where(low, self.lower - margin, 0.0), np.where(high, self.upper + margin, 0.0)
        period = np.where(low & high, np.maximum(2.0 * (top - bottom), 1e-300), np.inf)
        both = np.mod(y - bottom, np.where(low & high, period, 1.0))
        both = bottom + np.minimum(both, period - both)
        x = np.where(low & high, both, np.where(low, bottom + np.abs(y - bottom), y))
        x = np.where(high & ~low, top - np.abs(y - top), x)
        near_low, near_high = low & (x < bottom + 2.0 * margin), high & (x > top - 2.0 * margin)
        lifted = np.where(low, self.lower, 0.0) + (x - bottom) ** 2 / (4.0 * safe)
        lowered = np.where(high, self.upper, 0.0) - (x - top) ** 2 / (4.0 * safe)
        x = np.where(near_low, lifted, np.where(near_high, lowered, x))
        return np.clip(x, self.lower, self.upper)

    def outside(self, x: Vector) -> Vector:
        """Return the y nearest to x that leads to x."""
        if self.cells is not None:
            return self.cells.balanced(self._open.outside(x))
        margin = self.margin
        up = np.where(np.isfinite(self.lower), x - self.lower, np.inf)
        down = np.where(np.isfinite(self.upper), self.upper - x, np.inf)
        y = np.where(up < margin, x - up - margin + 2.0 * np.sqrt(margin * np.minimum(up, margin)), x)
        down = np.where(up < margin, np.inf, down)
        return np.where(down < margin, x + down + margin - 2.0 * np.sqrt(margin * np.minimum(down, margin)), y)
