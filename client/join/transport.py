"""The client's end of Flower's bidirectional gRPC service: join, answer, and reconnect after a lost connection."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import grpc
from flwr.client import Client
from flwr.proto.transport_pb2 import ClientMessage, ServerMessage

from zofedht.client.join.answering import answer_to, refusal_of
from zofedht.client.join.connection import Connection, SilentError, StreamEndedError, reason_of
from zofedht.client.join.patience import Patience
from zofedht.common.errors import JoinError, ZofedhtError
from zofedht.common.wire.pieces import pieces_of

__all__ = ["stay_joined"]

_log = logging.getLogger(__name__)

METHOD = "/flwr.proto.FlowerService/Join"
_LEAST_SILENCE, _MOST_SILENCE = 5.0, 20.0  # seconds until a server must have asked its first question
_FATAL = {
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.OUT_OF_RANGE,  # a message that is too long, and would be the next time
    grpc.StatusCode.UNIMPLEMENTED,
}


def stay_joined(
    connection: Connection,
    client: Client,
    *,
    report: Callable[[str], None],
    connected: Callable[[bool], None],
    sent: Callable[[ClientMessage], None] = lambda message: None,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Answer the server until the run is over; reconnect with growing, jittered waits.

    Parameters
    ----------
    connection : Connection
    client : flwr Client
        Answers the server's questions.
    report : callable
        Gets each line of the log.
    connected : callable
        Gets True when the server admits this client, and False when the connection ends.
    sent : callable
        Gets each message before it leaves.
    sleep : callable
        ``time.sleep``, or a test's.

    Raises
    ------
    JoinError
        When the server refuses this client, or after ``max_wait`` seconds without a connection.
    """
    patience = Patience(connection.max_wait)
    silence = min(max(connection.max_wait, _LEAST_SILENCE), _MOST_SILENCE)
    report(f"connecting to {connection.address}")

    def welcome() -> None:
        patience.admitted()
        connected(True)

    while True:
        line = _Line(connection, client, welcome, sent, silence)
        try:
            line.answer_until_over()
        except grpc.RpcError as error:
            reason, code = reason_of(error, connection, introduced=line.introduced), error.code()
        else:
            return
        finally:
            connected(False)
        if line.admitted:
            patience.lost()
        if line.admitted and code is grpc.StatusCode.RESOURCE_EXHAUSTED:  # it would come again with every try
            raise JoinError(
                f"the server at {connection.address} sends a longer message than the {connection.max_message_bytes}"
                f' bytes that this client takes: {reason}; smaller `memory` or wire-dtype = "float32" shortens it'
            )
        pause = None if code in _FATAL else patience.pause(taken=code is grpc.StatusCode.ALREADY_EXISTS)
        if pause is None and (code in _FATAL or code is grpc.StatusCode.ALREADY_EXISTS):
            raise JoinError(f"the server at {connection.address} refuses this client: {reason}")
        if pause is None:
            raise JoinError(f"no connection to {connection.address} for {connection.max_wait:g} seconds: {reason}")
        put_off = code is grpc.StatusCode.ABORTED and not line.admitted
        what = "not admitted yet by" if put_off else "no connection to"
        _log.warning("%s %s (%s); trying again in %.1f s", what, connection.address, reason, pause)
        sleep(pause)


class _Line:
    """One connection, from the first message to the last."""

    def __init__(
        self,
        connection: Connection,
        client: Client,
        welcome: Callable[[], None],
        sent: Callable[[ClientMessage], None],
        silence: float,
    ) -> None:
        self._connection = connection
        self._silence = silence
        self._sent = sent
        self._client = client
        self._welcome = welcome
        self.introduced = False
        self.admitted = False

    def answer_until_over(self) -> None:
        """Answer each message; return at the end of the run. Raises grpc.RpcError when the connection ends earlier.

        The first message asks for an introduction. A second message of this kind admits the client.
        """
        answers: queue.SimpleQueue[ClientMessage | None] = queue.SimpleQueue()
        with self._connection.channel() as channel:
            join = channel.stream_stream(METHOD, response_deserializer=ServerMessage.FromString)
            messages = join(_pieces(answers))
            watch = _cancelled_after(self._silence, messages)
            try:
                for message in messages:
                    watch.cancel()
                    kind = message.WhichOneof("msg")
                    if kind == "reconnect_ins":
                        return
                    if kind == "get_properties_ins" and self.introduced:
                        self.admitted = True
                        self._welcome()
                        continue
                    self.introduced = True
                    try:
                        answer = answer_to(self._client, kind, message)
                    except ZofedhtError as error:
                        self._refuse(refusal_of(error, self._connection.name), answers, messages)
                        raise
                    self._sent(answer)
                    answers.put(answer)
                raise StreamEndedError
            except grpc.RpcError as error:
                if error.code() is grpc.StatusCode.CANCELLED and not self.introduced:
                    raise SilentError(self._silence) from error
                raise
            finally:
                watch.cancel()
                answers.put(None)

    def _refuse(self, refusal: ClientMessage, answers: queue.SimpleQueue[ClientMessage | None], stream: Any) -> None:
        """Tell the server why the client does not join, and wait until it has read that and ends the stream."""
        self._sent(refusal)
        answers.put(refusal)
        watch = _cancelled_after(_LEAST_SILENCE, stream)
        with suppress(grpc.RpcError):
            for _ in stream:
                pass
        watch.cancel()


def _cancelled_after(seconds: float, stream: Any) -> threading.Timer:
    """Return the clock that cancels a stream, unless it is cancelled before."""
    watch = threading.Timer(seconds, stream.cancel)
    watch.daemon = True
    watch.start()
    return watch


def _pieces(answers: queue.SimpleQueue[ClientMessage | None]) -> Iterator[bytes]:
    for answer in iter(answers.get, None):
        yield from pieces_of(answer.SerializeToString())
