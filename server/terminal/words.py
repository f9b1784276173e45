"""The verdict on a run in words, made from summary.json."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["loss_word", "number", "outlier_text", "percent", "verdict_text"]

_MOST_PERCENT = 1e5


def outlier_text(client: str, found: Mapping[str, float], *, search: bool) -> str:
    """Return how far the moves of a client, or the values of a site in a search, are from the others'."""
    what = "spread its values" if search else "moved"
    return f"client {client} {what} {found['times']:.3g} times as far as the median in {found['slots']:.0f} slots"


def loss_word(*, maximize: bool) -> str:
    """Return what F is called: a loss, or a value where the run maximises."""
    return "value" if maximize else "loss"


def number(value: float | None) -> str:
    """Return a number with four digits; - where there is none."""
    return "-" if value is None else f"{value:.4g}"


def percent(change: float, of: float) -> str:
    """Return a change in percent of the number that changes, or as it is where that is 0 or far smaller."""
    if not of or not (share := 100.0 * abs(change / of)) < _MOST_PERCENT:
        return number(abs(change))
    return f"{share:.0f}%" if share >= 10.0 else f"{share:.2g}%"


def verdict_text(summary: Mapping[str, Any]) -> str:
    """Return whether x is better than the start, by how much, and at how many sites."""
    found = summary["comparison"]
    if found is None:
        return "unknown whether x is better than the start: the clients tell no losses"
    if len(found["sites"]) <= len(found["lost"]):
        asked = len(found["sites"]) + len(found["lost"])
        return f"unknown whether x is better than the start: {len(found['sites'])} of {asked} sites have evaluated both"
    if summary["x_is"] == "start":
        last = f"; the last x is worse by {number(-found['last_gain'])}" if (found["last_gain"] or 0.0) < 0.0 else ""
        return f"not better: no x was better than the start, so x is the start{last}"
    verdict = "better than the start" if summary["success"] else "not better than the start by more than the noise"
    return "; ".join([f"{verdict}: gain {_gain(found)}", *_sites(found)])


def _gain(found: Mapping[str, Any]) -> str:
    told = number(found["gain"])
    if found["these_sites"] is None:
        return told
    low, high = found["these_sites"]
    return f"{told} exactly" if low == high else f"{told} (95%: {number(low)} to {number(high)})"


def _sites(found: Mapping[str, Any]) -> list[str]:
    rows = found["sites"]
    if len(rows) < 2:
        return []
    told = [f"better at {found['wins']} of {len(rows)} sites"]
    worst = min(rows, key=lambda row: float(row["gain"]))
    if worst["gain"] < 0.0:
        told[0] += f" (worst: {worst['site']}, worse by {percent(worst['gain'], worst['start'])})"
    if found["lost"]:
        told.append(f"{len(found['lost'])} more did not answer")
    if alike := found["sites_like_these"]:
        told.append(f"at sites like these {number(alike[0])} to {number(alike[1])} (95%)")
    return told
