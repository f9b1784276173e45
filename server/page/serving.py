"""The page's server: a thread of its own beside a run, or a process that watches a folder."""

from __future__ import annotations

import contextlib
import ipaddress
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import uvicorn

from zofedht.common.errors import ConfigError, DataError
from zofedht.common.tls import read_tls
from zofedht.server.page.access import PageOptions, access_to
from zofedht.server.page.app import page_app
from zofedht.server.page.careful_http import Refuses, careful_http
from zofedht.server.page.view import RunView
from zofedht.server.records.run_folder import RunFolder

__all__ = ["show_page", "watch"]

_FAREWELL_SECONDS = 3  # for the last news to browsers
_SIGNAL_SECONDS = 0.5  # until a signal is noticed, whichever thread got it


@contextlib.contextmanager
def show_page(
    path: Path,
    options: PageOptions,
    report: Callable[[str], None],
    refuses: Refuses = lambda name, serial: False,
) -> Iterator[int]:
    """Serve the page of a result folder during the block, and yield its port.

    Parameters
    ----------
    path : Path
        The folder; it need not exist yet.
    options : PageOptions
    report : callable
        Gets a line with the page's address.
    refuses : callable
        Whether a certificate of this name and this serial number may not see the page; asked again and again.

    Raises
    ------
    ConfigError
        When the page could be seen by anybody, or the address cannot be bound.
    DataError
        When the token or the certificates cannot be read.
    """
    options.check()
    if options.encrypted and options.tls_dir is not None:
        read_tls(options.tls_dir, "server")  # names a file that is missing
    listener = _bound(options.address)
    with listener:
        port = int(listener.getsockname()[1])
        access = access_to(options, port)
        stopping = threading.Event()
        app = page_app(RunView(path), access, stopping.is_set)
        server = uvicorn.Server(_config(app, options, refuses))
        thread = threading.Thread(target=server.run, args=([listener],), name="page", daemon=True)
        thread.start()
        report(
            f"page: {_address(options, port)}" + (f", with the token in {options.token_file}" if access.token else "")
        )
        try:
            yield port
        finally:
            stopping.set()
            server.should_exit = True
            thread.join(_FAREWELL_SECONDS)


def watch(path: Path, options: PageOptions, report: Callable[[str], None], refuses: Refuses) -> None:
    """Serve the page of a result folder until an interrupt. Raises DataError for a folder that holds no run."""
    folder = RunFolder(path)
    if not (folder.exists() or folder.config_file.exists() or (path / "run.lock").exists()):
        raise DataError(f"{path} holds no run: a result folder has config.toml and history.jsonl in it")
    with show_page(path, options, report, refuses), contextlib.suppress(KeyboardInterrupt):
        # Each pause ends by itself: a signal that the system gives to another thread, or that comes just before a wait,
        # wakes no wait of this thread, and the handlers run here alone.
        while True:
            time.sleep(_SIGNAL_SECONDS)


def _config(app: object, options: PageOptions, refuses: Refuses) -> uvicorn.Config:
    config = uvicorn.Config(
        app,  # type: ignore[arg-type]
        http=careful_http(refuses),
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,  # nobody may say for another where a request comes from
        timeout_graceful_shutdown=_FAREWELL_SECONDS - 1,
    )
    if options.encrypted:
        assert options.tls_dir is not None
        config.ssl_certfile = str(options.tls_dir / "server.crt")
        config.ssl_keyfile = str(options.tls_dir / "server.key")
        config.ssl_ca_certs = str(options.tls_dir / "ca.crt")
        config.ssl_cert_reqs = ssl.CERT_REQUIRED if options.asks_certificate else ssl.CERT_NONE
    return config


def _bound(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, int(port)), family=family)
    except OSError as error:
        raise ConfigError([f"--page {address} cannot be bound: {error.strerror or error}"]) from error


def _address(options: PageOptions, port: int) -> str:
    host = options.address.rpartition(":")[0]
    with contextlib.suppress(ValueError):
        if ipaddress.ip_address(host.strip("[]")).is_unspecified:
            host = socket.gethostname()
    return f"http{'s' if options.encrypted else ''}://{host}:{port}/"
