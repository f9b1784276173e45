"""The counting proxy sees a real run over gRPC: all that the history counts, and a little more."""

from __future__ import annotations

import pytest

from benchmarks.messages.framing import counted
from benchmarks.messages.wire import WAYS

ROUNDS = 3
JOINING = 6_000  # bytes of introductions, certificates and the end, for one client


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "TLS"])
def test_http2_and_tls_add_little(tls: bool) -> None:
    found = counted(WAYS["move up, x down"], 39_300, 1, ROUNDS, tls=tls)
    for told, seen in zip(found.history, found.sockets, strict=True):
        assert told > ROUNDS * 8 * 39_300
        assert told < seen < 1.01 * told + JOINING
