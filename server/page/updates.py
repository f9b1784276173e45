"""What a browser does not know yet, as server-sent events."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import Any

from zofedht.server.page.thin import Point
from zofedht.server.page.view import RunView

__all__ = ["MOST_POINTS", "Updates"]

MOST_POINTS = 800
"""Points that a curve is drawn from at first."""

_MOST_NEW = 200
_MOST_CLIENTS = 1000


class Updates:
    """Follows a run for one browser.

    The id of an event names the last round that was sent and a checksum of its line. A browser that comes back with an
    id, to this server or to a later one, gets the rounds after it; where that line has changed, it gets all anew.
    """

    def __init__(self, view: RunView, last_id: str = "") -> None:
        self._view = view
        round_, _, mark = last_id.partition(".")
        known = round_.isdecimal() and mark.isdecimal() and view.has(int(round_), int(mark))
        self._begin(int(round_) if known else -1)

    def _begin(self, round_: int) -> None:
        self._first = True
        self._begun = self._view.begun
        self._round = round_  # the last one that was sent
        self._looks = -1  # the look whose clients were sent
        self._notes = {"failures": 0, "interventions": 0}  # how many were sent
        self._sent: dict[str, Any] = {}

    def next(self) -> str:
        """Return the next event, or an empty text where nothing is new."""
        view = self._view
        if view.begun != self._begun:
            self._begin(-1)  # rounds that were sent are run again
        message: dict[str, Any] = {}
        if self._first:
            message = {"reset": self._round < 0, "lists": True, "now": time.time()}
        if points := view.since(self._round, MOST_POINTS if self._first else _MOST_NEW):
            message["points"] = points
            self._round = view.points[-1].round
        rows = list(view.clients.rows.values())
        if changed := [row.cells() for row in rows[:_MOST_CLIENTS] if row.changed > self._looks]:
            message["clients"] = changed
        message |= self._new_notes("failures", list(view.failures), view.failed)
        message |= self._new_notes("interventions", list(view.interventions), view.intervened)
        hidden = max(0, len(rows) - _MOST_CLIENTS)
        now: dict[str, Any] = {"status": view.status(), "config": view.config_keys(), "settings": view.settings()}
        now |= {"files": view.files(), "hidden": hidden}
        for name, value in now.items():
            if self._sent.get(name) != value:
                self._sent[name] = message[name] = value
        self._looks, self._first = view.looks, False
        return _event(message, self._id()) if message else ""

    def _new_notes(self, name: str, kept: Sequence[dict[str, Any]], count: int) -> dict[str, Any]:
        new = min(count - self._notes[name], len(kept))
        self._notes[name] = count
        return {name: kept[-new:]} if new else {}

    def _id(self) -> str:
        return f"{self._round}.{self._view.marks[-1]}" if self._view.points else ""


def _event(message: dict[str, Any], id_: str) -> str:
    text = json.dumps(message, allow_nan=False, separators=(",", ":"))
    return f"id: {id_}\ndata: {text}\n\n" if id_ else f"data: {text}\n\n"


def as_rows(points: Sequence[Point]) -> str:
    """Return points as JSON."""
    return json.dumps(points, allow_nan=False, separators=(",", ":"))
