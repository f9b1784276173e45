"""A site for one test: its processes end with it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.server.grpc.processes import Site


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """Return a site over plain text on loopback."""
    site = Site(tmp_path)
    try:
        yield site
    finally:
        site.close()
