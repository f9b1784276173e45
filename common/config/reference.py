"""The keys as a reference: rows for people, the table of docs/config.md, and a JSON Schema for editors."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from typing import Any, cast

from zofedht.common.keys.keys import Keys, Scalar, dashed, kind_of
from zofedht.common.rules import choices_of, limits_of, words_of

__all__ = ["KeyRow", "json_schema", "key_rows", "key_table"]

_TYPES = {bool: "boolean", int: "integer", float: "number", str: "string"}


@dataclass(frozen=True)
class KeyRow:
    """A key: its name, meaning, unit, default and symbol in the paper, and the names that it must be one of."""

    key: str
    meaning: str
    unit: str
    default: Scalar
    symbol: str
    choices: tuple[str, ...]


def key_rows() -> list[KeyRow]:
    """Return all keys in their order.

    Examples
    --------
    >>> [row.default for row in key_rows() if row.key == "batch-size"]
    [64]
    """
    return [
        KeyRow(
            dashed(field.name),
            field.metadata["meaning"],
            field.metadata["unit"],
            cast(Scalar, field.default),
            field.metadata["symbol"],
            choices_of(field.metadata["rule"]),
        )
        for field in dataclasses.fields(Keys)
    ]


def key_table() -> str:
    """Return the table of the keys in Markdown."""
    lines = ["| key | meaning | unit | default | paper |", "|---|---|---|---|---|"]
    for row in key_rows():
        names = ", ".join(f"`{name}`" for name in row.choices)
        meaning = row.meaning + (f": {names}" if names else "")
        lines.append(f"| `{row.key}` | {meaning} | {row.unit} | `{json.dumps(row.default)}` | {row.symbol} |")
    return "\n".join(lines)


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of a file for ``--config``."""
    properties = {
        row.key: _property(row, field) for row, field in zip(key_rows(), dataclasses.fields(Keys), strict=True)
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Run config of ZOFedHT",
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
    }


def _property(row: KeyRow, field: dataclasses.Field[Any]) -> dict[str, Any]:
    rule = field.metadata["rule"]
    about: dict[str, Any] = {"description": row.meaning, "default": row.default}
    if row.choices:
        return about | {"enum": list(row.choices)}
    kind = kind_of(row.key)
    number = {"type": _TYPES[kind or str]} | limits_of(rule)
    words = words_of(rule)
    return about | ({"anyOf": [{"enum": list(words)}, number]} if words else number)
