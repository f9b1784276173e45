"""The connection of a client: where it leads, and why it ended, with the way out."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Any

import grpc

from zofedht.common.plain_text import printable
from zofedht.common.tls import TlsFiles

__all__ = ["Connection", "SilentError", "StreamEndedError", "reason_of"]

_MOST_REASON = 1000  # characters of what a server says
_MAY_BE_TLS = "andshake|ertificate|SSL|erification|Socket closed|reset|Broken pipe"
_UNKNOWN_HOST = r"(?:errors resolving|DNS resolution failed for) ([^:\s]+)"  # gRPC's words for it, new and old
_WRONG_NAME = "Peer name|Hostname Verification"  # gRPC's words for it, old and new


@dataclass(frozen=True)
class Connection:
    """The address of the server and the settings of the connection."""

    address: str
    tls: TlsFiles | None
    server_name: str = ""  # in the server's certificate; empty for the address
    max_message_bytes: int = 512 * 2**20
    max_wait: float = float("inf")  # seconds without a connection after which to give up
    name: str = ""  # of the client, which tells it to the server where it does not join

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


def reason_of(error: Any, connection: Connection, *, introduced: bool) -> str:
    """Return why the connection ended and, where certificates may be the cause, the way out."""
    details = printable(str(error.details() or error.code().name), _MOST_REASON).rpartition("last error: ")[2]
    details = re.sub(r"^[A-Z_]+: (ipv[46]:\S+: )?", "", details)
    if unknown := re.search(_UNKNOWN_HOST, details):
        details = f"the host name {unknown[1]!r} is not known here; check --server and the network's name service"
    if not introduced and (variable := _proxy(connection.address)):
        details += f"; the connection goes through the proxy of {variable}: put the server's host into no_proxy"
    if connection.tls and re.search(_WRONG_NAME, details):
        asked = connection.server_name or connection.address.rpartition(":")[0]
        return (
            f"the server's certificate does not hold the name {asked!r}; give --server-name a name that is in it,"
            " or make one with make-certs --server-names"
        )
    # A server hangs up on a wrong certificate, which looks like a lost connection.
    if connection.tls and not introduced and re.search(_MAY_BE_TLS, details):
        details += (
            "; the certificates in --tls-dir must be valid and of the server's authority, and the server's"
            " certificate must hold its address (or the name given by --server-name); a server without room hangs up,"
            " too"
        )
    elif connection.tls is None and not introduced and re.search(_MAY_BE_TLS, details):
        details += (
            "; a server that speaks TLS hangs up on --insecure: give --tls-dir instead; one without room hangs up, too"
        )
    return details


def _proxy(address: str) -> str:
    """Return the variable that names the proxy that grpc takes for an address, or an empty text."""
    host = address.rpartition(":")[0]
    spared = os.environ.get("no_proxy", "")
    if any(part.strip() and host.endswith(part.strip()) for part in spared.split(",")):
        return ""
    return next((name for name in ("grpc_proxy", "https_proxy", "http_proxy") if os.environ.get(name)), "")


class SilentError(grpc.RpcError):  # type: ignore[misc]
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


class StreamEndedError(grpc.RpcError):  # type: ignore[misc]
    """The server closed the stream before the end of the run: it is going down."""

    def code(self) -> grpc.StatusCode:
        return grpc.StatusCode.UNAVAILABLE

    def details(self) -> str:
        return "the server closed the connection"
