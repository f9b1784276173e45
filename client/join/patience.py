"""When a client that lost its server tries again, and when it gives up. Pure but for the clock and the jitter."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

__all__ = ["Patience"]

_FIRST_WAIT, _LONGEST_WAIT = 0.5, 30.0  # seconds between tries; doubled each time, with jitter
_SAME_NAME_PATIENCE = 25.0  # seconds in which the server may still believe in an earlier process
_SAME_NAME_WAIT = 2.0


class Patience:
    """Waits that double from half a second to half a minute, times a jitter of 0.5 to 1.5, and restart after success.

    The jitter keeps a thousand clients from coming back at the same instant.
    """

    def __init__(
        self,
        max_wait: float,
        *,
        clock: Callable[[], float] = time.monotonic,
        jitter: Callable[[], float] = lambda: random.uniform(0.5, 1.5),
    ) -> None:
        """Give up after ``max_wait`` seconds without a connection."""
        self._max_wait = max_wait
        self._clock = clock
        self._jitter = jitter
        self._wait = _FIRST_WAIT
        self._lost_since = clock()
        self._taken_since: float | None = None

    def admitted(self) -> None:
        """Note that the server has let this client in."""
        self._wait, self._taken_since = _FIRST_WAIT, None

    def lost(self) -> None:
        """Note that an admitted client has lost its connection now."""
        self._lost_since = self._clock()

    def pause(self, *, taken: bool = False) -> float | None:
        """Return the seconds to wait before the next try, or None when it is time to give up.

        ``taken`` means that the server refused because a client of this name is connected. That client may be this
        device's earlier process, whose end the server has not noticed yet. So the wait goes on for 25 seconds.
        """
        now = self._clock()
        self._taken_since = (now if self._taken_since is None else self._taken_since) if taken else None
        if self._taken_since is not None and now - self._taken_since >= _SAME_NAME_PATIENCE:
            return None
        left = self._max_wait - (now - self._lost_since)
        if left <= 0.0:
            return None
        wait, self._wait = self._wait, min(2.0 * self._wait, _LONGEST_WAIT)
        if taken:
            wait = min(wait, _SAME_NAME_WAIT)
        return min(wait * self._jitter(), left)
