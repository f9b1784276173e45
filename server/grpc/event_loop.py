"""The event loop of this process's gRPC servers, in a thread of its own."""

from __future__ import annotations

import asyncio
import logging
import signal
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import cache
from typing import Any, TypeVar
from weakref import WeakKeyDictionary, ref

import grpc

__all__ = ["Errands", "errands_of", "event_loop", "interrupt", "wait_for"]

_log = logging.getLogger(__name__)
_T = TypeVar("_T")
_starting = threading.Lock()
_errands: WeakKeyDictionary[asyncio.AbstractEventLoop, Errands] = WeakKeyDictionary()


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

    # grpcio ends its queue with the last server, in whichever thread drops that, and closes the socket that the loop
    # may be reading at that moment. Held once more, the queue is there as long as the loop.
    loop.call_soon(grpc.aio.init_grpc_aio)
    threading.Thread(target=run, daemon=True, name="grpc").start()
    return loop


class Errands:
    """Calls of other threads to a loop, which is woken once for many: a wake is a system call and a switch of threads.

    They are done in the order in which they came.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = ref(loop)  # ``errands_of`` keeps these as long as the loop is there
        self._waiting: deque[tuple[Callable[..., object], tuple[object, ...]]] = deque()
        self._woken = False

    def add(self, act: Callable[..., object], *args: object) -> None:
        """Let the loop call ``act``. Raises RuntimeError once the loop is closed."""
        loop = self._loop()
        if loop is None or loop.is_closed():
            raise RuntimeError("the loop is closed")
        self._waiting.append((act, args))
        if not self._woken:  # the loop clears it before it looks, so what was added until then is seen
            self._woken = True
            loop.call_soon_threadsafe(self._begin, loop)

    def _begin(self, loop: asyncio.AbstractEventLoop) -> None:
        self._woken = False
        try:
            while self._waiting:
                act, args = self._waiting.popleft()
                act(*args)
        finally:
            if self._waiting:  # one has failed; the loop tells of it, and the others are done all the same
                loop.call_soon(self._begin, loop)


def errands_of(loop: asyncio.AbstractEventLoop) -> Errands:
    """Return the errands of a loop, which has one object for all who have some."""
    with _starting:
        return _errands.setdefault(loop, Errands(loop))


def interrupt(why: str = "") -> None:
    """Interrupt the program, since nobody listens any more: a run is saved, and its process ends with code 130."""
    _log.error("the gRPC listener has ended, so the server ends, too%s", why)
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)


def wait_for(work: Coroutine[Any, Any, _T]) -> _T:
    """Run a coroutine in the loop and return its result; for any other thread. Raises RuntimeError once it has died."""
    return asyncio.run_coroutine_threadsafe(work, event_loop()).result()
