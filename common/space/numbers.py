"""A parameter that is a number: Real and Integer, each with its coordinates."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from zofedht.common.errors import ObjectiveError
from zofedht.common.typing import Matrix, Vector

__all__ = ["Integer", "Real", "as_python"]

_MOST_INTEGER = 2**53  # a coordinate is a float64


def _number(value: Any, kind: str) -> float:
    """Return a bound; None is NaN. Raises ObjectiveError for anything but a number."""
    if value is None:
        return math.nan
    try:
        if isinstance(value, bool | str | bytes) or np.ndim(value):
            raise TypeError
        return float(value)
    except (TypeError, ValueError) as error:
        raise ObjectiveError(f"{kind} must have numbers for bounds, got {value!r}") from error


@dataclass(frozen=True)
class Real:
    """A number from ``lower`` to ``upper``, None where there is no bound; with ``log`` its logarithm is searched.

    Raises ObjectiveError unless lower < upper, and with ``log`` both are there and 0 < lower.

    Examples
    --------
    >>> Real(1e-3, 10, log=True).middle
    0.1
    """

    lower: float = -math.inf
    upper: float = math.inf
    log: bool = False

    def __post_init__(self) -> None:
        for name, missing in (("lower", -math.inf), ("upper", math.inf)):
            bound = getattr(self, name)
            object.__setattr__(self, name, missing if bound is None else _number(bound, "Real"))
        _check_log(self)
        ends = f"({self.lower:g}, {self.upper:g})"
        if not self.lower < self.upper or self.lower == math.inf or self.upper == -math.inf:
            raise ObjectiveError(f"Real must have lower < upper, got {ends}")
        if math.isfinite(self.lower) and math.isfinite(self.upper) and math.isinf(self.upper - self.lower):
            raise ObjectiveError(
                f"Real must have a range of less than 1.8e308, got {ends} (take bounds that are closer)"
            )
        if self.log and not (self.lower > 0.0 and self.upper < math.inf):
            raise ObjectiveError(
                f"Real with log=True must have 0 < lower < upper, got {ends} (the logarithm of 0 has no end)"
            )

    @property
    def is_discrete(self) -> bool:
        """Whether F is constant around a coordinate."""
        return False

    @property
    def middle(self) -> float:
        """The middle of the range, of the logarithm where ``log``; without both bounds the nearest number to 0."""
        low, high = self.box[0]
        whole = math.isfinite(low) and math.isfinite(high)
        return self.from_coordinates(np.array([0.5 * (low + high) if whole else min(max(0.0, low), high)]))

    @property
    def box(self) -> Matrix:
        """Lower and upper bound of the coordinate, (1, 2)."""
        return np.array([[math.log10(end) if self.log else end for end in (self.lower, self.upper)]])

    @property
    def largest_step(self) -> float:
        """The largest distance of neighbouring values, of the range: 0."""
        return 0.0

    def labels(self, name: str) -> list[str]:
        """Return what the coordinate is called."""
        return [f"log10({name})" if self.log else name]

    def from_coordinates(self, x: Vector) -> float:
        """Return the value at the coordinate."""
        (low, high), c = self.box[0], float(x[0])
        if c <= low or c >= high:  # rounding of the logarithm must not keep a value from its bound
            return self.lower if c <= low else self.upper
        return min(max(_power(c), self.lower), self.upper) if self.log else c

    def to_coordinates(self, value: Any) -> Vector:
        """Return the coordinate of a value. Raises ValueError with the rule it breaks."""
        number = as_python(value)
        known = isinstance(number, int | float) and not isinstance(number, bool) and math.isfinite(number)
        if not known or not self.lower <= number <= self.upper:
            raise ValueError(f"must be a number{_between(self.lower, self.upper)}")
        return np.array([math.log10(number) if self.log else float(number)])

    def row(self) -> dict[str, Any]:
        """Return it as a row of a TOML table."""
        ends = {"lower": self.lower, "upper": self.upper}
        return {name: end for name, end in ends.items() if math.isfinite(end)} | ({"log": True} if self.log else {})


@dataclass(frozen=True)
class Integer:
    """A whole number from ``lower`` to ``upper``, both included; with ``log`` its logarithm is searched.

    Raises ObjectiveError unless both are whole numbers with lower < upper, and 0 < lower where ``log``.
    """

    lower: int
    upper: int
    log: bool = False

    def __post_init__(self) -> None:
        for name in ("lower", "upper"):
            value = getattr(self, name)
            number = _number(value, "Integer")
            if math.isnan(number) or math.isinf(number):
                raise ObjectiveError(f"Integer must have finite bounds, got {value!r}")
            if not number.is_integer():
                raise ObjectiveError(f"Integer must have whole numbers for bounds, got {value!r}")
            if abs(number) > _MOST_INTEGER:
                raise ObjectiveError(
                    f"Integer must have bounds up to 2^53, got {value!r} (a larger one is no whole float64; take Real)"
                )
            object.__setattr__(self, name, int(number))
        _check_log(self)
        if not self.lower < self.upper:
            raise ObjectiveError(f"Integer must have lower < upper, got ({self.lower}, {self.upper})")
        if self.log and self.lower <= 0:
            raise ObjectiveError(
                f"Integer with log=True must have 0 < lower < upper, got ({self.lower}, {self.upper}) (the logarithm of"
                " 0 has no end)"
            )

    @property
    def is_discrete(self) -> bool:
        """Whether F is constant around a coordinate."""
        return True

    @property
    def middle(self) -> int:
        """The middle of the range, of the logarithm where ``log``."""
        return self.from_coordinates(0.5 * (self.box[:, 0] + self.box[:, 1]))

    @property
    def box(self) -> Matrix:
        """Lower and upper bound of the coordinate, (1, 2): half a step outside, so that all cells are whole."""
        return np.array([[self._border(self.lower - 0.5), self._border(self.upper + 0.5)]])

    @property
    def largest_step(self) -> float:
        """The largest distance of neighbouring values, of the range."""
        low, high = self.box[0].tolist()
        step: float = (self._border(self.lower + 0.5) - low) / (high - low)
        return step

    def labels(self, name: str) -> list[str]:
        """Return what the coordinate is called."""
        return [f"log10({name})" if self.log else name]

    def from_coordinates(self, x: Vector) -> int:
        """Return the whole number nearest to the coordinate's number."""
        low, high = self.box[0]
        c = float(min(max(x[0], low), high))
        nearest: int = round(10.0**c if self.log else c)
        return min(max(nearest, self.lower), self.upper)

    def to_coordinates(self, value: Any) -> Vector:
        """Return the middle of the value's cell. Raises ValueError with the rule it breaks."""
        number = as_python(value)
        if (
            not isinstance(number, int | float)
            or isinstance(number, bool)
            or not self.lower <= number <= self.upper
            or number != int(number)
        ):
            raise ValueError(f"must be a whole number from {self.lower} to {self.upper}")
        return np.array([self._border(float(number))])

    def cell(self, value: int) -> tuple[float, float]:
        """Return the ends of a value's cell: the first and the last cell have none but one."""
        low = -math.inf if value == self.lower else self._border(value - 0.5)
        return low, math.inf if value == self.upper else self._border(value + 0.5)

    def _border(self, number: float) -> float:
        return math.log10(number) if self.log else number

    def row(self) -> dict[str, Any]:
        """Return it as a row of a TOML table."""
        return {"lower": self.lower, "upper": self.upper, "integer": True} | ({"log": True} if self.log else {})


def _check_log(parameter: Real | Integer) -> None:
    if not isinstance(parameter.log, bool):
        raise ObjectiveError(f"log of {type(parameter).__name__} must be True or False, got {parameter.log!r}")


def _power(c: float) -> float:
    """Return a number with the logarithm c: the shortest one, so that a user's 3.3 comes back as it was."""
    number: float = 10.0**c
    short = (float(f"{number:.{digits}g}") for digits in (13, 14, 15))
    return next((one for one in short if one > 0.0 and math.log10(one) == c), number)


def _between(lower: float, upper: float) -> str:
    low, high = (f"{end:g}" if math.isfinite(end) else "" for end in (lower, upper))
    if low and high:
        return f" from {low} to {high}"
    return f" of at least {low}" if low else f" of at most {high}" if high else ""


def as_python(value: Any) -> Any:
    """Return NumPy's numbers, bools and texts as Python's own, and anything else as it is, such as a masked value."""
    if value is np.ma.masked:
        return value
    if isinstance(value, np.generic) or (isinstance(value, np.ndarray) and value.ndim == 0):
        item = value.item()
        return float(item) if isinstance(item, np.floating) else item  # Python has no longdouble
    return value
