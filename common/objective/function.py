"""A plain function as an objective."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from zofedht.common.errors import ObjectiveError
from zofedht.common.objective.base import Bounds, Objective
from zofedht.common.typing import Indices, Vector

__all__ = ["FunctionObjective"]


class FunctionObjective(Objective):
    """f(x), or f(x, batch) where the number of samples is known, with the starting point x0, (n,)."""

    def __init__(
        self,
        function: Callable[..., float],
        x0: Any,
        samples: int | None = None,
        bounds: Bounds | None = None,
        scale: Any = None,
    ) -> None:
        """``samples``: how many samples f(x, batch) chooses from; None for f(x).

        Raises ObjectiveError when x0 is not a vector of finite numbers, or f takes other arguments.
        """
        try:
            start = np.array(x0, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise ObjectiveError(f"x0 must hold numbers, got {x0!r}") from error
        if start.ndim != 1 or not start.size or not np.all(np.isfinite(start)):
            raise ObjectiveError(f"x0 must be a vector of finite numbers, got {x0!r}")
        _check_arguments(function, samples)
        self.dim = start.shape[0]
        self.bounds = bounds
        self.scale = scale
        self._function = function
        self._start = start
        self._samples = samples

    def __len__(self) -> int:
        return 1 if self._samples is None else self._samples

    def value(self, x: Vector, batch: Indices | slice) -> float:
        # The function may do with x what it likes.
        return self._function(x.copy()) if self._samples is None else self._function(x.copy(), batch)

    def initial(self, rng: np.random.Generator) -> Vector:
        return self._start


def _check_arguments(function: Callable[..., float], samples: int | None) -> None:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return  # some functions written in C do not tell
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
