"""The front door: an objective is anything that can be evaluated.

Subclass ``Objective``, write ``value`` and ``dim`` (and ``__len__`` where there are samples), and name a factory for it
in the run config: ``objective = "module:factory"``. Nothing else is asked; gradients are never used.
"""

from __future__ import annotations

import contextvars
import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from zofedht.common.errors import ObjectiveError
from zofedht.common.typing import Indices, Matrix, Vector

__all__ = ["Bounds", "ExactObjective", "Objective", "Shard", "checked_loss"]

Bounds = Sequence[float | None] | Sequence[Sequence[float | None]]


class Objective(ABC):
    """F(x; batch): the mean loss of the parameters x on some samples of one client's shard."""

    dim: int
    """n, the number of parameters."""

    bounds: Bounds | None = None
    """Lowest and highest value: one pair for all parameters or n pairs, None where there is no bound."""

    scale: Sequence[float] | Vector | float | None = None
    """How large a change of each parameter matters, (n,) or one for all. x is searched in these units: ``radius`` and
    ``step-size`` are in them. Unless given, the distance of the bounds where there are two, else 1."""

    concurrency: int = 1
    """How many evaluations may run at once, in threads."""

    def __len__(self) -> int:
        """Return the number of samples in this shard; 1 where F has no samples, and every evaluation is a whole one."""
        return 1

    @abstractmethod
    def value(self, x: Vector, batch: Indices | slice) -> float:
        """Return the mean loss of x, (n,) float64, on the samples of ``batch`` as a float64 number.

        ``batch`` indexes this shard: an integer array, or the slice of all samples. The same x and batch
        must give the same answer, and x must not be changed.
        """

    def pair(self, w: Vector, v: Vector, radius: float, batch: Indices | slice) -> tuple[float, float]:
        """Return F(w + radius v) and F(w - radius v); write it if both together are cheaper."""
        # Both ends are new arrays: perturbing w in place and restoring it would leave rounding behind.
        high, low = self._at_once([w + radius * v, w - radius * v], batch)
        return high, low

    def ends(self, w: Vector, v: Vector, upper: float, lower: float, batch: Indices | slice) -> tuple[float, float]:
        """Return F(w + upper v) and F(w + lower v): ``pair`` where they lie on both sides alike."""
        if lower == -upper:
            return self.pair(w, v, upper, batch)
        high, low = self._at_once([w + upper * v, w + lower * v], batch)
        return high, low

    def values(self, ws: Matrix, batch: Indices | slice) -> Vector:
        """Return F at each row of ``ws``, (rows,); write it if many together are cheaper."""
        return np.array([checked_loss(value) for value in self._at_once(list(ws), batch)], dtype=np.float64)

    def _at_once(self, points: Sequence[Vector], batch: Indices | slice) -> list[float]:
        if self.concurrency == 1:
            return [self.value(point, batch) for point in points]
        # A thread has its own settings for overflow and the like unless it is given ours.
        contexts = [contextvars.copy_context() for _ in points]
        jobs = zip(contexts, points, strict=True)
        return list(_threads(self.concurrency).map(lambda job: job[0].run(self.value, job[1], batch), jobs))

    def initial(self, rng: np.random.Generator) -> Vector | None:
        """Return a starting point, (n,), or None for zeros."""
        return None

    def zeros(self) -> Vector:
        """Return the origin, (n,)."""
        return np.zeros(self.dim)

    def evaluate(self, x: Vector) -> dict[str, float]:
        """Return named figures on the whole shard; ``loss`` must be among them."""
        return {"loss": checked_loss(self.value(x, slice(None)))}


@functools.cache
def _threads(count: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(count, thread_name_prefix="evaluation")


class ExactObjective(Objective):
    """An objective whose differences are known without cancellation."""

    @abstractmethod
    def difference(
        self, w: Vector, v: Vector, upper: float, lower: float, batch: Indices | slice
    ) -> tuple[float, float]:
        """Return F(w + upper v) - F(w + lower v), and F(w + lower v)."""

    def evaluate(self, x: Vector) -> dict[str, float]:
        return {"loss": self.value(x, slice(None))}


@dataclass(frozen=True)
class Shard:
    """What a factory is told about the client it makes an objective for."""

    client: str = "0"
    """The client's name; in simulations the partition number as text."""

    index: int = 0
    """Partition number, from 0."""

    count: int = 1
    """Number of partitions."""

    data: str = ""
    """The file given with ``--data``, or empty."""

    seed: int = 0
    """The run's seed."""


def checked_loss(value: Any) -> float:
    """Return a loss as a float, or raise ObjectiveError saying what it is instead.

    float32 is refused: at radius 1e-4 the difference of two float32 losses has some 0.4% error.
    """
    if isinstance(value, float | int) and not isinstance(value, bool):  # np.float64 is a float
        number = float(value)
        if math.isfinite(number):
            return number
        text = (
            f"the objective returned {number}, not a finite number; away from the starting point a smaller radius or"
            " step-size usually cures this"
        )
        raise ObjectiveError(text, told=text)
    kind = f"an array of shape {value.shape}" if isinstance(value, np.ndarray) else type(value).__name__
    way_out = "compute the mean in float64 and return float(mean)"
    text = f"the objective must return one float64 number, got {kind} ({way_out})"
    raise ObjectiveError(text, told=text)
