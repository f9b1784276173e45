"""The event loop of this process's gRPC servers, in a thread of its own."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Coroutine
from functools import cache
from typing import Any, TypeVar

__all__ = ["event_loop", "interrupt", "wait_for"]

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
        try:
            loop.run_forever()
        finally:
            interrupt()

    threading.Thread(target=run, daemon=True, name="grpc").start()
    return loop


def interrupt() -> None:
    """Interrupt the program, since nobody listens any more: a run is saved, and its process ends with code 130."""
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)


def wait_for(work: Coroutine[Any, Any, _T]) -> _T:
    """Run a coroutine in the loop and return its result; for any other thread."""
    return asyncio.run_coroutine_threadsafe(work, event_loop()).result()
