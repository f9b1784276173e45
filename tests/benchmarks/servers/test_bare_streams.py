"""The yardstick of a connection's memory runs."""

from __future__ import annotations

import re

import pytest

from benchmarks.servers.bare_streams import main


def test_streams_of_a_bare_server_are_measured(capsys: pytest.CaptureFixture[str]):
    assert main(["--clients", "3", "--rounds", "2", "--option", "grpc.http2.bdp_probe=0"]) == 0
    memory, seconds = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"3 streams: \d+ -> \d+ MB, -?\d+ kB each", memory)
    assert re.fullmatch(r"a round of all: \d+ ms, server's CPU \d+ ms", seconds)
