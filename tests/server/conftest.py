"""A site for one test, whose processes end with it, and the certificates that all tests over mutual TLS share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.server.grpc.processes import Site
from zofedht.server.certificates import make_certificates


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """Return a site over plain text on loopback."""
    site = Site(tmp_path)
    try:
        yield site
    finally:
        site.close()


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the certificates of a server and of c0, c1, c2."""
    folder = tmp_path_factory.mktemp("certs")
    make_certificates(folder, ["localhost", "127.0.0.1"], ["c0", "c1", "c2"], 10.0)
    return folder


@pytest.fixture
def secure_site(site: Site, certificates: Path) -> Site:
    """Return a site with mutual TLS."""
    site.certificates = certificates
    return site
