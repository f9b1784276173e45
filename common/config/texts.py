"""Run configs as texts: ``key=value`` assignments, TOML files, and the table of keys in docs/config.md."""

from __future__ import annotations

import dataclasses
import json
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from zofedht.common.config.keys import Scalar, dashed, kind_of
from zofedht.common.config.run_config import RunConfig
from zofedht.common.errors import ConfigError
from zofedht.common.rules import Rule, choices_of

__all__ = ["dump_toml", "key_table", "load_toml", "markdown_table", "parse_assignments"]


def parse_assignments(assignments: Sequence[str]) -> dict[str, Any]:
    """Read ``key=value`` texts; a value is read in the type of its key, and kept as text if it cannot be.

    Raises ConfigError for a text without ``=``. Keys and ranges are checked by ``from_mapping``.
    """
    result: dict[str, Any] = {}
    problems = []
    for text in assignments:
        key, equals, value = (part.strip() for part in text.partition("="))
        if not equals or not key:
            problems.append(f"--set takes key=value, got {text!r}")
            continue
        result[key] = _read_value(value, kind_of(key))
    if problems:
        raise ConfigError(problems)
    return result


def _read_value(text: str, kind: type | None) -> Any:
    if kind in (str, None):
        return text[1:-1] if len(text) >= 2 and text[0] == text[-1] and text[0] in "\"'" else text
    if kind is bool:
        return {"true": True, "false": False}.get(text.lower(), text)
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def load_toml(path: Path) -> dict[str, Any]:
    """Read the keys of a TOML file.

    Raises ConfigError when the file is missing or is not TOML.
    """
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError([f"--config must name a readable TOML file, got {path} ({error.strerror})"]) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError([f"--config must be a TOML file, but {path} is not: {error}"]) from error


def dump_toml(config: RunConfig) -> str:
    """Return the config as a TOML text that ``load_toml`` reads back to an equal config."""
    return "".join(f"{key} = {_toml_value(value)}\n" for key, value in config.to_mapping().items())


def _toml_value(value: Scalar) -> str:
    # JSON's strings, numbers and booleans are TOML's as well, but for surrogate pairs and a bare DEL.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def markdown_table() -> str:
    """Return the table of all keys as docs/config.md shows it; a test compares them."""
    rows = [
        f"| `{row['key']}` | {row['meaning']} | {row['unit']} | `{row['default']}` | {row['symbol']} |"
        for row in key_table()
    ]
    return "\n".join(["| key | meaning | unit | default | paper |", "|---|---|---|---|---|", *rows])


def key_table() -> list[dict[str, str]]:
    """Return one row for each key (key, meaning, unit, default, symbol), for docs/config.md."""
    return [
        {
            "key": dashed(field.name),
            "meaning": field.metadata["meaning"] + _choices(field.metadata["rule"]),
            "unit": field.metadata["unit"],
            "default": json.dumps(field.default),
            "symbol": field.metadata["symbol"],
        }
        for field in dataclasses.fields(RunConfig)
    ]


def _choices(rule: Rule | None) -> str:
    names = choices_of(rule)
    return ": " + ", ".join(f"`{name}`" for name in names) if names else ""
