"""Run configs as texts: ``key=value`` assignments and TOML files."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from zofedht.common.config.run_config import RunConfig
from zofedht.common.errors import ConfigError
from zofedht.common.keys.keys import Scalar, kind_of

__all__ = ["dump_toml", "load_toml", "parse_assignments", "toml_value"]


_UTF_16 = (b"\xff\xfe", b"\xfe\xff")  # how texts of Windows tools begin


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


def load_toml(path: Path, option: str = "--config") -> dict[str, Any]:
    """Read the keys of a TOML file, which an option of a command names.

    Raises ConfigError when the file is missing or is not TOML.
    """
    try:
        content = path.read_bytes()
        if content.startswith(_UTF_16):
            raise ConfigError([f"{option} must be a TOML file, but {path} is not: it is UTF-16; save it as UTF-8"])
        return tomllib.loads(content.decode("utf-8-sig"))
    except OSError as error:
        raise ConfigError([f"{option} must name a readable TOML file, got {path} ({error.strerror})"]) from error
    except tomllib.TOMLDecodeError as error:
        twice = _key_given_twice(content.decode("utf-8-sig"), str(error))
        if twice:
            text = f"{option} must give each key once, but {path} gives {twice} twice; delete one"
            raise ConfigError([text]) from error
        quotes = '; a text needs straight quotes, as in model = "mlp"' if str(error).startswith("Invalid value") else ""
        raise ConfigError([f"{option} must be a TOML file, but {path} is not: {error}{quotes}"]) from error
    except UnicodeDecodeError as error:
        raise ConfigError([f"{option} must be a TOML file, but {path} is not: {error}"]) from error


def _key_given_twice(text: str, error: str) -> str:
    """Return the key and the line at which TOML's parser met it for the second time, or an empty text."""
    found = re.fullmatch(r"Cannot (?:overwrite a value|declare .* twice).* \(at line (\d+), .*\)", error)
    if found is None:
        return ""
    line = text.splitlines()[int(found[1]) - 1]
    return f"'{line.partition('=')[0].strip()}' (line {found[1]})"


def dump_toml(config: RunConfig) -> str:
    """Return the config as a TOML text that ``load_toml`` reads back to an equal config."""
    keys = config.to_mapping()
    table = json.loads(str(keys.pop("parameters")) or "{}")
    lines = [f"{key} = {toml_value(value)}\n" for key, value in keys.items()]
    rows = [f"{toml_value(name)} = {_toml_row(row)}\n" for name, row in table.items()]
    return "".join([*lines, *(["\n[parameters]\n", *rows] if rows else [])])


def _toml_row(row: Mapping[str, Any]) -> str:
    return "{" + ", ".join(f"{key} = {toml_value(value)}" for key, value in row.items()) + "}"


def toml_value(value: Scalar | list[Scalar]) -> str:
    """Return a text, a number, a boolean or a list of such as TOML writes it."""
    # JSON's strings, numbers and booleans are TOML's as well, but for surrogate pairs and a bare DEL.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
