"""What the checks of an objective share: findings, the point they are made at, and the run they are made for."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from zofedht.common.errors import Cause
from zofedht.common.objective.base import Objective
from zofedht.common.objective.scaling import units_of
from zofedht.common.objective.units import Units
from zofedht.common.random.streams import stream
from zofedht.common.typing import Indices, Matrix, Vector

__all__ = ["Case", "Finding", "PlannedRun", "clock_text"]


@dataclass(frozen=True)
class Finding:
    """The result of one check.

    Attributes
    ----------
    name : str
        The check: size, units, initial, value, arguments, repeats, whole, pair, values, concurrency,
        parameters, radius or time.
    level : str
        "ok", "warning" (the objective can run, but badly) or "error" (it cannot run).
    text : str
    traceback : str
        That of the user's own code, where the check raised.
    number : float
        What it is about, where that is a number: the spread of equal questions, the length within which F is flat.
    places : tuple of int
        The parameters that it is about.
    cause : str or None
        Why an evaluation failed.
    """

    name: str
    level: str
    text: str
    traceback: str = ""
    number: float = math.nan
    places: tuple[int, ...] = ()
    cause: Cause | None = None


@dataclass(frozen=True)
class PlannedRun:
    """The run that an objective is for.

    Attributes
    ----------
    steps, slots : int
        Local steps of a slot, and slots of a round.
    points : int
        The points at which a slot of a search evaluates F, in place of local steps; 0 for algorithms that take steps.
    rounds : int
        0 where the number of rounds is unknown.
    at_most : bool
        Whether the run may take fewer rounds, of more slots.
    round_timeout : float
        In seconds.
    """

    steps: int = 50
    rounds: int = 0
    slots: int = 1
    round_timeout: float = float("inf")
    points: int = 0
    at_most: bool = False


@dataclass(frozen=True)
class Case:
    """An objective in search units with a point x, a direction v, a radius and the samples of one evaluation."""

    objective: Objective
    x: Vector
    v: Vector
    radius: float
    batch: Indices | slice
    seed: int

    @classmethod
    def at(cls, objective: Objective, x: Vector, radius: float, batch_size: int, seed: int) -> Case:
        """Return the case of an objective in search units at x; the seed decides v and the samples."""
        rng, samples = stream(seed, "check"), len(objective)
        batch = slice(None) if samples == 1 else rng.integers(0, samples, size=batch_size or samples, dtype=np.intp)
        units = units_of(objective)
        v = rng.standard_normal(objective.dim)
        return cls(objective, x if units is None else units.project(x), v, radius, batch, seed)

    @property
    def units(self) -> Units | None:
        """Scale and bounds of the objective, or None."""
        return units_of(self.objective)

    @property
    def user(self) -> Objective:
        """The objective as the user wrote it."""
        inner: Objective = self.objective if self.units is None else self.objective.inner  # type: ignore[attr-defined]
        return inner

    def value(self, x: Vector) -> Any:
        """Return what value() returns for a copy of x and of the samples."""
        return self.objective.value(x.copy(), self.fresh_batch())

    def fresh_batch(self) -> Indices | slice:
        """Return a copy of the samples."""
        return self.batch if isinstance(self.batch, slice) else self.batch.copy()

    def user_point(self, z: Vector | Matrix) -> Any:
        """Return z, or the points in its rows, in the user's units."""
        return z if self.units is None else self.units.to_user(z)

    def inside(self, length: float) -> Vector:
        """Return the nearest point to x from which probes of this length stay within the bounds."""
        units = self.units
        return self.x if units is None else units.to_search(units.ends(self.x, self.v, length, -length)[0])

    def user_probe(self) -> tuple[Vector, Vector]:
        """Return the middle and the direction of the probe in the user's units."""
        if self.units is None:
            return self.x.copy(), self.v.copy()
        return self.units.ends(self.x, self.v, self.radius, -self.radius)


def clock_text(seconds: float) -> str:
    """Return a time with two digits, in seconds, minutes, hours or days."""
    for size, unit in ((86400.0, "days"), (3600.0, "h"), (60.0, "min")):
        if seconds >= 2.0 * size:
            return f"{np.format_float_positional(float(f'{seconds / size:.2g}'), trim='-')} {unit}"
    return f"{seconds:.2g} s" if seconds < 100.0 else f"{seconds:.0f} s"
