"""The client's end of Flower's bidirectional gRPC service: join, answer, and reconnect after a lost connection."""

from __future__ import annotations

import logging
import os
import queue
import re
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import grpc
from flwr.client import Client
from flwr.common import Code, Status, serde
from flwr.common.typing import EvaluateRes, FitRes, GetParametersRes, GetPropertiesRes, Parameters
from flwr.proto.transport_pb2 import ClientMessage, ServerMessage

from zofedht.client.join.patience import Patience
from zofedht.common.errors import JoinError, ZofedhtError
from zofedht.common.plain_text import printable
from zofedht.common.tls import TlsFiles
from zofedht.common.wire.npy import decode_vectors
from zofedht.common.wire.pieces import pieces_of

__all__ = ["Connection", "answer_to", "stay_joined"]

_log = logging.getLogger(__name__)

METHOD = "/flwr.proto.FlowerService/Join"
_MOST_REASON = 1000  # characters of what a server says
_LEAST_SILENCE, _MOST_SILENCE = 5.0, 20.0  # seconds until a server must have asked its first question
_MAY_BE_TLS = "andshake|ertificate|SSL|erification|Socket closed|reset|Broken pipe"
_UNKNOWN_HOST = r"(?:errors resolving|DNS resolution failed for) ([^:\s]+)"  # gRPC's words for it, new and old
_WRONG_NAME = "Peer name|Hostname Verification"  # gRPC's words for it, old and new
_FATAL = {
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.OUT_OF_RANGE,  # a message that is too long, and would be the next time
    grpc.StatusCode.UNIMPLEMENTED,
}


@dataclass(frozen=True)
class Connection:
    """The address of the server and the settings of the connection."""

    address: str
    tls: TlsFiles | None
    server_name: str = ""  # in the server's certificate; empty for the address
    max_message_bytes: int = 512 * 2**20
    max_wait: float = float("inf")  # seconds without a connection after which to give up

    def options(self) -> list[tuple[str, Any]]:
        """Return the channel's options."""
        options: list[tuple[str, Any]] = [
            ("grpc.max_receive_message_length", self.max_message_bytes),
            ("grpc.max_send_message_length", -1),
            ("grpc.keepalive_time_ms", 10_000),
            ("grpc.keepalive_timeout_ms", 10_000),
            ("grpc.http2.ping_timeout_ms", 10_000),  # without it gRPC 1.60 and later wait for a minute
            ("grpc.keepalive_permit_without_calls", 1),
            ("grpc.http2.max_pings_without_data", 0),
            ("grpc.use_local_subchannel_pool", 1),  # each try is a new connection without a back-off
        ]
        if self.server_name:
            options.append(("grpc.ssl_target_name_override", self.server_name))
        return options

    def channel(self) -> grpc.Channel:
        """Open a channel; grpcio takes proxies from the environment."""
        if self.tls is None:
            return grpc.insecure_channel(self.address, self.options())
        shown = grpc.ssl_channel_credentials(self.tls.authority, self.tls.key, self.tls.certificate)
        return grpc.secure_channel(self.address, shown, self.options())


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
            reason, code = line.reason(error), error.code()
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
        self._introduced = False
        self.admitted = False

    def answer_until_over(self) -> None:
        """Answer each message; return at the end of the run. Raises grpc.RpcError when the connection ends earlier.

        The first message asks for an introduction. A second message of this kind admits the client.
        """
        answers: queue.SimpleQueue[ClientMessage | None] = queue.SimpleQueue()
        with self._connection.channel() as channel:
            join = channel.stream_stream(METHOD, response_deserializer=ServerMessage.FromString)
            messages = join(_pieces(answers))
            watch = threading.Timer(self._silence, messages.cancel)
            watch.daemon = True
            watch.start()
            try:
                for message in messages:
                    watch.cancel()
                    kind = message.WhichOneof("msg")
                    if kind == "reconnect_ins":
                        return
                    if kind == "get_properties_ins" and self._introduced:
                        self.admitted = True
                        self._welcome()
                        continue
                    self._introduced = True
                    answer = answer_to(self._client, kind, message)
                    self._sent(answer)
                    answers.put(answer)
                raise _StreamEndedError
            except grpc.RpcError as error:
                if error.code() is grpc.StatusCode.CANCELLED and not self._introduced:
                    raise _SilentError(self._silence) from error
                raise
            finally:
                watch.cancel()
                answers.put(None)

    def reason(self, error: Any) -> str:
        """Return why the connection ended and, where certificates may be the cause, the way out."""
        details = printable(str(error.details() or error.code().name), _MOST_REASON).rpartition("last error: ")[2]
        details = re.sub(r"^[A-Z_]+: (ipv[46]:\S+: )?", "", details)
        if unknown := re.search(_UNKNOWN_HOST, details):
            details = f"the host name {unknown[1]!r} is not known here; check --server and the network's name service"
        if not self._introduced and (variable := _proxy(self._connection.address)):
            details += f"; the connection goes through the proxy of {variable}: put the server's host into no_proxy"
        if self._connection.tls and re.search(_WRONG_NAME, details):
            asked = self._connection.server_name or self._connection.address.rpartition(":")[0]
            return (
                f"the server's certificate does not hold the name {asked!r}; give --server-name a name that is in it,"
                " or make one with make-certs --server-names"
            )
        # A server hangs up on a wrong certificate, which looks like a lost connection.
        if self._connection.tls and not self._introduced and re.search(_MAY_BE_TLS, details):
            details += (
                "; the certificates in --tls-dir must be valid and of the server's authority, and the server's"
                " certificate must hold its address (or the name given by --server-name)"
            )
        elif self._connection.tls is None and not self._introduced and re.search(_MAY_BE_TLS, details):
            details += "; a server that speaks TLS hangs up on --insecure: give --tls-dir instead"
        return details


def _pieces(answers: queue.SimpleQueue[ClientMessage | None]) -> Iterator[bytes]:
    for answer in iter(answers.get, None):
        yield from pieces_of(answer.SerializeToString())


def _proxy(address: str) -> str:
    """Return the variable that names the proxy that grpc takes for an address, or an empty text."""
    host = address.rpartition(":")[0]
    spared = os.environ.get("no_proxy", "")
    if any(part.strip() and host.endswith(part.strip()) for part in spared.split(",")):
        return ""
    return next((name for name in ("grpc_proxy", "https_proxy", "http_proxy") if os.environ.get(name)), "")


class _SilentError(grpc.RpcError):  # type: ignore[misc]
    """The port takes the connection and says nothing."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def code(self) -> grpc.StatusCode:
        return grpc.StatusCode.UNAVAILABLE

    def details(self) -> str:
        return (
            f"nothing has answered there for {self._seconds:g} seconds; is it the port of zofedht-server serve, and not"
            " that of another service or a half-open tunnel?"
        )


class _StreamEndedError(grpc.RpcError):  # type: ignore[misc]
    """The server closed the stream before the end of the run: it is going down."""

    def code(self) -> grpc.StatusCode:
        return grpc.StatusCode.UNAVAILABLE

    def details(self) -> str:
        return "the server closed the connection"


def answer_to(client: Client, kind: str | None, message: ServerMessage) -> ClientMessage:
    """Return the client's answer as a message; an exception becomes a status that the server reports.

    No question ends the client. Raises ZofedhtError when the client cannot introduce itself.
    """
    verb = (kind or "").removesuffix("_ins")
    verb = verb if verb in _FAILED else "get_properties"
    try:
        question = getattr(serde, f"{verb}_ins_from_proto")(getattr(message, f"{verb}_ins"))
        if verb == "evaluate":  # before NumPy's reader, which allocates whatever shape an array claims
            part = question.config.get("snapshot") == "give"  # the trail, and bytes of parameters in place
            decode_vectors(question.parameters.tensors, "x", *(_TRAIL_AND_PART if part else ()))
        return _wrapped(verb, getattr(client, verb)(question))
    except ZofedhtError as error:
        if kind == "get_properties_ins":
            raise  # the user of this client must see it
        _log.warning("a question of the server was not answered: %s", error)
        return _wrapped(verb, _FAILED[verb](Status(Code.FIT_NOT_IMPLEMENTED, error.public_text)))
    except Exception as error:  # no server of this program asks such a question
        text = f"a question of the server could not be answered: {type(error).__name__}"
        if kind == "get_properties_ins":
            raise JoinError(f"{text}: {error}") from error
        _log.warning("%s: %s", text, error)
        return _wrapped(verb, _FAILED[verb](Status(Code.FIT_NOT_IMPLEMENTED, text)))


def _wrapped(verb: str, result: Any) -> ClientMessage:
    return ClientMessage(**{f"{verb}_res": getattr(serde, f"{verb}_res_to_proto")(result)})


_TRAIL_AND_PART = 2, ("float64", "uint8")
_NOTHING = Parameters([], "numpy.ndarray")
_FAILED: dict[str, Callable[[Status], Any]] = {
    "fit": lambda status: FitRes(status, _NOTHING, 0, {}),
    "evaluate": lambda status: EvaluateRes(status, 0.0, 0, {}),
    "get_parameters": lambda status: GetParametersRes(status, _NOTHING),
    "get_properties": lambda status: GetPropertiesRes(status, {}),
}
"""Verb of a question -> the answer of a client that failed."""
