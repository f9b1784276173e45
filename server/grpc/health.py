"""The gRPC health service on a loopback port, for container health checks."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import grpc
from grpc_health.v1 import health, health_pb2_grpc

from zofedht.common.errors import ConfigError
from zofedht.common.tls import check_loopback

__all__ = ["serve_health"]


def serve_health(address: str) -> grpc.Server:
    """Serve grpc.health.v1 at HOST:PORT, a loopback address, and return the server.

    It is plain text, so it must not leave the machine. Its only answer is that the process is alive. Raises ConfigError
    when the address is not loopback or cannot be bound.
    """
    check_loopback("--health-address", address)
    server = grpc.server(
        ThreadPoolExecutor(max_workers=2, thread_name_prefix="health"), options=[("grpc.so_reuseport", 0)]
    )
    health_pb2_grpc.add_HealthServicer_to_server(health.HealthServicer(), server)
    try:
        server.add_insecure_port(address)
    except RuntimeError as error:
        raise ConfigError([f"--health-address {address} cannot be bound: {error}"]) from error
    server.start()
    return server
