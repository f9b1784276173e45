"""An objective of named parameters as an objective of a vector of coordinates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from zofedht.common.errors import ObjectiveError
from zofedht.common.objective.base import Objective, checked_loss
from zofedht.common.objective.scaling import in_user_units
from zofedht.common.space.kinds import Settings
from zofedht.common.space.space import MOST_SPACE_TEXT, Space
from zofedht.common.typing import Indices, Matrix, Vector

__all__ = ["of_coordinates", "space_of", "start_of"]


def of_coordinates(objective: Objective) -> Objective:
    """Return the objective as a function of coordinates: itself, unless it declares ``parameters``.

    Raises ObjectiveError when they are malformed, or stand beside ``bounds``, ``scale`` or ``names``.
    """
    if objective.parameters is None or isinstance(objective, _Named):
        return objective
    space = Space.of(objective.parameters)
    for name in ("bounds", "scale", "names"):
        if getattr(objective, name) is not None:
            raise ObjectiveError(f"{name} and parameters exclude each other: parameters say it themselves")
    together = type(objective).values is not Objective.values
    return (_Together if together else _Named)(objective, space)


def space_of(objective: Objective) -> Space | None:
    """Return the space of an objective's parameters, None where they have no names, or more than are told."""
    plain = in_user_units(objective)
    if isinstance(plain, _Named):
        return plain.space
    space = Space.of_names(plain.names) if plain.names else None
    return space if space is None or len(space.text) <= MOST_SPACE_TEXT else None


def start_of(space: Space, x0: Any) -> Any:
    """Return a start as coordinates: settings by name, with the middle where there is none; else what it is."""
    middle: Settings = space.middle
    return space.coordinates(x0 or {}, middle) if x0 is None or isinstance(x0, Mapping) else x0


class _Named(Objective):
    """F at coordinates is the user's F at the settings."""

    def __init__(self, inner: Objective, space: Space) -> None:
        self.inner, self.space = inner, space
        self.parameters = dict(space.parameters)
        self.dim = space.dim
        self.bounds = space.box.tolist()
        self.names = space.labels
        self.concurrency = inner.concurrency

    def __len__(self) -> int:
        return len(self.inner)

    def value(self, x: Vector, batch: Indices | slice) -> float:
        inner: Any = self.inner
        return inner.value(self.space.settings(x), batch)  # type: ignore[no-any-return]

    def prepare(self, x: Vector) -> None:
        self.inner.prepare(self.space.settings(x))  # type: ignore[arg-type]

    def initial(self, rng: np.random.Generator) -> Vector:
        start: Vector = start_of(self.space, self.inner.initial(rng))
        return start

    def evaluate(self, x: Vector) -> dict[str, float]:
        return self.inner.evaluate(self.space.settings(x))  # type: ignore[arg-type]


class _Together(_Named):
    """The user's objective has ``values`` of its own, which gets a list of settings."""

    def values(self, ws: Matrix, batch: Indices | slice) -> Vector:
        found = self.inner.values([self.space.settings(w) for w in ws], batch)  # type: ignore[arg-type]
        return np.array([checked_loss(value) for value in found], dtype=np.float64)
