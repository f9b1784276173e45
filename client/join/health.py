"""The gRPC health service of a joined client on a loopback port: SERVING while it is connected."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from zofedht.common.errors import ConfigError
from zofedht.common.tls import check_loopback

__all__ = ["Health"]


class Health:
    """Serves grpc.health.v1 at HOST:PORT, a loopback address: it is plain text and must not leave the machine."""

    def __init__(self, address: str) -> None:
        """Raises ConfigError when the address is not loopback or cannot be bound."""
        check_loopback("--health-address", address)
        self._servicer = health.HealthServicer()
        self._server = grpc.server(
            ThreadPoolExecutor(max_workers=2, thread_name_prefix="health"), options=[("grpc.so_reuseport", 0)]
        )
        self.show(connected=False)
        health_pb2_grpc.add_HealthServicer_to_server(self._servicer, self._server)
        try:
            self._server.add_insecure_port(address)
        except RuntimeError as error:
            raise ConfigError([f"--health-address {address} cannot be bound: {error}"]) from error
        self._server.start()

    def show(self, *, connected: bool) -> None:
        """Answer SERVING from now on, or NOT_SERVING."""
        states = health_pb2.HealthCheckResponse
        self._servicer.set("", states.SERVING if connected else states.NOT_SERVING)

    def stop(self) -> None:
        """Stop answering."""
        self._server.stop(grace=None)
