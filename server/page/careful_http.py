"""Connections that are bounded: strangers who connect and say nothing must not use up the run's files."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

__all__ = ["CarefulHttp"]

_MOST_CONNECTIONS = 100
_SECONDS_TO_SPEAK = 10.0


class CarefulHttp(H11Protocol):
    """HTTP/1.1 that closes what is too many, and who does not say what it wants in time."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > _MOST_CONNECTIONS:
            transport.abort()
            return
        self.loop.call_later(_SECONDS_TO_SPEAK, self._close_unless_spoken)

    def _close_unless_spoken(self) -> None:
        spoken: Any = self.cycle  # None until a request has come, although uvicorn's types say otherwise
        if spoken is None:
            self.transport.abort()
