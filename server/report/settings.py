"""settings.toml: the values of the returned x, by name, and those of the start."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from zofedht.common.config.texts import toml_value
from zofedht.server.terminal.words import loss_word, verdict_text

__all__ = ["MOST_NUMBERS", "settings_text"]

_BARE = re.compile(r"[A-Za-z0-9_-]+")  # a key that TOML takes without quotes

MOST_NUMBERS = 1_000
"""Numbers of an x without names that are written; a longer one is in x.npy alone."""


def settings_text(summary: Mapping[str, Any], before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """Return the file: facts about the run, then a table of the values ``after`` and one of those ``before``."""
    what = loss_word(maximize=summary["maximize"])
    facts = {
        "success": summary["success"],
        "x-is": summary["x_is"],
        "round": summary["x_round"],
        f"{what}-before": summary["initial_train_loss"],
        f"{what}-after": summary["final_train_loss"],
        "x-sha256": summary["x_sha256"],
    }
    lines = [f"# {toml_value(verdict_text(summary))[1:-1]}"]
    lines += [f"{name} = {_value(value)}" for name, value in facts.items() if value is not None]
    for title, values in (("after", after), ("before", before)):
        lines += ["", f"[{title}]", *(f"{_key(name)} = {_value(value)}" for name, value in values.items())]
    return "\n".join(lines) + "\n"


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else toml_value(name)


def _value(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(_value(part) for part in value)}]"
    return repr(value) if isinstance(value, float) else toml_value(value)
