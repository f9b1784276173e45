"""Places for clients that have not introduced themselves yet: a flood of them keeps nobody else out.

The newest always gets a place. Where there is none left, the one that has waited longest gives up its own: among those
with the same certificate if these have too many, else at the address that has most.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import dataclass

__all__ = ["Place", "Places"]

_OF_A_CERTIFICATE = 4  # a device, and its connections whose end is not known yet


@dataclass(eq=False)
class Place:
    """One client that is about to introduce itself."""

    certificate: Hashable  # its name there, or None without one
    address: Hashable
    end: Callable[[], None]  # called when the place is taken away
    taken_away: bool = False


class Places:
    """At most ``most`` clients introduce themselves at once."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._taken: dict[Place, None] = {}  # in the order of their coming

    def take(self, place: Place) -> None:
        """Give the client a place, and end the one that must leave for it."""
        with self._lock:
            leaving = self._leaving(place)
            if leaving is not None:
                del self._taken[leaving]
                leaving.taken_away = True
            self._taken[place] = None
        if leaving is not None:
            leaving.end()

    def leave(self, place: Place) -> None:
        """Free the place, unless it was given away."""
        with self._lock:
            self._taken.pop(place, None)

    def _leaving(self, place: Place) -> Place | None:
        if place.certificate is not None:
            same = [other for other in self._taken if other.certificate == place.certificate]
            if len(same) >= _OF_A_CERTIFICATE:
                return same[0]
        if len(self._taken) < self._most:
            return None
        [(crowd, _)] = Counter(other.address for other in self._taken).most_common(1)
        return next(other for other in self._taken if other.address == crowd)
