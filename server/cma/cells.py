"""Integers and choices in CMA-ES: whole values are asked about, and no value of theirs dies out.

F is constant over the cell of a value. Once all candidates lie in one cell, ranks say nothing about that coordinate,
and its deviation shrinks with the others until no other value is ever tried. CMA-ES with Margin (Hamano, Saito, Nomura,
Shirakawa, GECCO 2022, arXiv 2205.13482) keeps the probability of leaving the cell at alpha = 1/(n lambda) at least:

- an integer between others: mean and deviation are those at which each neighbour has alpha/2 (eq. 16 to 19);
- the lowest or highest integer: the mean moves to where the neighbour has alpha, the deviation stays (eq. 14);
- a choice, which the paper lacks: the means of the other options rise to where each of them exceeds the first with
  probability alpha. An order of options would say nothing, so each option has a coordinate of its own.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np

from zofedht.common.space.kinds import Choice
from zofedht.common.space.numbers import Integer
from zofedht.common.space.space import Space
from zofedht.common.typing import Indices, Matrix, Vector
from zofedht.server.cma.evolution import Distribution

__all__ = ["Cells", "cells_of"]

_LEAD = 0.25  # of the first option in search units, where a search begins; a deviation is .5
_NORMAL = NormalDist()


@dataclass(frozen=True)
class Cells:
    """The integers and choices of a space in search units; ``named`` is its text, scale: (n,)."""

    named: str
    scale: Vector

    @functools.cached_property
    def space(self) -> Space:
        """The space."""
        return Space.of_text(self.named)

    @functools.cached_property
    def places(self) -> Indices:
        """The numbers of their coordinates."""
        blocks = [range(place.start, place.stop) for _, kind, place in self.space.blocks if kind.is_discrete]
        return np.array([index for block in blocks for index in block], dtype=np.intp)

    def snapped(self, z: Matrix) -> Matrix:
        """Return points, (n,) or one a row, with these coordinates in the middle of their cells."""
        out = np.array(z, dtype=np.float64)
        whole = self.space.snapped(out * self.scale) / self.scale
        out[..., self.places] = whole[..., self.places]
        return out

    def balanced(self, z: Vector) -> Vector:
        """Return a start whose options are close to each other: all are tried soon."""
        out = z.copy()
        for _, kind, place in self.space.blocks:
            if isinstance(kind, Choice):
                out[place] = _LEAD * z[place]
        return out

    def kept_open(self, distribution: Distribution, population: int) -> Distribution:
        """Return the distribution with the margin around each value that its mean stands for."""
        mean, spread = distribution.mean.copy(), distribution.spread
        alpha = 1.0 / (mean.shape[0] * population)
        factors = np.ones_like(mean)
        for _, kind, place in self.space.blocks:
            if isinstance(kind, Integer):
                j = place.start
                low, high = (end / float(self.scale[j]) for end in kind.cell(_value(kind, mean[j] * self.scale[j])))
                mean[j], sd = _margin(float(mean[j]), float(spread[j]), low, high, alpha)
                factors[j] = sd / spread[j]
            elif isinstance(kind, Choice):
                mean[place] = _raised(mean[place], spread[place], alpha)
        covariance = distribution.covariance * np.outer(factors, factors)
        path = distribution.covariance_path * factors  # as if these parameters had another unit
        return replace(distribution, mean=mean, covariance=covariance, covariance_path=path)


def cells_of(space: Space | None, scale: Vector) -> Cells | None:
    """Return the cells of a space, None where it has neither integers nor choices."""
    return None if space is None or not space.is_discrete else Cells(space.text, scale)


def _value(kind: Integer, coordinate: float) -> int:
    return kind.from_coordinates(np.array([coordinate]))


def _margin(mean: float, sd: float, low: float, high: float, alpha: float) -> tuple[float, float]:
    """Return mean and deviation such that a normal number leaves (low, high) with probability alpha at least."""
    if math.isinf(low) or math.isinf(high):
        reach = sd * _NORMAL.inv_cdf(1.0 - alpha)
        return (min(mean, low + reach) if math.isinf(high) else max(mean, high - reach)), sd
    below, above = _NORMAL.cdf((low - mean) / sd), _NORMAL.cdf((mean - high) / sd)
    if min(below, above) >= 0.5 * alpha:
        return mean, sd
    within = 1.0 - below - above
    below, above = max(below, 0.5 * alpha), max(above, 0.5 * alpha)
    surplus = (1.0 - below - above - within) / (below + above + within - 1.5 * alpha)
    below += surplus * (below - 0.5 * alpha)
    above += surplus * (above - 0.5 * alpha)
    down, up = -_NORMAL.inv_cdf(below), -_NORMAL.inv_cdf(above)
    return low + (high - low) * down / (down + up), (high - low) / (down + up)


def _raised(means: Vector, sds: Vector, alpha: float) -> Vector:
    """Return the means of a choice's coordinates such that each exceeds the first with probability alpha at least."""
    first = int(np.argmax(means))
    gap = _NORMAL.inv_cdf(1.0 - alpha) * np.sqrt(sds**2 + sds[first] ** 2)
    raised: Vector = np.maximum(means, means[first] - gap)
    return raised
