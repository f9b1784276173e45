"""The kinds of a named parameter: numbers and Choice, and each as a row of a table."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from zofedht.common.errors import ObjectiveError
from zofedht.common.space.numbers import Integer, Real, as_python
from zofedht.common.typing import Matrix, Vector

__all__ = ["Choice", "Parameter", "Setting", "Settings", "of_row", "repeated"]

Setting = float | int | str | bool
Settings = dict[str, Setting]

_KEYS = ("lower", "upper", "log", "integer", "options")  # of a row
_MOST_OPTIONS = 100


@dataclass(frozen=True, init=False)
class Choice:
    """One of some options: texts, numbers, True and False.

    Raises ObjectiveError unless there are 2 to 100 different ones.
    """

    options: tuple[Setting, ...]

    def __init__(self, *options: Setting) -> None:
        found = tuple(as_python(option) for option in options)
        if not 2 <= len(found) <= _MOST_OPTIONS:
            listed = len(found) == 1 and isinstance(found[0], list | tuple)
            way_out = f" (Choice({', '.join(map(repr, found[0][:2]))}), without a list)" if listed else ""
            raise ObjectiveError(f"Choice must have 2 to {_MOST_OPTIONS} options, got {len(found)}{way_out}")
        for option in found:
            finite = not isinstance(option, float) or math.isfinite(option)
            if not isinstance(option, str | int | float) or not finite:
                raise ObjectiveError(f"an option of Choice must be a text, a number, True or False, got {option!r}")
        if twice := repeated(found):
            raise ObjectiveError(f"Choice must have different options, got {twice[0]!r} more than once")
        object.__setattr__(self, "options", found)

    @property
    def is_discrete(self) -> bool:
        """Whether F is constant around a coordinate."""
        return True

    @property
    def middle(self) -> Setting:
        """The first option."""
        return self.options[0]

    @property
    def box(self) -> Matrix:
        """Lower and upper bounds of the coordinates, (options, 2)."""
        return np.tile([0.0, 1.0], (len(self.options), 1))

    @property
    def largest_step(self) -> float:
        """The distance of two options, of the range."""
        return 1.0

    def labels(self, name: str) -> list[str]:
        """Return what the coordinates are called."""
        return [f"{name}={option}" for option in self.options]

    def from_coordinates(self, x: Vector) -> Setting:
        """Return the option with the largest coordinate."""
        return self.options[int(np.argmax(x))]

    def to_coordinates(self, value: Any) -> Vector:
        """Return 1 for the option and 0 for the others. Raises ValueError with the rule it breaks."""
        option = as_python(value)
        places = [
            place
            for place, own in enumerate(self.options)
            if own == option and isinstance(own, bool) == isinstance(option, bool)
        ]
        if not places:
            raise ValueError(f"must be one of {', '.join(map(repr, self.options))}")
        found: Vector = np.eye(len(self.options))[places[0]]
        return found

    def row(self) -> dict[str, Any]:
        """Return it as a row of a TOML table."""
        return {"options": list(self.options)}


Parameter = Real | Integer | Choice


def repeated(values: Sequence[Any]) -> list[Any]:
    return [value for place, value in enumerate(values) if value in values[:place]]


def _near(key: str) -> list[str]:
    """Return the key of a row that is closest to an unknown one, if there is any."""
    return [] if key in _KEYS else difflib.get_close_matches(key, _KEYS, n=1, cutoff=0.5)


def of_row(name: str, row: Any) -> Parameter:
    """Return the parameter of a row. Raises ObjectiveError."""
    rule = (
        f"parameter {name!r} must be a row {{lower = ..., upper = ...}}, with log = true or integer = true where"
        " wanted, or {options = [...]}"
    )
    if not isinstance(row, Mapping):
        raise ObjectiveError(f"{rule}, got {row!r} (a key of the run stands above the table)")
    keys = dict(row)
    try:
        if set(keys) == {"options"} and isinstance(keys["options"], list | tuple):
            return Choice(*keys["options"])
        if misspelt := [(key, near[0]) for key in keys if (near := _near(key))]:
            raise ObjectiveError(f"unknown key {misspelt[0][0]!r}; did you mean {misspelt[0][1]!r}?")
        whole = keys.pop("integer", False)
        if not set(keys) <= {"lower", "upper", "log"} or not isinstance(whole, bool):
            raise ObjectiveError(f"{rule}, got {dict(row)!r}")
        return Integer(keys.pop("lower", None), keys.pop("upper", None), **keys) if whole else Real(**keys)
    except ObjectiveError as error:
        text = str(error)
        raise ObjectiveError(text if text.startswith("parameter ") else f"parameter {name!r}: {text}") from error
