"""One client's stream seen from the server: questions out, answers in, one at a time, in bounded memory."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterator
from enum import Enum, auto

from flwr.proto.transport_pb2 import ClientMessage

from zofedht.server.core.traffic import Traffic

__all__ = ["GRPC_PREFIX", "Conversation", "LostClient"]

GRPC_PREFIX = 5
"""Bytes that gRPC puts in front of each message: a flag and the length."""


class LostClient(Exception):  # noqa: N818  (it is the client that is lost, not an error of ours)
    """The client's stream ended, or its answer did not come in time."""


class _State(Enum):
    IDLE = auto()  # nothing is asked
    ASKED = auto()  # somebody waits for the answer
    LATE = auto()  # nobody waits any more; the answer, when it comes, is dropped


class Conversation:
    """Carries serialised ServerMessages to one client and its ClientMessages back.

    A client that is too late keeps its stream, so that it loses a slot and not its connection; it is asked
    nothing until the late answer has come. A client that speaks without being asked loses the stream: what is
    held for a client is therefore never more than one answer.
    """

    def __init__(self, most_bytes: int) -> None:
        """``most_bytes`` is the longest message that is read; it may be raised when the client is known."""
        self.most_bytes = most_bytes
        self._out: queue.SimpleQueue[tuple[bytes, Traffic | None] | None] = queue.SimpleQueue()
        self._traffic: Traffic | None = None  # counts the answer to the question that is out
        self._turn = threading.Lock()  # a client that was drawn twice answers one slot after the other
        self._changed = threading.Condition()
        self._state = _State.IDLE
        self._answer: ClientMessage | None = None
        self._end = ""  # why the stream has ended
        self.complaint = ""  # what the client did wrong, where that is why

    def ask(self, message: bytes, timeout: float, traffic: Traffic | None = None) -> ClientMessage:
        """Send a serialised ServerMessage and return the answer; ``traffic`` counts both when they cross the wire.

        Raises LostClient when the stream ends, and after ``timeout`` seconds, which include the wait for the
        client's other slots.
        """
        deadline = time.monotonic() + timeout
        if not self._turn.acquire(timeout=timeout):
            raise LostClient(f"no answer within {timeout:.3g} seconds: it was still at work on another slot")
        try:
            self.expect(traffic)
            self._out.put((message, traffic))
            return self.next_answer(deadline - time.monotonic())
        finally:
            self._turn.release()

    def expect(self, traffic: Traffic | None = None) -> None:
        """Note that a question goes out now. Raises LostClient when the client cannot be asked."""
        with self._changed:
            if self._end:
                raise LostClient(self._end)
            if self._state is not _State.IDLE:
                raise LostClient("it is still at work on an earlier question")
            self._state = _State.ASKED
            self._traffic = traffic

    def next_answer(self, timeout: float) -> ClientMessage:
        """Return the answer to the question that is out. Raises LostClient as ``ask`` does."""
        with self._changed:
            self._changed.wait_for(lambda: self._answer is not None or bool(self._end), max(0.0, timeout))
            answer, self._answer = self._answer, None
            if answer is not None:
                return answer
            if self._end:
                raise LostClient(self._end)
            self._state = _State.LATE
            raise LostClient(f"no answer within {timeout:.3g} seconds")

    def listen(self, messages: Iterator[bytes]) -> None:
        """Take in the client's messages until the stream ends; runs in a thread of its own."""
        try:
            for data in messages:
                complaint = self._take(data)
                if complaint:
                    self.complaint = complaint
                    self.close(complaint)
                    return
        except Exception:  # grpc tells of the end of a stream by an Exception without a type
            return
        finally:
            self.close()

    def _take(self, data: bytes) -> str | None:
        if len(data) > self.most_bytes:
            return f"it sent {len(data)} bytes where {self.most_bytes} are the most"
        try:
            message = ClientMessage.FromString(data)
        except Exception:  # protobuf's DecodeError, or what it makes of a wrong text
            return f"it sent {len(data)} bytes that are no message"
        with self._changed:
            if self._state is _State.IDLE:
                return "it spoke without being asked"
            if self._traffic is not None:  # a late answer that nobody waits for has crossed the wire as well
                self._traffic.received(len(data) + GRPC_PREFIX)
            if self._state is _State.ASKED:
                self._answer = message
                self._changed.notify_all()
            self._state = _State.IDLE
        return None

    def outgoing(self) -> Iterator[bytes]:
        """Yield what is to be sent, until the conversation is closed."""
        while (item := self._out.get()) is not None:
            message, traffic = item
            if traffic is not None:
                traffic.sent(len(message) + GRPC_PREFIX)
            yield message

    def dismiss(self, message: bytes) -> None:
        """Send a last message, whatever the client is doing, and end the conversation after it."""
        self._out.put((message, None))
        self.close()

    def close(self, reason: str = "the connection was lost") -> None:
        """End the conversation; what waits for an answer raises LostClient with the reason."""
        with self._changed:
            self._end = self._end or reason
            self._changed.notify_all()
        self._out.put(None)

    @property
    def closed(self) -> bool:
        """Whether the stream has ended."""
        return bool(self._end)

    @property
    def ready(self) -> bool:
        """Whether the client can be asked: it is there, and owes no answer that nobody waits for."""
        return not self._end and self._state is not _State.LATE
