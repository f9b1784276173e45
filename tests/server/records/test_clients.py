"""clients.jsonl: who gave what to each round, and who came and went."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import killed_and_resumed, quadratics, small
from zofedht.common.errors import DataError
from zofedht.server.inprocess import run_in_process
from zofedht.server.records.clients import ClientLog
from zofedht.server.records.history import read_history
from zofedht.server.records.run_folder import RunFolder


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    with RunFolder(tmp_path / "run") as folder:
        folder.begin(small(), "in-process")
        run_in_process(small(), quadratics(), folder=folder)
    return folder


def test_each_round_lists_the_clients_asked(folder: RunFolder):
    rows = lines(folder.clients.path)
    assert [row["round"] for row in rows] == list(range(7))
    for row, told in zip(rows, read_history(folder.history_file), strict=True):
        assert sum(cells[0] for cells in row["clients"].values()) == told["replies"] == 3
        assert all(cells[1] > 0.0 and cells[4] > 0.0 for cells in row["clients"].values())


def test_bytes_of_all_clients_are_those_of_the_run(folder: RunFolder):
    last = read_history(folder.history_file)[-1]
    cells = [cells for row in lines(folder.clients.path) for cells in row["clients"].values()]
    assert sum(one[2] for one in cells) == last["bytes_up"] > 0
    assert sum(one[3] for one in cells) == last["bytes_down"] > 0


def test_a_resumed_run_has_each_round_once(tmp_path: Path):
    folder = RunFolder(tmp_path / "run")
    killed_and_resumed(folder, small(), 5)
    assert [row["round"] for row in lines(folder.clients.path)] == list(range(7))


def test_truncating_drops_later_rounds_and_torn_lines(tmp_path: Path):
    log = ClientLog(tmp_path / "clients.jsonl", clock=lambda: 5.0)
    log.joined("a")
    log.left("a", "it spoke")
    with log.path.open("a") as file:
        file.write('{"time":6.0,"round":2,"clients":{}}\n{"time":6.5,"round":3,"clients":{}}\n{"time":7.0,"rou')
    log.truncate(3)
    assert lines(log.path) == [
        {"time": 5.0, "joined": "a"},
        {"time": 5.0, "left": "a", "why": "it spoke"},
        {"time": 6.0, "round": 2, "clients": {}},
    ]


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path):
    with pytest.raises(DataError, match=r"clients.jsonl cannot be written"):
        ClientLog(tmp_path / "nowhere" / "clients.jsonl").joined("a")


def test_a_run_that_never_began_leaves_no_folder(tmp_path: Path):
    with RunFolder(tmp_path / "run") as folder:
        folder.claim()
        folder.clients.listening()
        folder.clients.joined("a")
    assert not folder.path.exists()
