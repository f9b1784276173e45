"""The stream of one client on the server: one question and one answer at a time, in bounded memory and no thread."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from flwr.proto.transport_pb2 import ClientMessage

from zofedht.common.errors import MessageError
from zofedht.common.wire.pieces import Assembly, TooLongError
from zofedht.server.delivery.traffic import Meter
from zofedht.server.grpc.event_loop import errands_of

__all__ = ["GRPC_PREFIX", "Conversation", "LostClient"]

GRPC_PREFIX = 5
"""Bytes of gRPC before each message: a flag and the length."""


class LostClient(Exception):  # noqa: N818  (no error of this program)
    """The client's stream ended, or its answer did not come in time."""


@dataclass(eq=False)
class _Question:
    message: bytes
    meter: Meter | None = None
    read: Callable[[ClientMessage], Any] = lambda message: message
    answer: Future[Any] = field(default_factory=Future)  # as it was read
    timer: asyncio.TimerHandle | None = None
    late: bool = False  # whoever asked has given up; the answer will be dropped

    def hear(self, message: ClientMessage) -> None:
        if self.timer is not None:
            self.timer.cancel()
        if self.late:
            return
        try:
            self.answer.set_result(self.read(message))
        except Exception as error:  # Flower's reader raises what it meets
            self.answer.set_exception(error)

    def fail(self, reason: str) -> None:
        if self.timer is not None:
            self.timer.cancel()
        if not self.answer.done():
            self.answer.set_exception(LostClient(reason))


class Conversation:
    """Carries serialised ServerMessages to one client and its ClientMessages back.

    A late client loses its slot and keeps its stream; it gets no question before its late answer has come. A client
    that speaks without a question loses its stream. So the server holds at most one answer for each client.

    Any thread may ask and close; all else happens in the event loop.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, most_bytes: int) -> None:
        """``most_bytes`` is the longest accepted message until ``accept`` says otherwise."""
        self._assembly = Assembly(lambda: most_bytes)
        self._loop, self._errands = loop, errands_of(loop)
        self._asked: _Question | None = None  # has gone out, and its answer has not come
        self._next: list[_Question] = []  # a client with two slots answers one after the other
        self._out: list[_Question | None] = []  # None ends the stream
        self._wake: asyncio.Future[None] | None = None  # of ``outgoing``, while it waits
        self._end = ""  # why the stream has ended
        self.complaint = ""  # the client's fault, if that ended the stream
        self.too_long = False  # the fault is a message that would come again

    def accept(self, most_bytes: Callable[[], int]) -> None:
        """Accept messages of so many bytes from now on; what the callable returns may change."""
        self._assembly.most_bytes = most_bytes

    def begin(
        self,
        message: bytes,
        timeout: float,
        meter: Meter | None = None,
        read: Callable[[ClientMessage], Any] = lambda message: message,
    ) -> Future[Any]:
        """Send a serialised ServerMessage and return what ``read`` makes of the answer to come; ``meter`` counts both.

        The future holds LostClient when the stream ends, or after ``timeout`` seconds with the client's other slots,
        and whatever ``read`` raises.
        """
        question = _Question(message, meter, read)
        self._in_loop(self._ask, question, timeout)
        return question.answer

    def ask(self, message: bytes, timeout: float) -> ClientMessage:
        """Send a serialised ServerMessage and wait for the answer. Raises LostClient as ``begin`` says."""
        answer: ClientMessage = self.begin(message, timeout).result()
        return answer

    def take(self, piece: bytes) -> str | None:
        """Take in a piece of a client's message; return what is wrong with it, if anything is."""
        question = self._asked
        if question is None:
            return "it sent a message without a question"
        if question.meter is not None:  # a late answer has crossed the wire, too
            question.meter.received(len(piece) + GRPC_PREFIX)
        try:
            data = self._assembly.take(piece)
        except TooLongError as error:
            self.too_long = True
            return f"{error}; --max-message-mb of the server bounds it"
        except MessageError as error:
            return str(error)
        if data is None:
            return None
        try:
            message = ClientMessage.FromString(data)
        except Exception:  # protobuf's DecodeError, or others for malformed text
            return f"its message of {len(data)} bytes cannot be read"
        self._asked = None
        question.hear(message)
        self._ask_next()
        return None

    async def outgoing(self) -> AsyncIterator[bytes]:
        """Yield the messages to send until the conversation is closed."""
        while True:
            while self._out:
                question = self._out.pop(0)
                if question is None:
                    return
                if question.meter is not None:
                    question.meter.sent(len(question.message) + GRPC_PREFIX)
                message, question.message = question.message, b""
                yield message
            self._wake = self._loop.create_future()
            await self._wake

    def tell(self, message: bytes) -> None:
        """Send a message that has no answer."""
        self._in_loop(self._send, _Question(message))

    def dismiss(self, message: bytes) -> None:
        """Send a last message, even to a busy client, and end the conversation after it."""
        self.tell(message)
        self.close()

    def close(self, reason: str = "the connection was lost") -> None:
        """End the conversation; what is asked fails with LostClient and the reason."""
        self._end = self._end or reason
        self._in_loop(self._finish)

    @property
    def closed(self) -> bool:
        """Whether the stream has ended."""
        return bool(self._end)

    @property
    def ready(self) -> bool:
        """Whether the client can take a question: it is connected and owes no late answer."""
        asked = self._asked
        return not self._end and not (asked is not None and asked.late)

    def _in_loop(self, act: Callable[..., object], *args: object) -> None:
        try:
            self._errands.add(act, *args)
        except RuntimeError:  # the loop is closed, and all streams have ended
            self._end = self._end or "the server is going down"
            for question in (*args, *self._next, self._asked):
                if isinstance(question, _Question):
                    question.fail(self._end)

    def _ask(self, question: _Question, timeout: float) -> None:
        if self._end:
            question.fail(self._end)
        elif not self.ready:
            question.fail("it is still at work on an earlier question")
        else:
            question.timer = self._loop.call_later(max(0.0, timeout), self._expire, question, timeout)
            self._next.append(question)
            self._ask_next()

    def _ask_next(self) -> None:
        if self._asked is None and self._next:
            self._asked = self._next.pop(0)
            self._send(self._asked)

    def _expire(self, question: _Question, timeout: float) -> None:
        text = f"no answer within {timeout:.3g} seconds"
        if question in self._next:
            self._next.remove(question)
            question.fail(f"{text}: it was still at work on another slot")
            return
        question.late = True
        question.fail(text)
        for other in self._next:
            other.fail("it is still at work on an earlier question")
        self._next.clear()

    def _send(self, item: _Question | None) -> None:
        self._out.append(item)
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    def _finish(self) -> None:
        for question in (*self._next, *([self._asked] if self._asked else [])):
            question.fail(self._end)
        self._next.clear()
        self._send(None)
