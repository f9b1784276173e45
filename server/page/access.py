"""Who may see the page: everybody on this machine, or who shows a token or a certificate."""

from __future__ import annotations

import hmac
import os
import secrets
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from pathlib import Path

from starlette.requests import Request

from zofedht.common.errors import ConfigError, DataError
from zofedht.common.terminal.command_line import check_address
from zofedht.common.tls import is_loopback

__all__ = ["Access", "PageOptions", "access_to"]

_OWN_NAMES = {"localhost", "127.0.0.1", "[::1]"}
_LEAST_TOKEN = 16  # characters


@dataclass(frozen=True)
class PageOptions:
    """Where the page is, and what opens it."""

    address: str
    token_file: Path | None = None
    tls_dir: Path | None = None

    def check(self) -> None:
        """Raise ConfigError where others than this machine's users could see the page."""
        check_address("--page", self.address)
        if not is_loopback(self.address) and self.token_file is None and self.tls_dir is None:
            raise ConfigError(
                [
                    f"--page {self.address} leaves this machine, so it needs --page-token FILE, or --tls-dir DIR, with"
                    " which a browser needs a client's certificate"
                ]
            )

    @property
    def encrypted(self) -> bool:
        """Whether the page is served over TLS: with certificates, beyond this machine."""
        return self.tls_dir is not None and not is_loopback(self.address)

    @property
    def asks_certificate(self) -> bool:
        """Whether a browser must show a client's certificate; a token is enough without one."""
        return self.encrypted and self.token_file is None


@dataclass(frozen=True)
class Access:
    """What a request must show. ``token`` is empty where it need not show one."""

    token: str = field(repr=False)
    cookie: str
    any_host: bool  # a request shows a token or a certificate, which another site's page cannot

    def host_is_ours(self, request: Request) -> bool:
        """Return whether the request names this machine.

        A page of another site can point its own name at this machine (DNS rebinding), and the browser then sends our
        answers to it. Its name is in the header Host.
        """
        host = request.headers.get("host", "").lower()
        name = host.rpartition(":")[0] if ":" in host and not host.endswith("]") else host
        return self.any_host or name in _OWN_NAMES

    def is_allowed(self, request: Request) -> bool:
        """Return whether the request shows the token, as a cookie or as a bearer's."""
        if not self.token:
            return True
        kind, _, shown = request.headers.get("authorization", "").partition(" ")
        if kind.lower() != "bearer":
            shown = _cookie(request.headers.get("cookie", ""), self.cookie)
        return self.opens(shown.strip())

    def opens(self, shown: str) -> bool:
        """Return whether this is the token, in a time that does not tell how much of it is right."""
        return hmac.compare_digest(shown.encode(), self.token.encode())


def access_to(options: PageOptions, port: int) -> Access:
    """Return what requests must show. Raises DataError where the token cannot be read, or made."""
    token = _token(options.token_file) if options.token_file else ""
    # Cookies do not know ports: two pages on one machine have two names.
    return Access(token, f"zofedht-page-{port}", bool(token) or options.asks_certificate)


def _token(path: Path) -> str:
    """Return the token of a file, which is made when it is used first."""
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(secrets.token_urlsafe(24) + "\n")
    except FileExistsError:
        pass
    except OSError as error:
        raise DataError(f"--page-token {path} cannot be made ({error.strerror})") from error
    try:
        token = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"--page-token {path} cannot be read ({error})") from error
    if len(token) < _LEAST_TOKEN or not token.isascii() or not token.isprintable() or set(token) & set(' ";,\\'):
        raise DataError(
            f"--page-token {path} must hold one word of {_LEAST_TOKEN} or more letters, digits, signs; a missing file"
            " is made"
        )
    return token


def _cookie(header: str, name: str) -> str:
    try:
        found = SimpleCookie(header).get(name)
    except CookieError:
        return ""
    return found.value if found else ""
