"""The front door: an objective is anything that can be evaluated.

Subclass ``Objective``, write ``value`` and ``dim`` (and ``__len__`` where there are samples), and name a factory for it
in the run config: ``objective = "module:factory"``. No gradient of it is ever asked for.
"""

from __future__ import annotations

import contextvars
import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from zofedht.common.errors import ObjectiveError
from zofedht.common.typing import Indices, Matrix, Vector

__all__ = ["Bounds", "ExactObjective", "Objective", "Shard", "checked_loss", "checked_vector"]

Bounds = Sequence[float | None] | Sequence[Sequence[float | None]]


class Objective(ABC):
    """F(x; batch): the mean loss of the parameters x on some samples of one client's shard.

    Attributes
    ----------
    dim : int
        n, the number of parameters.
    bounds : (lower, upper), or n such pairs, or None
        The lowest and the highest value of each parameter; None where there is no bound.
    scale : float, (n,) or None
        How large a change of each parameter matters. x is searched in these units, and ``radius`` and ``step-size``
        are in them. By default the distance of two bounds, else 1.
    names : n texts, or None
        What the parameters are called, in the files and errors of a ``Fleet``.
    parameters : mapping of names to Real, Integer or Choice, or None
        Named parameters in place of ``dim``, ``bounds``, ``scale`` and ``names``. ``value`` and ``evaluate`` then get a
        dict of their values for x, ``values`` a list of dicts, and ``initial`` may return a dict.
    concurrency : int
        How many evaluations may run at once, in threads. By default 1.

    Examples
    --------
    >>> class Distance(Objective):
    ...     dim = 2
    ...     def value(self, x, batch):
    ...         return float(np.sum((x - 3.0) ** 2))
    >>> Distance().pair(np.zeros(2), np.ones(2), 1.0, slice(None))
    (8.0, 32.0)
    """

    dim: int
    bounds: Bounds | None = None
    scale: Sequence[float] | Vector | float | None = None
    names: Sequence[str] | None = None
    parameters: Mapping[str, Any] | None = None
    concurrency: int = 1

    def __len__(self) -> int:
        """Return the number of samples of this shard: 1 where F has no samples."""
        return 1

    @abstractmethod
    def value(self, x: Vector, batch: Indices | slice) -> float:
        """Return the mean loss of x on the samples of ``batch``.

        The same x and batch must give the same loss, and x must not be changed.

        Parameters
        ----------
        x : (n,) float64
        batch : (b,) integers or slice
            Numbers of samples of this shard, or the slice of all samples.

        Returns
        -------
        float
            A float64 number: float32 is refused.
        """

    def pair(self, w: Vector, v: Vector, radius: float, batch: Indices | slice) -> tuple[float, float]:
        """Return F(w + radius v) and F(w - radius v); override it where both together are cheaper."""
        # Both ends are new arrays: to change w in place and back would leave rounding behind.
        high, low = self._at_once([w + radius * v, w - radius * v], batch)
        return high, low

    def ends(self, w: Vector, v: Vector, upper: float, lower: float, batch: Indices | slice) -> tuple[float, float]:
        """Return F(w + upper v) and F(w + lower v), by ``pair`` where lower is -upper."""
        if lower == -upper:
            return self.pair(w, v, upper, batch)
        high, low = self._at_once([w + upper * v, w + lower * v], batch)
        return high, low

    def base_and_ends(
        self, w: Vector, directions: Matrix, radius: float, batch: Indices | slice
    ) -> tuple[float, Vector]:
        """Return F(w), and F(w + radius v) for each row v of ``directions``, (q,)."""
        base, *ends = self.values(np.vstack([w, w + radius * directions]), batch)
        return base, np.array(ends)

    def values(self, ws: Matrix, batch: Indices | slice) -> Vector:
        """Return F at each row of ``ws``, (rows,) float64; override it where many points together are cheaper."""
        return np.array([checked_loss(value) for value in self._at_once(list(ws), batch)], dtype=np.float64)

    def differences(self, w: Vector, v: Vector, upper: float, lower: float, batch: Indices | slice) -> Vector | None:
        """Return F(w + upper v) - F(w + lower v) of each sample of the batch, (b,); None where F has no such values.

        ``privacy = local`` then bounds what one sample changes; else it bounds what all of them change together.
        F must be the mean of these values, but for a part that depends on no sample. A sample that cannot be evaluated
        has NaN: an exception would let one sample decide about the others.
        """
        return None

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

    def prepare(self, x: Vector) -> None:  # noqa: B027 - most objectives have nothing to make ready
        """Make ready for the local steps of a slot that begins at x: called once before them, (n,).

        An inner problem may be solved here, whose solution the evaluations of the slot start from. What is kept must
        follow from x alone: then a resumed run, and any engine, gives the same numbers. It is not charged, and neither
        full evaluations nor algorithms that ask for values at points call it. What it raises fails the slot.
        """

    def stiff(self, x: Vector) -> Matrix | None:
        """Return directions along which F bends far more than along others, (k, n), or None where none are known.

        ``zofed-shrink`` probes less along them, since most of the noise of slopes comes from there. Their lengths do
        not matter. They are sent to the server as they are.
        """
        return None

    def value_and_gradient(self, x: Vector, batch: Indices | slice) -> tuple[float, Vector]:
        """Return F and its gradient at x, (n,), for the first-order yardstick; every other algorithm takes slopes.

        Raises ObjectiveError: only built-in models have one.
        """
        text = "this objective has no gradient; another algorithm than fedavg takes slopes of any function"
        raise ObjectiveError.public(text, cause="unusable")

    def zeros(self) -> Vector:
        """Return the origin, (n,)."""
        return np.zeros(self.dim)

    def evaluate(self, x: Vector) -> dict[str, float]:
        """Return the metrics of x on the whole shard by name; ``loss`` must be among them."""
        return {"loss": checked_loss(self.value(x, slice(None)))}


@functools.cache
def _threads(count: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(count, thread_name_prefix="evaluation")


class ExactObjective(Objective):
    """An objective that gives differences without cancellation."""

    @abstractmethod
    def difference(
        self, w: Vector, v: Vector, upper: float, lower: float, batch: Indices | slice
    ) -> tuple[float, float]:
        """Return F(w + upper v) - F(w + lower v), and F(w + lower v)."""

    def penalty(self, w: Vector, v: Vector, upper: float, lower: float) -> float:
        """Return the part of ``difference`` that depends on no sample, which ``differences`` lacks."""
        return 0.0

    def evaluate(self, x: Vector) -> dict[str, float]:
        return {"loss": self.value(x, slice(None))}


@dataclass(frozen=True)
class Shard:
    """What a factory is told about the client whose objective it makes.

    Attributes
    ----------
    client : str
        The client's name; in simulations its shard's number as text.
    index, count : int
        The number of the shard, from 0, and the number of shards.
    data : str
        The file given with ``--data``, or empty.
    seed : int
        The seed of the run.
    """

    client: str = "0"
    index: int = 0
    count: int = 1
    data: str = ""
    seed: int = 0


def checked_loss(value: Any) -> float:
    """Return a loss as a float.

    Raises ObjectiveError unless the loss is a finite float64 number. float32 is refused: at radius 1e-4 the difference
    of two float32 losses has an error of some 0.4%.
    """
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    if isinstance(value, float | int | np.integer | np.longdouble) and not isinstance(value, bool):  # and np.float64
        number = float(value)
        if math.isfinite(number):
            return number
        raise ObjectiveError.public(
            f"the objective returned {number}, not a finite number; where local steps led there, a smaller radius or"
            " step-size usually cures this",
            cause="not-finite",
        )
    kind = f"an array of shape {value.shape}" if isinstance(value, np.ndarray) else type(value).__name__
    way_out = "compute the mean in float64 and return float(mean)"
    raise ObjectiveError.public(
        f"the objective must return one float64 number, got {kind} ({way_out})", cause="not-a-loss"
    )


def checked_vector(name: str, value: Any, dimension: int | None = None, *, finite: bool = True) -> Vector:
    """Return ``value`` as a new float64 vector of ``dimension`` numbers.

    Raises ObjectiveError for another shape, for anything but numbers, and for NaN or inf unless ``finite`` is False.
    """
    size = "" if dimension is None else f"{dimension} "
    rule = f"{name} must be a vector of {size}{'finite ' if finite else ''}numbers"
    try:
        vector = np.array(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ObjectiveError(f"{rule}, got {value!r}") from error
    if vector.ndim != 1 or not vector.size or dimension not in (None, vector.size):
        raise ObjectiveError(f"{rule}, got an array of shape {vector.shape}")
    for index in np.flatnonzero(~np.isfinite(vector)) if finite else ():
        raise ObjectiveError(f"{rule}, got {vector[index]} for parameter {index}")
    return vector
