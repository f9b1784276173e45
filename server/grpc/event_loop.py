"""The event loop of this process's gRPC servers, in a thread of its own."""

from __future__ import annotations

import asyncio
import logging
import signal
import threading
from collections.abc import Coroutine
from contextlib import suppress
from functools import cache
from typing import Any, TypeVar

__all__ = ["event_loop", "interrupt", "wait_for"]

_log = logging.getLogger(__name__)
_T = TypeVar("_T")
_starting = threading.Lock()


def event_loop() -> asyncio.AbstractEventLoop:
    """Return the loop; it runs from the first call to the end of the process.

    There is one in a process, since grpcio's asynchronous half has one queue of events for all loops.
    """
    with _starting:
        return _started()


@cache
def _started() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()

    def run() -> None:
        why = ""
        try:
            loop.run_forever()
        except BaseException as error:
            why = f": {type(error).__name__} {error}".rstrip()
        with suppress(Exception):
            loop.close()  # whoever asks it for something from now on gets a RuntimeError, and waits for nothing
        interrupt(why)

    threading.Thread(target=run, daemon=True, name="grpc").start()
    return loop


def interrupt(why: str = "") -> None:
    """Interrupt the program, since nobody listens any more: a run is saved, and its process ends with code 130."""
    _log.error("the gRPC listener has ended, so the server ends, too%s", why)
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)


def wait_for(work: Coroutine[Any, Any, _T]) -> _T:
    """Run a coroutine in the loop and return its result; for any other thread. Raises RuntimeError once it has died."""
    return asyncio.run_coroutine_threadsafe(work, event_loop()).result()
