"""The event loop of this process's gRPC servers, in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from functools import cache
from typing import Any, TypeVar

__all__ = ["event_loop", "wait_for"]

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
    threading.Thread(target=loop.run_forever, daemon=True, name="grpc").start()
    return loop


def wait_for(work: Coroutine[Any, Any, _T]) -> _T:
    """Run a coroutine in the loop and return its result; for any other thread."""
    return asyncio.run_coroutine_threadsafe(work, event_loop()).result()
