"""An objective whose parameters are scaled or bounded, as a function of z in search units: see ``units``."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from zofedht.common.errors import ObjectiveError
from zofedht.common.objective.base import Objective, checked_vector
from zofedht.common.objective.function import FunctionObjective
from zofedht.common.objective.units import Units, checked_bounds, one_each, place_of
from zofedht.common.typing import Indices, Matrix, Vector

__all__ = ["in_search_units", "in_user_units", "units_of"]


def units_of(objective: Objective) -> Units | None:
    """Return the units of an objective that declares ``scale`` or ``bounds``, else None.

    Without a ``scale``, a parameter with two bounds is scaled by their distance and any other by 1. Raises
    ObjectiveError when scale or bounds are malformed.
    """
    if isinstance(objective, _Searched):
        return objective.units
    scale, bounds = objective.scale, objective.bounds
    if scale is None and bounds is None:
        return None
    lower, upper = checked_bounds(bounds, objective.dim)
    if scale is None:
        units = Units(np.ones(objective.dim), lower, upper)
        width = upper - lower
        return replace(units, scale=np.where(np.isfinite(width) & (width > 0.0), width, 1.0))
    return Units(one_each("scale", scale, objective.dim), lower, upper)


def in_search_units(objective: Objective) -> Objective:
    """Return the objective as a function of z: itself, unless it declares a scale or bounds.

    Raises ObjectiveError when scale or bounds are malformed.
    """
    units = units_of(objective)
    return objective if units is None or isinstance(objective, _Searched) else _Searched(objective, units)


def in_user_units(objective: Objective) -> Objective:
    """Return the objective as its user wrote it: what ``in_search_units`` was given."""
    return objective.inner if isinstance(objective, _Searched) else objective


class _Searched(Objective):
    """Another objective as a function of z."""

    def __init__(self, inner: Objective, units: Units) -> None:
        self.inner = inner
        self.units = units
        self.dim = inner.dim
        self.names = inner.names
        self.concurrency = inner.concurrency

    def __len__(self) -> int:
        return len(self.inner)

    def value(self, x: Vector, batch: Indices | slice) -> float:
        return self.inner.value(self.units.to_user(x), batch)

    def pair(self, w: Vector, v: Vector, radius: float, batch: Indices | slice) -> tuple[float, float]:
        return self.ends(w, v, radius, -radius, batch)

    def ends(self, w: Vector, v: Vector, upper: float, lower: float, batch: Indices | slice) -> tuple[float, float]:
        middle, along = self.units.ends(w, v, upper, lower)
        return self.inner.ends(middle, along, upper, lower, batch)

    def base_and_ends(
        self, w: Vector, directions: Matrix, radius: float, batch: Indices | slice
    ) -> tuple[float, Vector]:
        middle, along = self.units.ends(w, directions, radius, 0.0)
        return self.inner.base_and_ends(middle, along, radius, batch)

    def differences(self, w: Vector, v: Vector, upper: float, lower: float, batch: Indices | slice) -> Vector | None:
        middle, along = self.units.ends(w, v, upper, lower)
        return self.inner.differences(middle, along, upper, lower, batch)

    def values(self, ws: Matrix, batch: Indices | slice) -> Vector:
        return self.inner.values(self.units.to_user(ws), batch)

    def initial(self, rng: np.random.Generator) -> Vector | None:
        own = self.inner.initial(rng)
        if own is None:
            return None
        x = checked_vector("initial()", own, self.dim)
        called = "x0" if isinstance(self.inner, FunctionObjective) else "initial()"
        for index in np.flatnonzero((x < self.units.lower) | (x > self.units.upper)):
            raise ObjectiveError(
                f"{called} must lie within the bounds, got {x[index]} for {place_of(int(index), self.names)} with the"
                f" bounds ({self.units.lower[index]}, {self.units.upper[index]})"
            )
        return self.units.to_search(x)

    def prepare(self, x: Vector) -> None:
        self.inner.prepare(self.units.to_user(x))

    def stiff(self, x: Vector) -> Matrix | None:
        found = self.inner.stiff(self.units.to_user(x))
        return None if found is None else np.atleast_2d(found) * self.units.scale  # as a slope: along scale d

    def evaluate(self, x: Vector) -> dict[str, float]:
        return self.inner.evaluate(self.units.to_user(x))
