"""How a key of the run config is declared."""

from __future__ import annotations

import dataclasses
from typing import Any

from zofedht.common.rules import Rule

__all__ = ["key"]


def key(
    default: Any,
    meaning: str,
    *,
    symbol: str = "-",
    unit: str = "-",
    rule: Rule | None = None,
    kind: type | None = None,
    otherwise: Any = None,
) -> Any:
    """A config field; ``kind`` is the type of its numbers where the default is a word.

    ``otherwise`` is the value of a key that nobody gives, neither the user nor the algorithm's row; it may be a
    function of the config.

    The metadata feeds the checks, the table of docs/config.md and pyproject.toml's test.
    """
    return dataclasses.field(
        default=default,
        metadata={
            "meaning": meaning,
            "symbol": symbol,
            "unit": unit,
            "rule": rule,
            "kind": kind,
            "otherwise": otherwise,
        },
    )
