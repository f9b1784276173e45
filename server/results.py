"""Results as SciPy's: a mapping with attributes that prints short, and a history of plain rows."""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from scipy.optimize import OptimizeResult

__all__ = ["ShortResult", "asks_to_stop", "plain_rows", "takes_one"]

_MOST_SHOWN = 8  # numbers or settings of a line


class ShortResult(OptimizeResult):  # type: ignore[misc]  # SciPy has no types
    """An OptimizeResult whose text has at most ten lines, and numbers of four digits."""

    _shown: tuple[tuple[str, str], ...] = (
        ("success", "success"),
        ("message", "message"),
        ("fun", "fun"),
        ("start_fun", "start"),
        ("settings", "settings"),
        ("x", "x"),
        ("nit", "nit"),
        ("nfev", "nfev"),
        ("comparison", "against start"),
        ("lost", "lost"),
    )

    def __repr__(self) -> str:
        hidden = "x" if self.get("settings") else "settings"
        there = [(name, title) for name, title in self._shown if self.get(name) is not None and name != hidden]
        lines = [(title, _short(self[name])) for name, title in there]
        width = max(len(title) for title, _ in lines)
        return "\n".join(f"{title:>{width}}: {text}" for title, text in lines)

    __str__ = __repr__


def _short(value: Any) -> str:
    if isinstance(value, Mapping) and "slots" in value:
        return _lost(value)
    if isinstance(value, Mapping):
        shown = [f"{name} = {_short(one)}" for name, one in list(value.items())[:_MOST_SHOWN]]
        return ", ".join(shown + ([f"and {len(value) - len(shown)} more"] if len(value) > len(shown) else []))
    if isinstance(value, np.ndarray):
        numbers = " ".join(f"{number:.4g}" for number in value[:_MOST_SHOWN])
        return f"[{numbers}{f' ... of {len(value):,}' if len(value) > _MOST_SHOWN else ''}]"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return repr(value) if isinstance(value, str) and not value.isprintable() else str(value)


def _lost(lost: Mapping[str, Any]) -> str:
    of = {"slots": "slots", "steps": lost["of"]}
    counts = [f"{lost[key]:,} of {lost[f'of_{key}']:,} {what}" for key, what in of.items() if lost[key]]
    return f"{' and '.join(counts)}; most often: {lost['reason']}" if counts else "nothing"


def plain_rows(records: Iterable[Mapping[str, Any]]) -> list[dict[str, str | int | float]]:
    """Return the records of rounds with nothing but texts and numbers in them, as a table wants them.

    A list becomes the number of its entries, ``skipped`` the number of steps, ``interventions`` a text; what is not
    there is NaN.
    """
    return [{name: _plain(name, value) for name, value in record.items()} for record in records]


def _plain(name: str, value: Any) -> str | int | float:
    if value is None:
        return math.nan
    if name == "interventions":
        return "; ".join(f"{one['what']}: {_told(one['before'])} -> {_told(one['after'])}" for one in value)
    if name == "skipped":
        return sum(int(one["steps"]) for one in value)
    if isinstance(value, str | int | float):
        return value
    return len(value)


def _told(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def takes_one(callback: Any) -> bool:
    """Whether this can be called with one argument."""
    if not callable(callback):
        return False
    try:
        inspect.signature(callback).bind(None)
    except TypeError:
        return False
    except ValueError:  # some functions written in C have no signature
        return True
    return True


def asks_to_stop(callback: Any, intermediate: OptimizeResult) -> bool:
    """Call a callback, and return whether it wants no more: it returned True or raised StopIteration."""
    try:
        answer = callback(intermediate)
    except StopIteration:
        return True
    return isinstance(answer, bool | np.bool_) and bool(answer)
