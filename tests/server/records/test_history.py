"""history.jsonl: a line a round, readable after a kill."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from zofedht.common.errors import DataError
from zofedht.server.core.round_record import RoundRecord
from zofedht.server.core.state import ServerState
from zofedht.server.records.history import HistoryWriter, read_history, truncate_history

RECORD = RoundRecord(
    round=0,
    evaluations=72,
    train_loss=0.5,
    train_loss_source="full",
    train_accuracy=None,
    step_size=0.1,
    basis_version=None,
    basis_rank=0,
    replies=2,
    attempts=1,
    bytes_up=10,
    bytes_down=20,
    seconds=0.25,
    failures=[{"slot": 2, "client": "1", "reason": "äh"}],
)
STATE = ServerState(1, np.zeros(2))


@pytest.fixture
def history(tmp_path: Path) -> Path:
    path = tmp_path / "history.jsonl"
    write = HistoryWriter(path)
    for round_ in range(4):
        write(STATE, replace(RECORD, round=round_))
    return path


def test_rows_are_read_back_as_written(history: Path):
    rows = read_history(history)
    assert [row["round"] for row in rows] == [0, 1, 2, 3]
    assert rows[0]["failures"] == RECORD.failures
    assert rows[0]["train_loss"] == 0.5


def test_every_row_is_strict_json(history: Path):
    HistoryWriter(history)(STATE, replace(RECORD, round=4, train_loss=math.nan))
    HistoryWriter(history)(STATE, replace(RECORD, round=5, train_loss=math.inf, start_loss=math.inf))

    def refuse(name: str) -> None:
        raise AssertionError(name)

    rows = [json.loads(line, parse_constant=refuse) for line in history.read_text().splitlines()]
    assert [row["train_loss"] for row in rows[4:]] == [None, None]
    assert [row["start_loss"] for row in rows[4:]] == [None, None]


@pytest.mark.parametrize("cut", [1, 2, 40, 200])
def test_a_last_line_cut_short_is_left_out(history: Path, cut: int):
    whole = history.read_bytes()
    history.write_bytes(whole[:-cut])
    # Without its newline alone, the line is whole.
    assert [row["round"] for row in read_history(history)] == ([0, 1, 2, 3] if cut == 1 else [0, 1, 2])


@pytest.mark.parametrize("tail", [b"\x00\x00\x00", b"\xff\xfe", b'{"round": 4, "tra'])
def test_a_last_line_of_rubbish_is_left_out(history: Path, tail: bytes):
    history.write_bytes(history.read_bytes() + tail)
    assert len(read_history(history)) == 4


@pytest.mark.parametrize("line", ["{", "[1, 2]", "3", '{"loss": 1}'])
def test_a_damaged_line_is_named(history: Path, line: str):
    lines = history.read_text().splitlines()
    lines[1] = line
    history.write_text("\n".join(lines) + "\n")
    with pytest.raises(DataError, match=r"line 2 of .*history.jsonl is not"):
        read_history(history)


def test_a_missing_history_is_named(tmp_path: Path):
    with pytest.raises(DataError, match=r"no history can be read from .*nothing\.jsonl"):
        read_history(tmp_path / "nothing.jsonl")


@pytest.mark.parametrize("rounds", [0, 2, 4])
def test_truncation_keeps_the_rounds_before(history: Path, rounds: int):
    before = history.read_text().splitlines(keepends=True)
    truncate_history(history, rounds)
    assert history.read_text().splitlines(keepends=True) == before[:rounds]


def test_truncation_drops_a_cut_line(history: Path):
    history.write_bytes(history.read_bytes()[:-5])
    truncate_history(history, 3)
    HistoryWriter(history)(STATE, replace(RECORD, round=3))
    assert [row["round"] for row in read_history(history)] == [0, 1, 2, 3]


def test_truncation_keeps_the_last_of_doubled_lines(history: Path):
    lines = history.read_text().splitlines(keepends=True)
    history.write_text("".join([lines[0], lines[1], lines[1].replace('"replies": ', '"replies": 1'), *lines[2:]]))
    with pytest.warns(UserWarning, match="had 1 more lines than rounds; the last of each round is kept"):
        truncate_history(history, 4)
    rows = read_history(history)
    assert [row["round"] for row in rows] == [0, 1, 2, 3]
    assert str(rows[1]["replies"]).startswith("1")


def test_truncation_names_rounds_without_a_line(history: Path):
    with pytest.warns(UserWarning, match=r"no line of r = 4, 5, 6, 7, 8 and 3 more, counted from 0"):
        truncate_history(history, 12)


def test_truncation_drops_damaged_lines(history: Path):
    lines = history.read_text().splitlines()
    history.write_text("\n".join([lines[0], lines[1][:40], lines[2], "[1, 2]", lines[3]]) + "\n")
    with (
        pytest.warns(UserWarning, match=r"line 2 of .*; line 4 of .*; 2 such lines are dropped"),
        pytest.warns(UserWarning, match="no line of r = 1, counted from 0"),
    ):
        truncate_history(history, 4)
    assert [row["round"] for row in read_history(history)] == [0, 2, 3]


def test_truncation_of_no_history_makes_an_empty_one(tmp_path: Path):
    with pytest.warns(UserWarning, match="has no line of r = 0, 1, 2, counted from 0"):
        truncate_history(tmp_path / "history.jsonl", 3)
    assert read_history(tmp_path / "history.jsonl") == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full to stand for a full disk")
def test_a_full_disk_is_a_data_error():
    with pytest.raises(DataError, match=r"/dev/full cannot be written \(No space left on device\)"):
        HistoryWriter(Path("/dev/full"))(STATE, RECORD)
