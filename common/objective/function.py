"""A plain function as an objective."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from zofedht.common.errors import ConfigError, ObjectiveError
from zofedht.common.objective.base import Bounds, Objective, checked_vector
from zofedht.common.space.space import Space
from zofedht.common.typing import Indices

__all__ = ["FunctionObjective", "as_objective", "refuse_class"]


class FunctionObjective(Objective):
    """A function f(x), f(x, batch), or one that gets named parameters by keyword; with a starting point.

    Examples
    --------
    >>> from zofedht import Integer, Real
    >>> pump = FunctionObjective(
    ...     lambda valve, teeth: (valve - 0.3) ** 2 + abs(teeth - 12),
    ...     parameters={"valve": Real(0, 1), "teeth": Integer(8, 40)},
    ... )
    >>> pump.value({"valve": 0.3, "teeth": 14}, slice(None))
    2.0
    """

    def __init__(
        self,
        function: Callable[..., float],
        x0: Any = None,
        samples: int | None = None,
        bounds: Bounds | None = None,
        scale: Any = None,
        *,
        parameters: Mapping[str, Any] | None = None,
        args: Sequence[Any] = (),
    ) -> None:
        """Wrap a function.

        Parameters
        ----------
        function : callable
            f(x, *args) or f(x, batch, *args) -> float; with ``parameters`` f(*args, valve=..., pause=...), with samples
            f(*args, valve=..., pause=..., batch=...).
        x0 : (n,) or mapping
            The starting point; of ``parameters`` their values by name, the middle where there is none.
        samples : int, optional
            The number of samples of f(x, batch); None for f(x).
        bounds, scale, parameters : optional
            As those of Objective.
        args : sequence
            More arguments of the function.

        Raises
        ------
        ObjectiveError
            When x0 is no vector of finite numbers, or the function takes other arguments.
        """
        self._function, self._samples, self._args = function, samples, _checked_args(args)
        self._start: Any = None
        self.parameters = parameters
        self.bounds, self.scale = bounds, scale
        self._by_name = parameters is not None
        if parameters is not None:
            names = Space.of(parameters).names
            if samples is not None and "batch" in names:
                raise ObjectiveError("no parameter may be called 'batch', as the samples of the function are")
            _check_keywords(function, names if samples is None else (*names, "batch"), self._args)
            self._start = x0
            return
        if isinstance(x0, Mapping):
            raise ObjectiveError(
                f"x0 must be a vector of finite numbers, got {x0!r}; values by name need parameters={{name: Real(lower,"
                " upper), ...}"
            )
        start = checked_vector("x0", x0)
        _check_arguments(function, samples, self._args)
        self.dim = start.size
        self._start = start

    def __len__(self) -> int:
        return 1 if self._samples is None else self._samples

    def value(self, x: Any, batch: Indices | slice) -> float:
        if self._by_name:
            more = {} if self._samples is None else {"batch": batch}
            return self._function(*self._args, **x, **more)
        # The function may change its x.
        first = (x.copy(),) if self._samples is None else (x.copy(), batch)
        return self._function(*first, *self._args)

    def initial(self, rng: np.random.Generator) -> Any:
        return self._start


def as_objective(
    target: Any,
    x0: Any,
    samples: int | None,
    bounds: Bounds | None,
    scale: Any,
    name: str = "objective",
    *,
    parameters: Mapping[str, Any] | None = None,
    args: Sequence[Any] = (),
) -> Any:
    """Return a function as an Objective, and anything else as it is.

    Raises ConfigError when a function has no x0 and no parameters, or another target samples, bounds, a scale,
    parameters or args; ObjectiveError as FunctionObjective does.
    """
    if isinstance(target, Objective) or not callable(target):
        if any(given is not None for given in (samples, bounds, scale, parameters)) or args != ():
            raise ConfigError(
                ["samples, bounds, scale, parameters and args are for functions; an Objective says them itself"]
            )
        return target
    refuse_class(target, name)
    if x0 is None and parameters is None:
        raise ConfigError(
            [f"{name} is a function, so x0, the point to start from, must be given, or parameters with their ranges"]
        )
    return FunctionObjective(target, x0, samples, bounds, scale, parameters=parameters, args=args)


def refuse_class(target: Any, name: str) -> None:
    """Raise ObjectiveError for a class in the place of an Objective."""
    if isinstance(target, type) and issubclass(target, Objective):
        raise ObjectiveError(
            f"{name} must be an Objective and not its class, got {target.__name__}; give {target.__name__}(...)"
        )


def _checked_args(args: Any) -> tuple[Any, ...]:
    if isinstance(args, str | bytes) or not isinstance(args, Sequence):
        raise ObjectiveError(f"args must be a tuple of further arguments of the function, got {args!r}")
    return tuple(args)


def _check_arguments(function: Callable[..., float], samples: int | None, args: tuple[Any, ...]) -> None:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return  # some functions written in C have no signature
    given = ("x",) if samples is None else ("x", "batch")
    try:
        signature.bind(*given, *args)
    except TypeError as error:
        way_out = (
            "; a function f(x, batch) needs samples=N, the number of samples that batch chooses from, and one of named"
            " parameters needs parameters={name: Real(lower, upper), ...}"
            if samples is None
            else "; leave out samples for a function f(x)"
        )
        wanted = ", ".join([*given, *(f"args[{place}]" for place in range(len(args)))])
        raise ObjectiveError(f"the function must take ({wanted}), but it takes {signature}{way_out}") from error


def _check_keywords(function: Callable[..., float], names: Sequence[str], args: tuple[Any, ...]) -> None:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(*args, **dict.fromkeys(names))
    except TypeError as error:
        wanted = ", ".join([*(f"args[{place}]" for place in range(len(args))), *(f"{name}=" for name in names)])
        raise ObjectiveError(
            f"the function must take its parameters by name, ({wanted}), but it takes {_open(signature, function)}"
        ) from error


def _open(signature: inspect.Signature, function: Callable[..., float]) -> inspect.Signature:
    """Return the signature without arguments that are given already, such as the shard."""
    given = function.keywords if isinstance(function, functools.partial) else {}
    return signature.replace(parameters=[one for name, one in signature.parameters.items() if name not in given])
