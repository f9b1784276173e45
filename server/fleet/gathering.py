"""``fleet.map``: calls of fleet(x) in many threads, answered as one batch when all threads wait for one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from contextvars import copy_context
from typing import Any

import numpy as np

from zofedht.common.typing import Matrix, Vector

__all__ = ["Gathering", "gathered_map"]

_here = threading.local()


class Gathering:
    """Meets the threads of one map. A batch holds what the waiting threads ask, in the order of their items."""

    def __init__(self, evaluate: Callable[[Matrix], Vector], threads: int) -> None:
        self._evaluate = evaluate
        self._running = threads
        self._changed = threading.Condition()
        self._waiting: dict[int, Vector] = {}
        self._told: dict[int, float | BaseException] = {}

    @staticmethod
    def current() -> tuple[Gathering, int] | None:
        """Return the gathering that this thread belongs to, and its item."""
        return getattr(_here, "place", None)

    def ask(self, item: int, x: Vector) -> float:
        """Return F at x as soon as every other thread waits as well, or has ended."""
        with self._changed:
            self._waiting[item] = x
            self._answer_if_all_wait()
            self._changed.wait_for(lambda: item in self._told)
            answer = self._told.pop(item)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def run(self, item: int, function: Callable[[Any], Any], argument: Any) -> Any:
        """Call the function as the thread of this item."""
        _here.place = (self, item)
        try:
            return function(argument)
        finally:
            _here.place = None
            with self._changed:
                self._running -= 1
                self._answer_if_all_wait()

    def _answer_if_all_wait(self) -> None:
        if not self._waiting or len(self._waiting) < self._running:
            return
        items = sorted(self._waiting)
        points = [self._waiting.pop(item) for item in items]
        try:
            self._told.update(zip(items, map(float, self._evaluate(np.array(points))), strict=True))
        except BaseException as error:  # each thread that asked raises it
            self._told.update(dict.fromkeys(items, error))
        self._changed.notify_all()


def gathered_map(
    evaluate: Callable[[Matrix], Vector], function: Callable[[Any], Any], arguments: Iterable[Any]
) -> list[Any]:
    """Return the function's value at each argument; what its calls ask of the fleet at one time is one batch.

    Raises what the first call that failed has raised, when all have ended.
    """
    items = list(arguments)
    gathering = Gathering(evaluate, len(items))
    results: dict[int, Any] = {}
    errors: dict[int, BaseException] = {}

    def work(item: int) -> None:
        try:
            results[item] = gathering.run(item, function, items[item])
        except BaseException as error:
            errors[item] = error

    threads = [
        threading.Thread(target=copy_context().run, args=(work, item), daemon=True) for item in range(len(items))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[min(errors)]
    return [results[item] for item in range(len(items))]
