"""Connections that are bounded: strangers who connect and say nothing must not use up the run's files."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

__all__ = ["CarefulHttp", "Refuses", "careful_http"]

_MOST_CONNECTIONS = 100
_SECONDS_TO_SPEAK = 10.0
_SECONDS_BETWEEN_LOOKS = 2.0  # whether a certificate is refused now

Refuses = Callable[[str, str], bool]
"""Whether a certificate of this name and this serial number may see nothing."""


class CarefulHttp(H11Protocol):
    """HTTP/1.1 that closes what is too many, and who does not say what it wants in time."""

    refuses: Refuses | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > _MOST_CONNECTIONS:
            transport.abort()
            return
        self.loop.call_later(_SECONDS_TO_SPEAK, self._close_unless_spoken)
        if type(self).refuses is not None:
            self._close_where_refused()

    def _close_where_refused(self) -> None:
        """Close the connection of a refused certificate, even one that has been open for long."""
        if self.transport.is_closing():
            return
        secured: Any = self.transport.get_extra_info("ssl_object")
        refuses = type(self).refuses
        if secured is not None and refuses is not None and refuses(*_holder(secured.getpeercert() or {})):
            self.transport.abort()
            return
        self.loop.call_later(_SECONDS_BETWEEN_LOOKS, self._close_where_refused)

    def _close_unless_spoken(self) -> None:
        spoken: Any = self.cycle  # None until a request has come, although uvicorn's types say otherwise
        if spoken is None:
            self.transport.abort()


def careful_http(refuses: Refuses) -> type[CarefulHttp]:
    """Return the protocol of a page that certificates open, except those that are refused."""
    return type("CarefulHttp", (CarefulHttp,), {"refuses": staticmethod(refuses)})


def _holder(certificate: Mapping[str, Any]) -> tuple[str, str]:
    """Return name and serial number, as the roster has them."""
    names = [value for part in certificate.get("subject", ()) for key, value in part if key == "commonName"]
    return names[0] if names else "", str(certificate.get("serialNumber", "")).lower().lstrip("0")
