"""A round in this process that takes too long: nothing can end the user's code there, so it is told where it is."""

from __future__ import annotations

import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from zofedht.common.objective.user_traceback import user_place_of

__all__ = ["told_when_overdue"]


@contextmanager
def told_when_overdue(seconds: float, what: str) -> Iterator[None]:
    """Warn of where the calling thread is, once, if the block takes longer than round-timeout.

    A command logs the warning; in Python it is a UserWarning.
    """
    caller = threading.get_ident()

    def tell() -> None:
        place = user_place_of(sys._current_frames().get(caller)) or " (in the objective)"
        text = (
            f"{what} has taken round-timeout = {seconds:g} seconds and still runs{place}: in one process"
            " nothing ends an evaluation; interrupt the run and resume it, or let clients join by `serve`, which goes"
            " on without a client that hangs"
        )
        with suppress(UserWarning):  # where warnings are errors, this thread is nobody's to end
            warnings.warn(text, stacklevel=2)

    timer = threading.Timer(min(seconds, threading.TIMEOUT_MAX), tell)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
