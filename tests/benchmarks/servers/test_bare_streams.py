"""The yardstick of a connection's memory runs."""

from __future__ import annotations

import re

import pytest

from benchmarks.servers.bare_streams import main


def test_streams_of_a_bare_server_are_measured(capsys: pytest.CaptureFixture[str]):
    assert main(["--clients", "3"]) == 0
    assert re.fullmatch(r"3 streams: \d+ -> \d+ MB, -?\d+ kB each\n", capsys.readouterr().out)
