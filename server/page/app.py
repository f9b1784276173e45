"""The answers of the page: GET alone, nothing from elsewhere, and nothing to who may not see it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from importlib import resources
from pathlib import Path

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from zofedht.common.errors import MissingExtraError
from zofedht.server.page.access import Access
from zofedht.server.page.metrics import CONTENT_TYPE, metrics_text
from zofedht.server.page.updates import MOST_POINTS, Updates, as_rows
from zofedht.server.page.view import FILES, RunView

__all__ = ["LOOK_SECONDS", "page_app"]

LOOK_SECONDS = 0.5
"""Seconds between looks at the files, while somebody watches."""

_MOST_SECONDS = 0.2  # of one look: a long file is read in parts, and the page is there meanwhile
_PAUSE_SECONDS = 0.05
_BLOCK = 2**16
_QUIET_SECONDS = 15.0  # then a comment keeps the connection open
_HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src"
    " 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
_KINDS = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_ASSETS = ("page.css", "page.js", "chart.js", "tables.js", "icon.svg")


def page_app(view: RunView, access: Access, stopping: Callable[[], bool]) -> ASGIApp:
    """Return the application. Its streams end soon after ``stopping`` says so, with what is new until then."""
    looked = -LOOK_SECONDS

    def look() -> None:
        nonlocal looked
        if view.behind or time.monotonic() - looked >= 0.8 * LOOK_SECONDS or stopping():
            view.look(_MOST_SECONDS)
            looked = time.monotonic()

    async def front(request: Request) -> Response:
        return _asset("page.html")

    async def asset(request: Request) -> Response:
        return _asset(request.url.path.removeprefix("/"))

    async def events(request: Request) -> Response:
        last = request.headers.get("last-event-id", request.query_params.get("after", ""))
        return StreamingResponse(stream(last), media_type="text/event-stream")

    async def stream(last_id: str) -> AsyncIterator[str]:
        look()
        updates = Updates(view, last_id)
        yield f"retry: {round(2000 * LOOK_SECONDS)}\n\n"
        told = time.monotonic()
        while True:
            over = stopping()
            look()
            if text := updates.next():
                yield text
                told = time.monotonic()
            elif time.monotonic() - told > _QUIET_SECONDS:
                yield ": nothing new\n\n"
                told = time.monotonic()
            if over:
                return
            await asyncio.sleep(_PAUSE_SECONDS if view.behind else LOOK_SECONDS)

    async def points(request: Request) -> Response:
        look()
        try:
            first, last = (int(request.query_params[name]) for name in ("from", "to"))
        except (KeyError, ValueError):
            raise HTTPException(400, "from and to must be rounds") from None
        return Response(as_rows(view.between(first, last, MOST_POINTS)), media_type="application/json")

    async def metrics(request: Request) -> Response:
        look()
        while view.behind:
            await asyncio.sleep(_PAUSE_SECONDS)
            look()
        try:
            return Response(metrics_text(view), media_type=CONTENT_TYPE)
        except MissingExtraError as error:
            return PlainTextResponse(f"{error}\n", 501)

    async def file(request: Request) -> Response:
        name = request.path_params["name"]
        if name not in FILES:
            raise HTTPException(404)
        return _file(view.folder.path / name)

    routes = [
        Route("/", front),
        *(Route(f"/{name}", asset) for name in _ASSETS),
        Route("/events", events),
        Route("/points", points),
        Route("/metrics", metrics),
        Route("/files/{name}", file),
    ]
    return _Guard(Starlette(routes=routes), access)


class _Guard:
    """Refuses requests that name another host or show no token, and adds the headers that every answer has."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        await self._chosen(Request(scope))(scope, receive, _with_headers(send))

    def _chosen(self, request: Request) -> ASGIApp:
        if not self._access.host_is_ours(request):
            return PlainTextResponse("This page answers to the names of its own machine alone.\n", 421)
        if request.method not in ("GET", "HEAD"):
            return PlainTextResponse("This page can be read, and no more.\n", 405, {"allow": "GET, HEAD"})
        if self._access.is_allowed(request):
            return self._app
        shown = request.query_params.get("token", "")
        if request.url.path == "/" and self._access.opens(shown):
            answer = RedirectResponse("/", 303)  # the token does not stay in the address
            secure = request.url.scheme == "https"
            answer.set_cookie(self._access.cookie, shown, httponly=True, samesite="strict", secure=secure)
            return answer
        if request.url.path in ("/page.css", "/icon.svg"):
            return self._app
        return HTMLResponse(_read("token.html"), 401, {"www-authenticate": "Bearer"})


def _with_headers(send: Send) -> Callable[[Message], Awaitable[None]]:
    async def sender(message: Message) -> None:
        if message["type"] == "http.response.start":
            ours = [(name.encode(), value.encode()) for name, value in _HEADERS.items()]
            message = {**message, "headers": [*message["headers"], *ours]}
        await send(message)

    return sender


def _read(name: str) -> bytes:
    return resources.files("zofedht.server.page").joinpath("assets", name).read_bytes()


def _asset(name: str) -> Response:
    return Response(_read(name), media_type=_KINDS[Path(name).suffix])


def _file(path: Path) -> Response:
    """Return a file as long as it is now: it may grow while it is sent."""
    try:
        stream = path.open("rb")
    except OSError:
        raise HTTPException(404) from None
    size = path.stat().st_size

    async def pieces() -> AsyncIterator[bytes]:
        left = size
        with stream:
            while left and (piece := stream.read(min(_BLOCK, left))):
                left -= len(piece)
                yield piece

    headers = {"content-length": str(size), "content-disposition": f'attachment; filename="{path.name}"'}
    return StreamingResponse(pieces(), media_type="application/octet-stream", headers=headers)
