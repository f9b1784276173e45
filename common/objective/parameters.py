"""The declarations of an objective about its parameters: start, names, scale and bounds, in its own units."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from zofedht.common.objective.base import Objective
from zofedht.common.objective.loading import starting_point
from zofedht.common.objective.named import space_of
from zofedht.common.objective.names import checked_names
from zofedht.common.objective.scaling import in_search_units, in_user_units, units_of
from zofedht.common.objective.units import Units
from zofedht.common.space.space import Space
from zofedht.common.typing import Vector

__all__ = ["Parameters", "parameters_of"]


@dataclass(frozen=True)
class Parameters:
    """start: (n,). names: n or empty. units: None without scale and bounds. space: that of named parameters."""

    start: Vector
    names: tuple[str, ...] = ()
    units: Units | None = None
    space: Space | None = None

    @property
    def dim(self) -> int:
        """n, the number of parameters."""
        return int(self.start.shape[0])

    @property
    def box(self) -> Units:
        """Scale and bounds; by default scale 1 and no bounds."""
        nothing = np.full(self.dim, np.inf)
        return self.units or Units(np.ones(self.dim), -nothing, nothing)

    @property
    def named(self) -> Space:
        """The parameters by name; x0, x1 and so on where none are declared."""
        return self.space or Space.of_names(self.labels)

    @property
    def labels(self) -> tuple[str, ...]:
        """The names, or x0, x1 and so on."""
        return self.names or tuple(f"x{index}" for index in range(self.dim))


def parameters_of(objective: Objective, seed: int = 0) -> Parameters:
    """Return the declarations of an objective, in search units or not.

    The default start is the nearest point to 0 within the bounds. Raises ObjectiveError when a declaration is
    malformed, or the start lies outside of the bounds.
    """
    units = units_of(objective)
    starting_point(in_search_units(objective), seed)  # checks the bounds
    plain = in_user_units(objective)
    own = starting_point(plain, seed)
    start = np.zeros(plain.dim) if own is None else own
    names = checked_names(plain.names, plain.dim)
    start = start if units is None else np.clip(start, units.lower, units.upper)
    return Parameters(start, names, units, space_of(plain) if plain.parameters is not None else None)
