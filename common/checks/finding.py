"""What the checks of an objective share: findings, the point that all of them try, and the run they judge it for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from zofedht.common.objective.base import Objective
from zofedht.common.objective.scaling import units_of
from zofedht.common.random.streams import stream
from zofedht.common.typing import Indices, Matrix, Vector

__all__ = ["Finding", "Trial", "WorkPlan", "clock_text"]


@dataclass(frozen=True)
class Finding:
    """One thing that was tried. level: ok, warning (it runs, but badly) or error (it cannot run)."""

    name: str
    level: str
    text: str
    traceback: str = ""  # of the user's own code, several lines


@dataclass(frozen=True)
class WorkPlan:
    """The run that an objective is for. rounds: 0 where nobody knows."""

    steps: int = 50
    rounds: int = 0
    slots: int = 1
    round_timeout: float = float("inf")


@dataclass(frozen=True)
class Trial:
    """An objective as it is searched, the point x, a direction v and the samples to try it with."""

    objective: Objective
    x: Vector
    v: Vector
    radius: float
    batch: Indices | slice
    seed: int

    @classmethod
    def at(cls, objective: Objective, x: Vector, radius: float, batch_size: int, seed: int) -> Trial:
        """Return a trial at x of an objective as it is searched; the direction and the samples are always the same."""
        rng, samples = stream(seed, "check"), len(objective)
        batch = slice(None) if samples == 1 else rng.integers(0, samples, size=batch_size or samples, dtype=np.intp)
        units = units_of(objective)
        v = rng.standard_normal(objective.dim)
        return cls(objective, x if units is None else units.project(x), v, radius, batch, seed)

    @property
    def user(self) -> Objective:
        """The objective as the user wrote it."""
        inner: Objective = getattr(self.objective, "inner", self.objective) if self._scaled else self.objective
        return inner

    @property
    def _scaled(self) -> bool:
        return units_of(self.objective) is not None

    def value(self, x: Vector) -> Any:
        """Return what value() gives at x, on a batch of its own."""
        return self.objective.value(x.copy(), self.fresh_batch())

    def fresh_batch(self) -> Indices | slice:
        """Return the samples as an array that may be changed without harm."""
        return self.batch if isinstance(self.batch, slice) else self.batch.copy()

    def user_point(self, z: Vector | Matrix) -> Any:
        """Return z, or the points in its rows, in the user's units."""
        units = units_of(self.objective)
        return z if units is None else units.to_user(z)

    def inside(self, length: float) -> Vector:
        """Return the point nearest to x from which probes of this length stay within the bounds."""
        units = units_of(self.objective)
        return self.x if units is None else units.to_search(units.ends(self.x, self.v, length, -length)[0])

    def user_probe(self) -> tuple[Vector, Vector]:
        """Return the middle and the direction of the probe in the user's units."""
        units = units_of(self.objective)
        if units is None:
            return self.x.copy(), self.v.copy()
        return units.ends(self.x, self.v, self.radius, -self.radius)


def clock_text(seconds: float) -> str:
    """Return a time as people say it: two digits, in seconds, minutes, hours or days."""
    for size, unit in ((86400.0, "days"), (3600.0, "h"), (60.0, "min")):
        if seconds >= 2.0 * size:
            return f"{np.format_float_positional(float(f'{seconds / size:.2g}'), trim='-')} {unit}"
    return f"{seconds:.2g} s" if seconds < 100.0 else f"{seconds:.0f} s"
