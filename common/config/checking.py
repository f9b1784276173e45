"""A mapping of run config keys: values in the type of their key, and a problem for each that is wrong."""

from __future__ import annotations

import dataclasses
import difflib
import json
import os
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from zofedht.common.keys.keys import Keys, Scalar, dashed, kind_of
from zofedht.common.rules import words_of
from zofedht.common.space.kinds import Choice
from zofedht.common.space.numbers import Integer, Real, as_python

if TYPE_CHECKING:
    from zofedht.common.config.run_config import RunConfig

__all__ = ["Problem", "checked", "other_values", "plain"]

_TABLES = ("parameters",)
"""Keys whose text may be given as a table."""

_WANTED = {bool: "true or false", int: "a whole number", float: "a finite number", str: "a text"}

_ROWS = "a table with at least one row, such as valve = {lower = 0, upper = 1}, or its JSON"


class Problem(NamedTuple):
    """A key, and one sentence that says what is wrong with it and how to mend it."""

    key: str
    sentence: str


def checked(mapping: Mapping[str, Any]) -> tuple[dict[str, Scalar], list[Problem]]:
    """Return the values that are right, by field name, and a problem for each key that is unknown or wrong."""
    fields = {dashed(field.name): field for field in dataclasses.fields(Keys)}
    values: dict[str, Scalar] = {}
    problems = []
    for key, given in mapping.items():
        kind = kind_of(key)
        if kind is None:
            problems.append(Problem(key, _unknown(key, fields, given)))
            continue
        field, rule = fields[key], fields[key].metadata["rule"]
        words = words_of(rule)
        known = _as_text(given) if key in _TABLES and given and isinstance(given, Mapping) else plain(given)
        value = known if isinstance(known, str) and known in words else _typed(known, kind)
        if value is None:
            wanted = " or ".join([_ROWS if key in _TABLES else _WANTED[kind], *words])
            problems.append(Problem(key, f"{key} must be {wanted}, got {given!r}"))
        elif rule and (complaint := rule(value)):
            problems.append(Problem(key, f"{key} {complaint}"))
        else:
            values[field.name] = value
    return values, problems


def _unknown(key: str, known: Mapping[str, Any], given: object) -> str:
    if isinstance(given, Mapping):
        return f"unknown table [{key}]: write its keys above all tables of the file, without the line [{key}]"
    near = difflib.get_close_matches(key.replace("_", "-"), known, n=1, cutoff=0.5)
    return f"unknown key {key!r}" + (f"; did you mean {near[0]!r}?" if near else "; docs/config.md lists every key")


def _as_text(table: Mapping[str, Any]) -> Any:
    """Return a table as JSON, with Real, Integer and Choice as rows; the table itself where JSON has no such values."""
    rows = {name: row.row() if isinstance(row, Real | Integer | Choice) else row for name, row in table.items()}
    try:
        return json.dumps(rows)
    except (TypeError, ValueError):
        return table


def plain(value: Any) -> Any:
    """Return NumPy's numbers, bools and texts as Python's own, a path as its text, and anything else as it is."""
    return os.fspath(value) if isinstance(value, os.PathLike) else as_python(value)


def _typed(value: Any, kind: type) -> Scalar | None:
    """Return the value as a bool, int, float or str; None where it is not one."""
    if kind in (bool, str):
        return value if isinstance(value, kind) else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if kind is int:
        return int(value) if isinstance(value, int) or value.is_integer() else None
    return float(value) if abs(value) <= sys.float_info.max else None


def other_values(config: RunConfig, when: str, wanted: Mapping[str, tuple[Scalar, str]]) -> Iterator[Problem]:
    """Yield a problem for each key whose value is not the wanted one; ``wanted`` has a value and the reason by key."""
    given = config.settled()
    for key, (value, why) in wanted.items():
        if given[key] != value:
            yield Problem(key, f"{key} must be {value} {when}, got {given[key]!r}: {why}")
