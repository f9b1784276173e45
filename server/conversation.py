"""One client's stream seen from the server: questions out, answers in, one at a time, in bounded memory."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator

from flwr.proto.transport_pb2 import ClientMessage

__all__ = ["Conversation", "LostClient"]

_POLL = 0.2  # seconds between looks at a stream that is being closed


class LostClient(Exception):  # noqa: N818  (it is the client that is lost, not an error of ours)
    """The client's stream ended, or its answer did not come in time."""


class Conversation:
    """Carries serialised ServerMessages to one client and its ClientMessages back.

    Answers wait in a queue of one; the transport's flow control holds back a client that says more than
    it is asked.
    """

    def __init__(self) -> None:
        self._out: queue.Queue[bytes | None] = queue.Queue()
        self._in: queue.Queue[ClientMessage] = queue.Queue(maxsize=1)
        self._turn = threading.Lock()  # a client that was drawn twice answers one slot after the other
        self._closed = threading.Event()

    def ask(self, message: bytes, timeout: float) -> ClientMessage:
        """Send a serialised ServerMessage and return the answer.

        Raises LostClient when the stream ends, or after ``timeout`` seconds, which also ends the stream: a
        late answer would otherwise be taken for the next one.
        """
        with self._turn:
            if self._closed.is_set():
                raise LostClient("the connection was lost")
            while not self._in.empty():  # said without being asked
                self._in.get_nowait()
            self._out.put(message)
            return self.next_answer(timeout)

    def next_answer(self, timeout: float) -> ClientMessage:
        """Return the next message of the client. Raises LostClient as ``ask`` does."""
        waited = 0.0
        while waited < timeout:
            try:
                return self._in.get(timeout=min(_POLL, timeout - waited))
            except queue.Empty:
                waited += min(_POLL, timeout - waited)
                if self._closed.is_set() and self._in.empty():
                    raise LostClient("the connection was lost") from None
        self.close()
        raise LostClient(f"no answer within {timeout:.3g} seconds")

    def listen(self, messages: Iterator[ClientMessage]) -> None:
        """Take in the client's messages until the stream ends; runs in a thread of its own."""
        try:
            for message in messages:
                while not self._closed.is_set():
                    try:
                        self._in.put(message, timeout=_POLL)
                        break
                    except queue.Full:
                        continue
                if self._closed.is_set():
                    return
        except Exception:
            return
        finally:
            self.close()

    def outgoing(self) -> Iterator[bytes]:
        """Yield what is to be sent, until the conversation is closed."""
        while (message := self._out.get()) is not None:
            yield message

    def close(self) -> None:
        """End the conversation; what waits for an answer raises LostClient."""
        self._closed.set()
        self._out.put(None)

    @property
    def closed(self) -> bool:
        """Whether the stream has ended."""
        return self._closed.is_set()
