"""A checkpoint is read back bit for bit, or refused with what is wrong."""

from __future__ import annotations

import errno
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.helpers import small
from zofedht.common.errors import CheckpointError, DataError
from zofedht.server.core.state import ServerState, Totals
from zofedht.server.records import checkpoint
from zofedht.server.records.checkpoint import (
    CheckpointWriter,
    check_dimension,
    load_newest,
    read_checkpoint,
    write_checkpoint,
)
from zofedht.server.records.packing import pack

CONFIG = small()


def state_of(round_: int, *, basis: bool = True) -> ServerState:
    rng = np.random.default_rng(round_)
    return ServerState(
        round=round_,
        x=rng.standard_normal(5) * 10.0 ** rng.integers(-300, 300),
        trajectory=(rng.standard_normal(5), np.array([0.0, -0.0, 5e-324, 1e308, np.pi])),
        basis=rng.standard_normal((5, 2)) if basis else None,
        basis_version=2 if basis else -1,
        totals=Totals(evaluations=2**60 + 1, bytes_up=3, bytes_down=4, seconds=0.1 + 0.2),
    )


def assert_equal(one: ServerState, other: ServerState) -> None:
    assert (one.round, one.basis_version, one.totals) == (other.round, other.basis_version, other.totals)
    assert one.x.tobytes() == other.x.tobytes()
    assert [move.tobytes() for move in one.trajectory] == [move.tobytes() for move in other.trajectory]
    assert (one.basis is None) == (other.basis is None)
    if one.basis is not None and other.basis is not None:
        assert one.basis.tobytes() == other.basis.tobytes()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with the checkpoints of rounds 2, 4 and 6."""
    for round_ in (2, 4, 6):
        write_checkpoint(tmp_path, state_of(round_), CONFIG)
    return tmp_path


def newest(folder: Path) -> Path:
    return max(folder.glob("*.ckpt"))


@pytest.mark.parametrize("basis", [True, False])
def test_a_state_is_read_back_bit_for_bit(tmp_path: Path, basis: bool):
    state = state_of(3, basis=basis)
    read, config = read_checkpoint(write_checkpoint(tmp_path, state, CONFIG))
    assert_equal(read, state)
    assert config == CONFIG


def test_the_newest_is_loaded(folder: Path):
    assert_equal(load_newest(folder, CONFIG), state_of(6))


def test_the_newest_is_that_of_the_highest_round(tmp_path: Path):
    for round_ in (99_999, 100_000):
        write_checkpoint(tmp_path, state_of(round_), CONFIG)
    assert load_newest(tmp_path, CONFIG).round == 100_000


def test_only_the_newest_three_are_kept(folder: Path):
    write_checkpoint(folder, state_of(8), CONFIG)
    assert sorted(path.name for path in folder.iterdir()) == [f"round-{r:08d}.ckpt" for r in (4, 6, 8)]


@pytest.mark.parametrize("keep", [0, 5, 31, 200, -1])
def test_after_a_truncated_checkpoint_the_previous_one_loads(folder: Path, keep: int):
    path = newest(folder)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.warns(UserWarning, match=r"round-00000006.ckpt is .*; continuing from round-00000004.ckpt"):
        state = load_newest(folder, CONFIG)
    assert_equal(state, state_of(4))


@pytest.mark.parametrize("place", [0, 9, 100, -200, -40, -1])
def test_any_altered_byte_is_noticed(folder: Path, place: int):
    path = newest(folder)
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)
    with pytest.warns(UserWarning, match="continuing from round-00000004.ckpt"):
        assert load_newest(folder, CONFIG).round == 4


def test_an_unreadable_checkpoint_is_skipped(folder: Path):
    path = newest(folder)
    path.unlink()
    path.mkdir()
    with pytest.warns(UserWarning, match="cannot be read"):
        assert load_newest(folder, CONFIG).round == 4


def test_when_all_are_damaged_the_error_names_them(folder: Path):
    for path in folder.iterdir():
        path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(CheckpointError) as caught:
        load_newest(folder, CONFIG)
    assert all(f"round-0000000{round_}.ckpt is truncated or altered" in str(caught.value) for round_ in (2, 4, 6))


def test_no_checkpoint_is_an_error_that_names_the_folder(tmp_path: Path):
    with pytest.raises(CheckpointError, match="no checkpoint in"):
        load_newest(tmp_path, CONFIG)


def test_another_config_is_refused_with_its_differences(folder: Path):
    with pytest.raises(CheckpointError) as caught:
        load_newest(folder, CONFIG.replace(radius=1e-3, memory=3, rounds=90))
    message = str(caught.value)
    assert "radius = 0.0001, now 0.001" in message
    assert "memory = 2, now 3" in message
    assert "rounds =" not in message


def test_free_keys_may_differ(folder: Path):
    other = CONFIG.replace(rounds=90, budget=7, evaluate_every=3, checkpoint_every=1, max_retries=9, round_timeout=1.0)
    assert load_newest(folder, other).round == 6


def test_another_number_of_parameters_is_refused():
    with pytest.raises(CheckpointError, match="n = 5 parameters, the objective has 6"):
        check_dimension(state_of(1), 6)
    check_dimension(state_of(1), 5)


def test_the_observer_writes_at_its_period(tmp_path: Path):
    write = CheckpointWriter(tmp_path, small(checkpoint_every=3))
    for round_ in range(1, 9):
        write(state_of(round_), None)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["round-00000003.ckpt", "round-00000006.ckpt"]


def test_a_checkpoint_of_another_version_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    tree, arrays = pack(state_of(3))
    monkeypatch.setattr(checkpoint, "pack", lambda state: (tree | {"totals": {}}, arrays))
    path = write_checkpoint(tmp_path, state_of(3), CONFIG)
    with pytest.raises(CheckpointError, match="was written by another version of this program"):
        read_checkpoint(path)


def test_a_full_disk_leaves_the_old_files(folder: Path, monkeypatch: pytest.MonkeyPatch):
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    before = {path: path.read_bytes() for path in folder.iterdir()}
    monkeypatch.setattr(os, "fsync", full)
    for round_ in (6, 8):  # over an old one, and a new one
        with pytest.raises(DataError, match=r"\.ckpt cannot be written \(No space left on device\)"):
            write_checkpoint(folder, replace(state_of(3), round=round_), CONFIG)
    assert {path: path.read_bytes() for path in folder.iterdir()} == before
