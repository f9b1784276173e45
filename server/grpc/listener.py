"""The port that clients join at: a gRPC server with our options and mutual TLS, and its health check."""

from __future__ import annotations

import asyncio

import grpc

from zofedht.common.errors import DataError
from zofedht.common.tls import TlsFiles
from zofedht.common.wire.pieces import MOST_OF_A_PIECE
from zofedht.server.grpc.descriptors import most_connections, raise_descriptor_limit
from zofedht.server.grpc.event_loop import event_loop, interrupt, wait_for
from zofedht.server.grpc.health import serve_health
from zofedht.server.grpc.roster import Roster
from zofedht.server.grpc.transport import JoinService

__all__ = ["Door", "start_grpc_server"]

_METHOD = "flwr.proto.FlowerService"
_FAREWELL_SECONDS = 2.0  # for the last message, which a stopped client never reads
_HANDSHAKE_SECONDS = 10.0  # of a connection that shows no certificate
_IDLE_SECONDS = 20.0  # of a connection without a stream; a joined client has one


class Door:
    """The port that the clients of a roster join at and, where it has an address, the health check."""

    def __init__(
        self, address: str, service: JoinService, roster: Roster, *, tls: TlsFiles | None, health_address: str
    ) -> None:
        """Raises DataError or ConfigError where an address cannot be bound."""
        self._roster = roster
        self._health = serve_health(health_address) if health_address else None
        self._server, self.port = start_grpc_server(address, service, tls=tls)

    def close(self) -> None:
        """End all streams without a last message, and listen no more."""
        self._roster.hang_up()
        self._server.stop(_FAREWELL_SECONDS)
        if self._health is not None:
            self._health.stop(grace=None)


class GrpcServer:
    """A server that listens."""

    def __init__(self, server: grpc.aio.Server) -> None:
        self._server = server
        self._stopped = False
        self._watch = asyncio.run_coroutine_threadsafe(self._end_with_the_listener(), event_loop())

    async def _end_with_the_listener(self) -> None:
        await self._server.wait_for_termination()
        if not self._stopped:
            interrupt()

    def stop(self, grace: float) -> None:
        """End all streams, within ``grace`` seconds, and listen no more."""
        self._stopped = True
        if not event_loop().is_closed():
            wait_for(self._server.stop(grace))


def start_grpc_server(address: str, service: JoinService, *, tls: TlsFiles | None) -> tuple[GrpcServer, int]:
    """Start serving and return the server and its port.

    With ``tls`` every client must have a certificate of the same authority. Raises DataError when the address cannot be
    bound.
    """
    options = [
        ("grpc.max_receive_message_length", MOST_OF_A_PIECE),
        ("grpc.max_send_message_length", -1),
        ("grpc.max_metadata_size", 16 * 1024),
        ("grpc.max_concurrent_streams", 8),  # of one connection; a client needs one
        # A connection is a descriptor: beyond so many they are closed at once, and what is left is the run's.
        ("grpc.max_allowed_incoming_connections", most_connections(raise_descriptor_limit())),
        ("grpc.server_handshake_timeout_ms", int(1e3 * _HANDSHAKE_SECONDS)),
        ("grpc.max_connection_idle_ms", int(1e3 * _IDLE_SECONDS)),
        ("grpc.so_reuseport", 0),  # a second server on one port is an error, not a coin toss
        # A broken line is noticed within 20 seconds, in a round or between rounds.
        ("grpc.keepalive_time_ms", 10_000),
        ("grpc.keepalive_timeout_ms", 10_000),
        ("grpc.http2.ping_timeout_ms", 10_000),  # without it gRPC 1.60 and later wait for a minute
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
        ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
        ("grpc.http2.min_recv_ping_interval_without_data_ms", 5_000),
    ]
    # Bytes on both sides: ``Conversation`` puts a client's message together, and bounds it before it has come.
    handler = grpc.stream_stream_rpc_method_handler(service.join)
    methods = grpc.method_handlers_generic_handler(_METHOD, {"Join": handler})

    async def start() -> tuple[grpc.aio.Server, int]:
        server = grpc.aio.server(options=options)
        server.add_generic_rpc_handlers((methods,))
        if tls is None:
            port = server.add_insecure_port(address)
        else:
            # Without a certificate of the authority the handshake fails.
            shown = [(tls.key, tls.certificate)]
            credentials = grpc.ssl_server_credentials(shown, tls.authority, require_client_auth=True)
            port = server.add_secure_port(address, credentials)
        await server.start()
        return server, port

    try:
        server, port = wait_for(start())
    except RuntimeError as error:
        raise DataError(f"--address {address} cannot be bound; is another server running there? ({error})") from error
    return GrpcServer(server), port
