"""Who is there: the wait for somebody to ask, which an interrupt ends."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from flwr.server.client_proxy import ClientProxy

from zofedht.common.errors import RoundError
from zofedht.common.wire.clients import Member

__all__ = ["Presence"]

_log = logging.getLogger(__name__)

_WORTH_A_WORD = 2.0  # seconds without anybody to ask
_POLL = 0.05  # seconds between looks for a node


class Presence:
    """The clients that can be drawn, from one look to the next."""

    def __init__(
        self, homes: Callable[[], dict[Member, ClientProxy]], patience: float, interrupted: threading.Event
    ) -> None:
        """``patience`` is how many seconds to wait for somebody; ``interrupted`` is set to end the run."""
        self._homes, self._patience, self._interrupted = homes, patience, interrupted
        self.seen: dict[str, None] = {}  # clients that were there at some time, in the order that they came in

    def wait(self) -> dict[Member, ClientProxy]:
        """Return who can be drawn and where, as soon as there is somebody. Raises RoundError where that takes long."""
        self.check_interrupt()
        # Flower's own wait lasts a day.
        began, told = time.monotonic(), False
        while not (homes := self._homes()):
            waited = time.monotonic() - began
            if waited > self._patience:
                raise RoundError(f"no client connected within {self._patience:g} seconds")
            if waited > _WORTH_A_WORD and not told:
                told = True
                _log.info("waiting for clients: none can be asked now")
            time.sleep(_POLL)
            self.check_interrupt()
        self.seen |= dict.fromkeys(member.name for member in homes)
        return homes

    def check_interrupt(self) -> None:
        """Raise RoundError where another thread has ended the run."""
        if self._interrupted.is_set():
            raise RoundError("the run was interrupted")
