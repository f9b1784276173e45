"""clients.jsonl: what each client gave to each round, and when it came and went."""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from zofedht.common.machine.files import cannot_write, replace_file
from zofedht.server.core.round_record import ClientWork, RoundRecord
from zofedht.server.core.state import ServerState

__all__ = ["ClientLog"]


class ClientLog:
    """Appends a line for each round, and for each client that joins or leaves; an observer.

    A line is one of these JSON objects, each with its ``time``, in seconds since 1970:

    - ``round`` and ``clients``: by name a list of usable slots, seconds, bytes up, bytes down and times. Times is the
      length of the client's longest move over the running median, or null.
    - ``joined`` or ``left``: the name of a client. ``why`` is the reason where the client left by its own fault.
    - ``connected``: 0, where a server has started to listen.
    """

    def __init__(self, path: Path, clock: Callable[[], float] = time.time) -> None:
        self.path = path
        self._clock = clock
        self._lock = threading.Lock()  # clients come and go in threads of their own

    def __call__(self, state: ServerState, record: RoundRecord) -> None:
        """Write the clients of a round. Raises DataError when the file cannot be written."""
        self._write({"round": record.round, "clients": {name: _cells(work) for name, work in record.clients.items()}})

    def listening(self) -> None:
        """Note that nobody is connected: a server has started. Raises DataError when the file cannot be written."""
        self._write({"connected": 0})

    def joined(self, name: str) -> None:
        """Note that a client has joined. Raises DataError when the file cannot be written."""
        self._write({"joined": name})

    def left(self, name: str, why: str) -> None:
        """Note that a client has left. Raises DataError when the file cannot be written."""
        self._write({"left": name} | ({"why": why} if why else {}))

    def truncate(self, rounds: int) -> None:
        """Drop the rounds from ``rounds`` on, which will run again, and a line that a kill has torn."""
        if not self.path.exists():
            return
        kept = [line for line in self.path.read_bytes().splitlines(keepends=True) if _stays(line, rounds)]
        replace_file(self.path, b"".join(kept))

    def _write(self, line: Mapping[str, Any]) -> None:
        text = json.dumps({"time": round(self._clock(), 3)} | dict(line), allow_nan=False, separators=(",", ":"))
        try:
            with self._lock, self.path.open("a", encoding="utf-8") as file:
                file.write(text + "\n")
        except OSError as error:
            raise cannot_write(self.path, error) from error


def _cells(work: ClientWork) -> list[float | None]:
    times = None if math.isnan(work.times) else float(f"{work.times:.4g}")
    return [work.slots, round(work.seconds, 6), work.bytes_up, work.bytes_down, times]


def _stays(line: bytes, rounds: int) -> bool:
    try:
        row = json.loads(line)
    except ValueError:
        return False
    return line.endswith(b"\n") and isinstance(row, dict) and row.get("round", -1) < rounds
