"""A plain function as an objective."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from zofedht.common.errors import ConfigError, ObjectiveError
from zofedht.common.objective.base import Bounds, Objective, checked_vector
from zofedht.common.typing import Indices, Vector

__all__ = ["FunctionObjective", "as_objective"]


class FunctionObjective(Objective):
    """A function f(x), or f(x, batch), with a starting point."""

    def __init__(
        self,
        function: Callable[..., float],
        x0: Any,
        samples: int | None = None,
        bounds: Bounds | None = None,
        scale: Any = None,
    ) -> None:
        """Wrap a function.

        Parameters
        ----------
        function : callable
            f(x) or f(x, batch) -> float.
        x0 : (n,)
            The starting point.
        samples : int, optional
            The number of samples of f(x, batch); None for f(x).
        bounds, scale : optional
            As those of Objective.

        Raises
        ------
        ObjectiveError
            When x0 is no vector of finite numbers, or the function takes other arguments.
        """
        start = checked_vector("x0", x0)
        _check_arguments(function, samples)
        self.dim = start.size
        self.bounds = bounds
        self.scale = scale
        self._function = function
        self._start = start
        self._samples = samples

    def __len__(self) -> int:
        return 1 if self._samples is None else self._samples

    def value(self, x: Vector, batch: Indices | slice) -> float:
        # The function may change its x.
        return self._function(x.copy()) if self._samples is None else self._function(x.copy(), batch)

    def initial(self, rng: np.random.Generator) -> Vector:
        return self._start


def as_objective(
    target: Any, x0: Any, samples: int | None, bounds: Bounds | None, scale: Any, name: str = "objective"
) -> Any:
    """Return a function as an Objective, and anything else as it is.

    Raises ConfigError when a function has no x0, or another target samples, bounds or a scale; ObjectiveError as
    FunctionObjective does.
    """
    if isinstance(target, Objective) or not callable(target):
        if samples is not None or bounds is not None or scale is not None:
            raise ConfigError(["samples, bounds and scale are for functions; an Objective says them itself"])
        return target
    if x0 is None:
        raise ConfigError([f"{name} is a function, so x0, the point to start from, must be given"])
    return FunctionObjective(target, x0, samples, bounds, scale)


def _check_arguments(function: Callable[..., float], samples: int | None) -> None:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return  # some functions written in C have no signature
    given = ("x",) if samples is None else ("x", "batch")
    try:
        signature.bind(*given)
    except TypeError as error:
        way_out = (
            "; a function f(x, batch) needs samples=N, the number of samples that batch chooses from"
            if samples is None
            else "; leave out samples for a function f(x)"
        )
        wanted = ", ".join(given)
        raise ObjectiveError(f"the function must take ({wanted}), but it takes {signature}{way_out}") from error
