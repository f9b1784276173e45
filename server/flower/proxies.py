"""Proxies that need no thread while their client works."""

from __future__ import annotations

import re
import time
from abc import abstractmethod
from concurrent.futures import Executor, Future

from flwr.common import EvaluateIns, EvaluateRes, FitIns, FitRes
from flwr.server.client_proxy import ClientProxy

__all__ = ["FIRST_ANSWER", "PromptProxy", "evaluate_later", "fit_later", "plainly"]

FIRST_ANSWER = 300.0
"""Seconds that a node of Flower's has for its first answer at least: it starts, and loads the app and user's code."""

_FROM_FLOWER = re.compile(r"Message contains an Error \(reason: (.*)\)\. It originated during client-side", re.DOTALL)
_OF_THE_APP = re.compile(
    r"Exception ClientAppException occurred\. Message: (.*?)(?:'>)?$", re.DOTALL
)  # after a traceback
_MEANINGS = {
    "OutOfMemory|memory pressure": "its process was ended since the memory of its machine ran out",
    "ActorDied|ActorUnavailable|WorkerCrashed|NodeDied": "its process died: its code ended it or it was killed",
    "GetTimeoutError|Message Unavailable": "no answer within round-timeout",
}


class PromptProxy(ClientProxy):
    """A client whose answer is a future."""

    @abstractmethod
    def fit_later(self, ins: FitIns, timeout: float) -> Future[FitRes]:
        """Ask for a slot of work; the future fails when there is no answer within ``timeout`` seconds."""

    @abstractmethod
    def evaluate_later(self, ins: EvaluateIns, timeout: float) -> Future[EvaluateRes]:
        """Ask for an evaluation, as ``fit_later`` does."""


def fit_later(proxy: ClientProxy, ins: FitIns, timeout: float, round_: int, pool: Executor) -> Future[FitRes]:
    """Ask any client for a slot of work; a thread of the pool waits where Flower's proxy needs one."""
    if isinstance(proxy, PromptProxy):
        return proxy.fit_later(ins, timeout)
    return pool.submit(proxy.fit, ins, timeout=timeout, group_id=round_)


def evaluate_later(proxy: ClientProxy, ins: EvaluateIns, deadline: float, pool: Executor) -> Future[EvaluateRes]:
    """Ask any client for an evaluation until ``time.monotonic()`` is ``deadline``, as ``fit_later`` does."""

    def left() -> float:
        return max(0.01, deadline - time.monotonic())

    if isinstance(proxy, PromptProxy):
        return proxy.evaluate_later(ins, left())
    return pool.submit(lambda: proxy.evaluate(ins, timeout=left(), group_id=0))


def plainly(error: BaseException) -> str:
    """Return what an error says, without Flower's and Ray's words for what has become of a client."""
    if not (found := _FROM_FLOWER.search(str(error))):
        return str(error) or type(error).__name__
    if told := _OF_THE_APP.search(found[1]):
        return told[1]
    return next((meaning for words, meaning in _MEANINGS.items() if re.search(words, found[1])), found[1])
