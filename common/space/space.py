"""Named parameters: reals, logarithms, integers and choices, and the one way between them and a vector of coordinates.

    settings {"valve": 0.5, "pause": 0.01, "mode": "a"}  <->  coordinates [0.5, -2.0, 1.0, 0.0]

A real is its own coordinate; of a logarithmic one the coordinate is log10. An integer is the nearest one to its
coordinate. A choice has a coordinate for each option, from 0 to 1, and is the option with the largest (the first of
equal ones). Coordinates have bounds and a scale, as the x of any other objective, and are searched as that is.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from zofedht.common.errors import ObjectiveError
from zofedht.common.space.kinds import Choice, Parameter, Settings, of_row, repeated
from zofedht.common.space.numbers import Integer, Real
from zofedht.common.typing import Matrix, Vector

__all__ = ["MOST_SPACE_TEXT", "Space", "space_mismatch"]

MOST_SPACE_TEXT = 256 * 1024
"""The most characters of a space as JSON."""

_MOST_CHARACTERS = 64  # of a name


@dataclass(frozen=True)
class Space:
    """Parameters by name, in their order.

    Examples
    --------
    >>> space = Space.of({"valve": Real(0, 1), "pause": Real(1e-3, 10, log=True), "mode": Choice("a", "b")})
    >>> space.coordinates({"valve": 0.5, "pause": 0.01, "mode": "b"}).tolist()
    [0.5, -2.0, 0.0, 1.0]
    >>> space.settings(np.array([0.25, 1.0, 0.7, 0.3]))
    {'valve': 0.25, 'pause': 10.0, 'mode': 'a'}
    """

    parameters: tuple[tuple[str, Parameter], ...]

    @classmethod
    def of(cls, declared: Any) -> Space:
        """Return the space of a mapping from names to Real, Integer or Choice, or of such pairs.

        Raises ObjectiveError where it is none.
        """
        if isinstance(declared, Space):
            return declared
        rule = "parameters must map names to Real, Integer or Choice"
        if isinstance(declared, Mapping):
            pairs = list(declared.items())
        elif isinstance(declared, Sequence) and all(isinstance(pair, tuple) and len(pair) == 2 for pair in declared):
            pairs = list(declared)
        else:
            raise ObjectiveError(f"{rule}, got {declared!r}")
        if not pairs:
            raise ObjectiveError(f"{rule}, got none")
        for name, parameter in pairs:
            if not isinstance(name, str) or not 0 < len(name) <= _MOST_CHARACTERS or not name.isprintable():
                raise ObjectiveError(
                    f"a parameter's name must have 1 to {_MOST_CHARACTERS} printable characters, got {name!r}"
                )
            if not isinstance(parameter, Real | Integer | Choice):
                raise ObjectiveError(f"{rule}, got {parameter!r} for {name!r}")
        space = cls(tuple(pairs))
        if len(space.text) > MOST_SPACE_TEXT:
            raise ObjectiveError(
                f"parameters must fit into {MOST_SPACE_TEXT // 1024} kB as JSON, got {len(space.text)} characters for"
                f" {len(pairs)} parameters; name fewer, or take a vector"
            )
        for kind, names in (("parameters", space.names), ("coordinates", space.labels)):
            if twice := repeated(names):
                raise ObjectiveError(f"{kind} must have different names, got {twice[0]!r} more than once")
        return space

    @classmethod
    def of_names(cls, names: Sequence[str]) -> Space:
        """Return the space of an x whose numbers have names and no more: its coordinates are its values."""
        return cls(tuple((name, Real()) for name in names))

    @classmethod
    def of_rows(cls, rows: Any) -> Space:
        """Return the space of a TOML table: a row such as ``{lower = 0, upper = 1}`` for each name.

        Raises ObjectiveError with the name of the first row that is wrong.
        """
        if not isinstance(rows, Mapping):
            raise ObjectiveError(f"parameters must be a table with a row for each name, got {rows!r}")
        return cls.of({name: of_row(name, row) for name, row in rows.items()})

    @classmethod
    def of_text(cls, text: str) -> Space:
        """Return the space that ``text`` gave. Raises ObjectiveError where it is none."""
        return _of_text(text)

    @property
    def rows(self) -> dict[str, dict[str, Any]]:
        """The space as a TOML table."""
        return {name: parameter.row() for name, parameter in self.parameters}

    @functools.cached_property
    def text(self) -> str:
        """The rows as JSON: equal texts are equal spaces."""
        return json.dumps(self.rows)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the parameters."""
        return tuple(name for name, _ in self.parameters)

    @functools.cached_property
    def labels(self) -> tuple[str, ...]:
        """The names of the coordinates, n."""
        return tuple(label for name, parameter in self.parameters for label in parameter.labels(name))

    @functools.cached_property
    def box(self) -> Matrix:
        """Lower and upper bounds of the coordinates, (n, 2)."""
        return np.concatenate([parameter.box for _, parameter in self.parameters])

    @property
    def dim(self) -> int:
        """n, the number of coordinates."""
        return len(self.labels)

    @functools.cached_property
    def blocks(self) -> tuple[tuple[str, Parameter, slice], ...]:
        """Name, parameter and place of its coordinates."""
        found, begin = [], 0
        for name, parameter in self.parameters:
            end = begin + len(parameter.box)
            found.append((name, parameter, slice(begin, end)))
            begin = end
        return tuple(found)

    @property
    def is_plain(self) -> bool:
        """Whether the coordinates are the values: all parameters are reals without a logarithm."""
        return all(isinstance(kind, Real) and not kind.log for _, kind in self.parameters)

    @property
    def is_discrete(self) -> bool:
        """Whether there are integers or choices."""
        return any(kind.is_discrete for _, kind in self.parameters)

    @property
    def least_radius(self) -> tuple[str, float]:
        """The parameter with the largest step in search units, and half of that step: a slope must reach so far.

        The unit is a range, and the step from one option to another 1. Without integers and choices it is 0.
        """
        halves = [(name, 0.5 * kind.largest_step) for name, kind in self.parameters]
        return max(halves, key=lambda half: half[1])

    @property
    def middle(self) -> Settings:
        """The middle of each range, of the logarithm where that is searched; of a choice the first option."""
        return {name: parameter.middle for name, parameter in self.parameters}

    def settings(self, x: Vector) -> Settings:
        """Return the user's values at coordinates, (n,)."""
        return {name: parameter.from_coordinates(x[place]) for name, parameter, place in self.blocks}

    def at_bounds(self, x: Vector) -> tuple[int, int]:
        """Return how many reals and integers are at a bound, and how many there are; an option is no bound."""
        ranges = [(kind, place) for _, kind, place in self.blocks if not isinstance(kind, Choice)]
        return sum(kind.from_coordinates(x[place]) in (kind.lower, kind.upper) for kind, place in ranges), len(ranges)

    def coordinates(self, settings: Any, start: Settings | None = None) -> Vector:
        """Return the coordinates of the user's values; those of ``start`` are taken where ``settings`` has none.

        Raises ObjectiveError for a missing or an unknown name and for a value outside of its range.
        """
        if not isinstance(settings, Mapping):
            raise ObjectiveError(f"settings must map {', '.join(self.names)} to values, got {settings!r}")
        if unknown := [name for name in settings if name not in self.names]:
            raise ObjectiveError(f"there is no parameter {unknown[0]!r}; there are {', '.join(self.names)}")
        values = {**(start or {}), **settings}
        if missing := [name for name in self.names if name not in values]:
            raise ObjectiveError(f"settings must have a value for each parameter, got none for {missing[0]!r}")
        parts = []
        for name, parameter in self.parameters:
            try:
                parts.append(parameter.to_coordinates(values[name]))
            except ValueError as error:
                raise ObjectiveError(f"parameter {name!r} {error}, got {values[name]!r}") from error
        return np.concatenate(parts)

    def snapped(self, points: Matrix) -> Matrix:
        """Return coordinates, (n,) or one a row, with integers and choices in the middle of their cells.

        Points with the same settings are then the same point.
        """
        rows = np.array(points, dtype=np.float64, ndmin=2)
        for _, parameter, place in self.blocks:
            if not isinstance(parameter, Real):
                for row in rows:
                    row[place] = parameter.to_coordinates(parameter.from_coordinates(row[place]))
        return rows if np.ndim(points) == 2 else rows[0]


@functools.lru_cache(maxsize=32)
def _of_text(text: str) -> Space:
    """Return the space of a text; a run asks for its own again and again."""
    try:
        rows = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ObjectiveError(f"it is no JSON: {error} (in TOML it is a table [parameters])") from error
    return Space.of_rows(rows)


def space_mismatch(mine: Space | None, theirs: Space | None, who: str, whom: str) -> str:
    """Return a sentence with the first parameter in which two spaces differ, or an empty text."""
    if mine == theirs:
        return ""
    rule = "all must have the same parameters, in the same order"
    if mine is None or theirs is None:
        has, lacks = (who, whom) if theirs is None else (whom, who)
        return f"{has} names its parameters and {lacks} does not; {rule}"
    if len(mine.names) != len(theirs.names):
        return f"{who} names {len(mine.names)} parameters, {whom} {len(theirs.names)}; {rule}"
    pairs = zip(mine.parameters, theirs.parameters, strict=True)
    (name, own), (other_name, other) = next(pair for pair in pairs if pair[0] != pair[1])
    return f"{who} has the parameter {name!r} as {own}, {whom} {other_name!r} as {other}; {rule}"
