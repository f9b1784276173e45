"""How many bytes went over the wire."""

from __future__ import annotations

import threading

__all__ = ["Traffic"]


class Traffic:
    """Counts the bytes of messages; any thread may tell of one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._up = self._down = 0

    def sent(self, size: int) -> None:
        """Count a message to a client."""
        with self._lock:
            self._down += size

    def received(self, size: int) -> None:
        """Count a message from a client."""
        with self._lock:
            self._up += size

    def take(self) -> tuple[int, int]:
        """Return the bytes (up, down) since the last time."""
        with self._lock:
            taken = self._up, self._down
            self._up = self._down = 0
        return taken
