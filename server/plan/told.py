"""What a site has told about its checks, as findings: sentences are made here, of levels and numbers."""

from __future__ import annotations

from collections.abc import Sequence

from zofedht.common.checks.finding import Finding
from zofedht.common.objective.units import place_of
from zofedht.common.typing import Vector
from zofedht.common.wire.checked import Checked

__all__ = ["findings_of"]

_SHOWN = 5
_SENTENCES = {
    "value": "F cannot be evaluated at the starting point",
    "arguments": "a method changes its arguments; work on a copy",
    "repeats": "different losses for the same x and batch",
    "whole": "the whole shard cannot be evaluated, or evaluate() gives no numbers with a 'loss' among them",
    "pair": "pair() and value() disagree",
    "values": "values() and value() disagree",
    "concurrency": "evaluations at once give other losses than alone; set concurrency = 1",
    "parameters": "F does not change with some parameters",
}
_MORE = "the site's own log says more"


def findings_of(told: Checked, names: Sequence[str]) -> tuple[Finding, ...]:
    """Return a finding for each check that was made; ``names`` are those of the parameters, or none."""
    found: list[Finding] = []
    for name, level in told.levels.items():
        text = "" if level == "ok" else f"{_SENTENCES[name]}{_detail(told, name, names)} ({_MORE})"
        cause = told.cause if level == "error" else None
        found.append(Finding(name, level, text, cause=cause))
    return tuple(found)


def _detail(told: Checked, name: str, names: Sequence[str]) -> str:
    if name == "repeats" and told.spread is not None:
        return f", spread {told.spread[0]:.2g}"
    if name != "parameters":
        return ""
    flat, steep = (_places(places, names) for places in (told.flat, told.steep))
    parts = [f"{flat} at all: leave it out" if flat else "", f"{steep} within the radius" if steep else ""]
    return f": {'; '.join(part for part in parts if part)}" if flat or steep else ""


def _places(places: Vector | None, names: Sequence[str]) -> str:
    if places is None:
        return ""
    more = f" and {len(places) - _SHOWN} more" if len(places) > _SHOWN else ""
    return ", ".join(place_of(int(place), names) for place in places[:_SHOWN]) + more
