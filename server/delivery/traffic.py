"""How many bytes went over the wire, by client."""

from __future__ import annotations

import threading
from collections.abc import Sequence

__all__ = ["Meter", "Traffic"]


class Traffic:
    """Counts the bytes of messages; any thread may tell of one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[str, tuple[int, int]] = {}

    def of(self, client: str) -> Meter:
        """Return what counts the messages to and from one client."""
        return Meter(self, client)

    def add(self, client: str, *, up: int = 0, down: int = 0) -> None:
        """Count bytes from and to a client."""
        with self._lock:
            before = self._counts.get(client, (0, 0))
            self._counts[client] = before[0] + up, before[1] + down

    def share(self, clients: Sequence[str], *, up: int = 0, down: int = 0) -> None:
        """Count a message that is for several clients: an equal share for each, and the rest for the first ones."""
        count = len(clients)
        for index, client in enumerate(clients):
            self.add(client, up=(up + count - 1 - index) // count, down=(down + count - 1 - index) // count)

    def take(self) -> dict[str, tuple[int, int]]:
        """Return the bytes (up, down) of each client since the last time."""
        with self._lock:
            taken, self._counts = self._counts, {}
        return taken


class Meter:
    """Counts the bytes of one client's messages."""

    def __init__(self, traffic: Traffic, client: str) -> None:
        self._traffic = traffic
        self._client = client

    def sent(self, size: int) -> None:
        """Count a message to the client."""
        self._traffic.add(self._client, down=size)

    def received(self, size: int) -> None:
        """Count a message from the client."""
        self._traffic.add(self._client, up=size)
