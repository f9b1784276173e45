"""Rules for the values of run config keys and of what crosses the wire.

A rule is a callable: value -> None, or the rest of the sentence that began with the key's name.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from zofedht.common.choices import AUTO, MANY, UNSAID, parse_columns, parse_labels, parse_shapes, parse_transforms
from zofedht.common.errors import DataError, FleetError, ObjectiveError, ZofedhtError
from zofedht.common.space.space import Space
from zofedht.common.typing import is_whole

__all__ = [
    "LARGEST_LOSS",
    "MOST",
    "MOST_DRAWN",
    "Rule",
    "at_least",
    "auto_or",
    "between",
    "bounded_loss",
    "check_whole",
    "choices_of",
    "cluster",
    "columns",
    "default_or",
    "digest",
    "labels",
    "labels_seen",
    "limits_of",
    "one_of",
    "positive",
    "preprocessing",
    "shapes",
    "space_rows",
    "without_default",
    "words_of",
]

Rule = Callable[[Any], str | None]

_DIGEST = re.compile(r"(?:[0-9a-f]{32})?")
_LABELS_SEEN = re.compile(rf"(?:-?[0-9]{{1,19}}(?:,-?[0-9]{{1,19}}){{0,99}}|{MANY})?")

MOST_DRAWN = 2**25
"""Samples that a slot may draw, K times b: 256 MB of row numbers."""

MOST = 2**31 - 1
"""The most of anything that is counted, unless a rule says less."""

LARGEST_LOSS = 1e100
"""Of a loss that counts: sums and squares of larger ones overflow."""


@dataclass(frozen=True)
class _WordOr:
    """The value is one of the words, or a number that keeps the rule."""

    rule: Rule
    words: tuple[str, ...]

    def __call__(self, value: Any) -> str | None:
        return None if value in self.words else self.rule(value)


def words_of(rule: Rule | None) -> tuple[str, ...]:
    """Return the words that may stand in the place of a number."""
    return rule.words if isinstance(rule, _WordOr) else ()


def choices_of(rule: Rule | None) -> tuple[str, ...]:
    """Return the names that the value must be one of; none where any text will do."""
    return rule.choices if isinstance(rule, _OneOf) else ()


def without_default(rule: Rule | None) -> Rule | None:
    """Return the rule of a value that is settled: ``default`` is none any more."""
    if isinstance(rule, _OneOf):
        return _OneOf(tuple(name for name in rule.choices if name != UNSAID))
    return rule.rule if isinstance(rule, _WordOr) and rule.words == (UNSAID,) else rule


def default_or(rule: Rule) -> Rule:
    """The value is ``default``, or a number that keeps the rule."""
    return _WordOr(rule, (UNSAID,))


def auto_or(rule: Rule, *words: str) -> Rule:
    """The value is ``auto``, another of the words, or a number that keeps the rule."""
    return _WordOr(rule, (AUTO, *words))


@dataclass(frozen=True)
class _OneOf:
    choices: tuple[str, ...]

    def __call__(self, value: str) -> str | None:
        if value in self.choices:
            return None
        near = difflib.get_close_matches(value, self.choices, n=1, cutoff=0.5)
        hint = f" (did you mean {near[0]!r}?)" if near else ""
        return f"must be one of {', '.join(self.choices)}, got {value!r}{hint}"


def one_of(choices: Iterable[str]) -> Rule:
    """The value is one of the names."""
    return _OneOf(tuple(choices))


@dataclass(frozen=True)
class _AtLeast:
    least: float
    most: float

    def __call__(self, value: float) -> str | None:
        if value > self.most:
            return f"must be at most {self.most}, got {value}"
        return None if value >= self.least else f"must be at least {self.least}, got {value}"


def at_least(least: float, most: float = MOST) -> Rule:
    """The value is not less than ``least``, and not more than ``most``: nobody allocates what a typing error names."""
    return _AtLeast(least, most)


@dataclass(frozen=True)
class _Positive:
    def __call__(self, value: float) -> str | None:
        return None if value > 0 else f"must be greater than 0, got {value}"


def positive() -> Rule:
    """The value is greater than 0."""
    return _Positive()


@dataclass(frozen=True)
class _Between:
    least: float
    most: float
    way_out: str

    def __call__(self, value: float) -> str | None:
        hint = f" ({self.way_out})" if self.way_out else ""
        shown = f"{self.least:g}, {self.most:g}" if isinstance(self.least, float) else f"{self.least}, {self.most}"
        return None if self.least <= value <= self.most else f"must be in [{shown}], got {value}{hint}"


def between(least: float, most: float, way_out: str = "") -> Rule:
    """The value is in the closed interval."""
    return _Between(least, most, way_out)


def check_whole(name: str, value: Any, least: int = 0, *, error: Callable[[str], ZofedhtError] = FleetError) -> None:
    """Raise ``error`` unless an argument is a whole number, NumPy's included, of at least ``least``."""
    if not is_whole(value, least):
        raise error(f"{name} must be a whole number of at least {least}, got {value!r}")


def bounded_loss(loss: float) -> float:
    """Return a loss, infinite where its size is beyond ``LARGEST_LOSS``.

    Examples
    --------
    >>> bounded_loss(2.5), bounded_loss(1.7e308), bounded_loss(-1e101)
    (2.5, inf, inf)
    """
    return loss if abs(loss) <= LARGEST_LOSS or math.isnan(loss) else math.inf


def limits_of(rule: Rule | None) -> dict[str, float]:
    """Return the limits of the numbers that keep the rule, in the words of JSON Schema."""
    if isinstance(rule, _WordOr):
        return limits_of(rule.rule)
    if isinstance(rule, _AtLeast | _Between):
        return {"minimum": rule.least} | ({} if rule.most == math.inf else {"maximum": rule.most})
    return {"exclusiveMinimum": 0} if isinstance(rule, _Positive) else {}


def _readable(parse: Callable[[str], Any], free: str = "") -> Rule:
    def rule(value: str) -> str | None:
        if value == free:
            return None
        try:
            parse(value)
        except (DataError, ObjectiveError) as error:
            return f"cannot be read: {error}"
        return None

    return rule


def space_rows() -> Rule:
    """The value is a table of named parameters as JSON, or empty."""
    return _readable(Space.of_text, free="")


def labels() -> Rule:
    """The value is ``auto`` or a list of labels."""
    return _readable(parse_labels, free=AUTO)


def labels_seen() -> Rule:
    """The value is a list of different labels as a client tells them, or empty."""

    def rule(value: str) -> str | None:
        wrong = not _LABELS_SEEN.fullmatch(value)
        return f"must be whole numbers joined by commas, or '{MANY}', got {value[:40]!r}" if wrong else None

    return rule


def digest() -> Rule:
    """The value is 32 hexadecimal digits, or empty."""
    return lambda value: None if _DIGEST.fullmatch(value) else f"must be 32 hexadecimal digits, got {value[:40]!r}"


def cluster() -> Rule:
    """The value is ``auto``, HOST:PORT, or empty."""

    def rule(value: str) -> str | None:
        host, _, port = value.rpartition(":")
        fits = value in {"", AUTO} or ("/" not in host and host and port.isdecimal() and 0 < int(port) < 2**16)
        return None if fits else f"must be auto or HOST:PORT, got {value!r}"

    return rule


def columns() -> Rule:
    """The value is ``auto`` or a mean and a standard deviation for each column."""
    return _readable(parse_columns)


def preprocessing() -> Rule:
    """The value is a list of transforms of the features."""
    return _readable(parse_transforms)


def shapes() -> Rule:
    """The value is ``auto`` or a list of shapes of matrices."""
    return _readable(parse_shapes)
