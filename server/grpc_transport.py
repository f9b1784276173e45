"""The gRPC server: Flower's bidirectional message service over grpcio, with our own admission and TLS.

Flower marks ``start_server`` as deprecated; the messages and the service definition under it are used here
directly, so this module and ``client/grpc_transport.py`` are all there is to replace.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
from flwr.common import Code, GetPropertiesIns, serde
from flwr.proto.transport_pb2 import ClientMessage, ServerMessage
from grpc_health.v1 import health, health_pb2_grpc

from common.errors import DataError, MessageError
from common.tls import TlsFiles
from common.wire import decode_hello
from server.admission import Expected, refusal
from server.conversation import Conversation, LostClient
from server.fit_encoder import FitEncoder
from server.roster import ResidentProxy, Roster

__all__ = ["JoinService", "start_grpc_server"]

_METHOD = "flwr.proto.FlowerService"
_HELLO_SECONDS = 120.0  # a small device may read its data before it answers
_MOST_CLIENTS = 2000


class JoinService:
    """Flower's ``Join``: one stream per client, questions from the server, answers from the client."""

    def __init__(self, roster: Roster, hello: Callable[[], GetPropertiesIns], expected: Callable[[], Expected]) -> None:
        self._roster = roster
        self._hello = hello
        self._expected = expected
        self._encoder = FitEncoder()

    def join(self, messages: Iterator[ClientMessage], context: grpc.ServicerContext) -> Iterator[bytes]:
        """Admit or refuse the client, then yield what it is sent until its stream ends."""
        conversation = Conversation()
        context.add_callback(conversation.close)
        threading.Thread(target=conversation.listen, args=(messages,), daemon=True).start()
        yield _question(self._hello())
        try:
            answer = conversation.next_answer(_HELLO_SECONDS)
            result = serde.get_properties_res_from_proto(answer.get_properties_res)
            if result.status.code != Code.OK:
                raise MessageError(result.status.message)
            hello = decode_hello(result.properties)
        except LostClient as error:
            context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, f"the client did not introduce itself: {error}")
        except MessageError as error:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        reason = refusal(hello, self._expected(), _common_name(context))
        if reason is not None:
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, reason)
        proxy = ResidentProxy(hello, conversation, self._encoder)
        taken = self._roster.admit(proxy)
        if taken is not None:
            context.abort(grpc.StatusCode.ALREADY_EXISTS, taken)
        try:
            yield from conversation.outgoing()
        finally:
            self._roster.leave(proxy)


def _question(ins: GetPropertiesIns) -> bytes:
    return bytes(ServerMessage(get_properties_ins=serde.get_properties_ins_to_proto(ins)).SerializeToString())


def _common_name(context: grpc.ServicerContext) -> str | None:
    names = context.auth_context().get("x509_common_name")
    return names[0].decode() if names else None


def start_grpc_server(
    address: str, service: JoinService, *, tls: TlsFiles | None, max_message_bytes: int
) -> tuple[grpc.Server, int]:
    """Start serving and return the server and its port.

    With ``tls`` every client must show a certificate of the same authority. Raises DataError when the
    address cannot be bound.
    """
    options = [
        ("grpc.max_receive_message_length", max_message_bytes),
        ("grpc.max_send_message_length", -1),
        ("grpc.max_metadata_size", 16 * 1024),
        ("grpc.so_reuseport", 0),  # a second server on one port is an error, not a coin toss
        # A client whose cable is pulled is noticed within 15 seconds, in a round or between rounds.
        ("grpc.keepalive_time_ms", 10_000),
        ("grpc.keepalive_timeout_ms", 5_000),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
        ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
        ("grpc.http2.min_recv_ping_interval_without_data_ms", 5_000),
    ]
    server = grpc.server(ThreadPoolExecutor(max_workers=_MOST_CLIENTS, thread_name_prefix="join"), options=options)
    handler = grpc.stream_stream_rpc_method_handler(
        service.join, request_deserializer=ClientMessage.FromString, response_serializer=_as_is
    )
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(_METHOD, {"Join": handler}),))
    health_pb2_grpc.add_HealthServicer_to_server(health.HealthServicer(), server)
    try:
        if tls is None:
            port = server.add_insecure_port(address)
        else:
            # Without a certificate of the authority the handshake fails: nobody gets x, Q or a say.
            shown = [(tls.key, tls.certificate)]
            credentials = grpc.ssl_server_credentials(shown, tls.authority, require_client_auth=True)
            port = server.add_secure_port(address, credentials)
    except RuntimeError as error:
        raise DataError(f"--address {address} cannot be bound; is another server running there? ({error})") from error
    server.start()
    return server, port


def _as_is(message: Any) -> bytes:
    return bytes(message)
