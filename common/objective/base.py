"""The front door: an objective is anything that can be evaluated.

Subclass ``Objective``, write ``value`` and ``dim`` (and ``__len__`` where there are samples), and name a factory for it
in the run config: ``objective = "module:factory"``. Nothing else is asked; gradients are never used.
"""

from __future__ import annotations

import contextvars
import functools
import importlib
import inspect
import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from zofedht.common.blas import one_thread
from zofedht.common.errors import ObjectiveError
from zofedht.common.objective.user_traceback import raised
from zofedht.common.random.streams import stream
from zofedht.common.typing import Indices, Matrix, Vector

__all__ = [
    "ExactObjective",
    "Objective",
    "Shard",
    "checked_loss",
    "checked_objective",
    "full_evaluation",
    "load_objective",
    "raised_by_objective",
    "starting_point",
]

Bounds = Sequence[float | None] | Sequence[Sequence[float | None]]
_MOST_THREADS = 256


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


def starting_point(objective: Objective, seed: int) -> Vector | None:
    """Return the objective's own starting point, (n,) float64, or None if it has none.

    Raises ObjectiveError when initial() raises, or it is of another shape or not finite.
    """
    try:
        own = objective.initial(stream(seed, "initial"))
        if own is None:
            return None
        point = np.array(own, dtype=np.float64)
    except ObjectiveError:
        raise
    except Exception as error:
        raise ObjectiveError(
            f"initial() of the objective {raised(error)}",
            told=f"initial() of the objective {raised(error, with_text=False)}",
        ) from error
    if point.shape != (objective.dim,) or not np.all(np.isfinite(point)):
        raise ObjectiveError(
            f"initial() must return {objective.dim} finite numbers, got an array of shape {point.shape}"
            + ("" if np.all(np.isfinite(point)) else " with NaN or inf in it")
        )
    return point


def full_evaluation(objective: Objective, x: Vector) -> dict[str, float]:
    """Return the figures of x on the whole shard.

    Raises ObjectiveError when the objective raises or gives no ``loss``.
    """
    try:
        with one_thread(), np.errstate(over="ignore", invalid="ignore"):  # a diverged x gives inf or NaN
            figures = {name: float(value) for name, value in objective.evaluate(x).items()}
        if "loss" not in figures:
            raise ObjectiveError(f"evaluate() must return a dict with 'loss' in it, got {', '.join(figures) or 'none'}")
    except ObjectiveError:
        raise
    except Exception as error:
        raise raised_by_objective(error) from error
    return figures


def raised_by_objective(error: BaseException) -> ObjectiveError:
    """Return the ObjectiveError of what an evaluation raised; the exception's own text is not told to a server."""
    return ObjectiveError(f"the objective {raised(error)}", told=f"the objective {raised(error, with_text=False)}")


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


def load_objective(path: str, shard: Shard | None = None) -> Objective:
    """Import ``module:factory`` and make the objective of one shard.

    The factory is called with a ``Shard`` if it takes an argument, else with nothing; a class is a
    factory too. Modules are looked for in the working folder as well.

    Raises ObjectiveError when the text is malformed, the module or the name is missing, the factory
    raises, or what it returns is not an Objective with samples and parameters.
    """
    module_name, colon, name = path.partition(":")
    if not colon or not module_name or not name:
        raise ObjectiveError(f"objective must be written module:factory, got {path!r} (for example valve:make)")
    factory = _find(module_name, name, path)
    shard = shard or Shard()
    try:
        takes_shard = bool(inspect.signature(factory).parameters)
        made = factory(shard) if takes_shard else factory()
    except Exception as error:
        raise ObjectiveError(f"the factory {path} for client {shard.client} {raised(error)}") from error
    return checked_objective(made, path)


def _find(module_name: str, name: str, path: str) -> Callable[..., Any]:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise ObjectiveError(
            f"objective {path!r}: no module named {error.name!r} can be imported (looked in {here} and the installed"
            " packages; run the command in the folder that holds the module, or set PYTHONPATH)"
        ) from error
    except Exception as error:
        raise ObjectiveError(f"importing {module_name} {raised(error)}") from error
    factory = getattr(module, name, None)
    if not callable(factory):
        public = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
        raise ObjectiveError(
            f"objective {path!r}: {module_name} has no callable {name!r}; it has {', '.join(public) or 'none'}"
        )
    found: Callable[..., Any] = factory
    return found


def checked_objective(made: Any, path: str) -> Objective:
    """Return what a factory made. Raises ObjectiveError, naming ``path``, unless it is an Objective of some size."""
    if not isinstance(made, Objective):
        raise ObjectiveError(
            f"the factory {path} must return an Objective (from common.objective), got {type(made).__name__}"
        )
    dimension = getattr(made, "dim", None)
    if isinstance(dimension, bool) or not isinstance(dimension, int | np.integer) or dimension < 1:
        raise ObjectiveError(f"{path}: dim must be a whole number of at least 1, got {dimension!r}")
    try:
        samples = len(made)
    except Exception as error:
        raise ObjectiveError(f"{path}: len() of the objective {raised(error)}") from error
    if samples < 1:
        raise ObjectiveError(f"{path}: the shard must hold at least 1 sample, got {samples}")
    threads = made.concurrency
    if isinstance(threads, bool) or not isinstance(threads, int) or not 1 <= threads <= _MOST_THREADS:
        raise ObjectiveError(f"{path}: concurrency must be a whole number from 1 to {_MOST_THREADS}, got {threads!r}")
    return made
