"""The table of clients: when each was seen last, what it gave, what it lost, and what it cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["ClientRow", "ClientTable"]


@dataclass
class ClientRow:
    """One client. ``changed`` is the number of the look at the files in which it changed last."""

    name: str
    changed: int = 0
    connected: bool | None = None  # None where clients have no connections
    seen: float | None = None  # seconds since 1970 of its last sign of life
    rounds: int = 0  # with a usable slot
    slots: int = 0
    lost: Counter[str] = field(default_factory=Counter)  # slots, by cause
    reason: str = ""  # of the last lost slot
    seconds: float = 0.0  # from question to answer, in all
    latest: float | None = None  # the same of its last round, for a slot
    bytes_up: int = 0
    bytes_down: int = 0
    times: float | None = None  # outlier score: length of its last move over the running median
    worst: float | None = None
    outliers: int = 0  # slots

    def cells(self) -> dict[str, Any]:
        """Return the row as the page gets it."""
        cells = {name: value for name, value in vars(self).items() if name != "changed"}
        return cells | {"lost": dict(self.lost)}


class ClientTable:
    """Adds up the lines of clients.jsonl and of the history."""

    def __init__(self) -> None:
        self.rows: dict[str, ClientRow] = {}

    @property
    def connected(self) -> int | None:
        """How many clients are connected; None where clients have no connections."""
        known = [row.connected for row in self.rows.values() if row.connected is not None]
        return sum(known) if known else None

    def add_line(self, line: Mapping[str, Any], now: int) -> None:
        """Take a line of clients.jsonl; ``now`` is the number of this look at the files."""
        seen = float(line["time"])
        if "clients" in line:
            for name, cells in line["clients"].items():
                _add_work(self._row(name, now), cells, seen)
        elif "connected" in line:
            for row in self.rows.values():
                if row.connected:
                    row.connected, row.changed = False, now
        else:
            row = self._row(str(line.get("joined", line.get("left"))), now)
            row.connected, row.seen = "joined" in line, seen

    def add_round(self, row: Mapping[str, Any], now: int) -> None:
        """Take what a line of the history says of lost slots and of outliers."""
        for failure in row["failures"]:
            if failure["cause"] != "stale":
                client = self._row(str(failure["client"]), now)
                client.lost[str(failure["cause"])] += 1
                client.reason = str(failure["reason"])
        for outlier in row["outliers"]:
            self._row(str(outlier["client"]), now).outliers += 1

    def _row(self, name: str, now: int) -> ClientRow:
        row = self.rows.setdefault(name, ClientRow(name))
        row.changed = now
        return row


def _add_work(row: ClientRow, cells: list[Any], seen: float) -> None:
    slots, seconds, up, down, times = cells
    row.bytes_up += up
    row.bytes_down += down
    row.seconds += seconds
    if not slots:
        return
    row.rounds += 1
    row.slots += slots
    row.latest = seconds / slots
    row.seen = seen
    if times is not None:
        row.times = times
        row.worst = times if row.worst is None else max(times, row.worst)
