"""The stream of one client on the server: one question and one answer at a time, in bounded memory."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator
from enum import Enum, auto

from flwr.proto.transport_pb2 import ClientMessage

from zofedht.common.errors import MessageError
from zofedht.common.wire.pieces import Assembly
from zofedht.server.core.traffic import Traffic

__all__ = ["GRPC_PREFIX", "Conversation", "LostClient"]

GRPC_PREFIX = 5
"""Bytes of gRPC before each message: a flag and the length."""


class LostClient(Exception):  # noqa: N818  (no error of this program)
    """The client's stream ended, or its answer did not come in time."""


class _State(Enum):
    IDLE = auto()  # no question is out
    ASKED = auto()  # a caller waits for the answer
    LATE = auto()  # the caller has given up; the answer will be dropped


class Conversation:
    """Carries serialised ServerMessages to one client and its ClientMessages back.

    A late client loses its slot and keeps its stream; it gets no question before its late answer has come. A client
    that speaks without a question loses its stream. So the server holds at most one answer for each client.
    """

    def __init__(self, most_bytes: int) -> None:
        """``most_bytes`` is the longest accepted message until ``accept`` says otherwise."""
        self._assembly = Assembly(lambda: most_bytes)
        self._out: queue.SimpleQueue[tuple[bytes, Traffic | None] | None] = queue.SimpleQueue()
        self._traffic: Traffic | None = None  # counts the awaited answer
        self._turn = threading.Lock()  # a client with two slots answers one after the other
        self._changed = threading.Condition()
        self._state = _State.IDLE
        self._answer: ClientMessage | None = None
        self._end = ""  # why the stream has ended
        self.complaint = ""  # the client's fault, if that ended the stream

    def accept(self, most_bytes: Callable[[], int]) -> None:
        """Accept messages of so many bytes from now on; what the callable returns may change."""
        self._assembly.most_bytes = most_bytes

    def ask(self, message: bytes, timeout: float, traffic: Traffic | None = None) -> ClientMessage:
        """Send a serialised ServerMessage and return the answer; ``traffic`` counts both on the wire.

        Raises LostClient when the stream ends, or after ``timeout`` seconds with the client's other slots.
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
        """Note that a question goes out now. Raises LostClient when the client cannot take it."""
        with self._changed:
            if self._end:
                raise LostClient(self._end)
            if self._state is not _State.IDLE:
                raise LostClient("it is still at work on an earlier question")
            self._state = _State.ASKED
            self._traffic = traffic

    def next_answer(self, timeout: float) -> ClientMessage:
        """Return the awaited answer. Raises LostClient as ``ask`` does."""
        with self._changed:
            self._changed.wait_for(lambda: self._answer is not None or bool(self._end), max(0.0, timeout))
            answer, self._answer = self._answer, None
            if answer is not None:
                return answer
            if self._end:
                raise LostClient(self._end)
            self._state = _State.LATE
            raise LostClient(f"no answer within {timeout:.3g} seconds")

    def listen(self, pieces: Iterator[bytes]) -> None:
        """Take in the pieces of the client's messages until the stream ends; runs in a thread of its own."""
        try:
            for piece in pieces:
                complaint = self._take(piece)
                if complaint:
                    self.complaint = complaint
                    self.close(complaint)
                    return
        except Exception:  # grpc ends a stream by a plain Exception
            return
        finally:
            self.close()

    def _take(self, piece: bytes) -> str | None:
        with self._changed:
            if self._state is _State.IDLE:
                return "it sent a message without a question"
            traffic = self._traffic
        if traffic is not None:  # a late answer has crossed the wire, too
            traffic.received(len(piece) + GRPC_PREFIX)
        try:
            data = self._assembly.take(piece)
        except MessageError as error:
            return str(error)
        if data is None:
            return None
        try:
            message = ClientMessage.FromString(data)
        except Exception:  # protobuf's DecodeError, or others for malformed text
            return f"its message of {len(data)} bytes cannot be read"
        with self._changed:
            if self._state is _State.ASKED:
                self._answer = message
                self._changed.notify_all()
            self._state = _State.IDLE
        return None

    def outgoing(self) -> Iterator[bytes]:
        """Yield the messages to send until the conversation is closed."""
        while (item := self._out.get()) is not None:
            message, traffic = item
            if traffic is not None:
                traffic.sent(len(message) + GRPC_PREFIX)
            yield message

    def dismiss(self, message: bytes) -> None:
        """Send a last message, even to a busy client, and end the conversation after it."""
        self._out.put((message, None))
        self.close()

    def close(self, reason: str = "the connection was lost") -> None:
        """End the conversation; a waiting ``ask`` raises LostClient with the reason."""
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
        """Whether the client can take a question: it is connected and owes no late answer."""
        return not self._end and self._state is not _State.LATE
