"""A run that was stopped, in whatever way, goes on to the same x bit for bit."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import KilledError, kill_after, quadratics, small
from zofedht.common.config.run_config import RunConfig
from zofedht.common.config.texts import load_toml
from zofedht.common.errors import CheckpointError, ConfigError, DataError
from zofedht.server.conduct import Result
from zofedht.server.core.round_record import RoundRecord
from zofedht.server.core.state import ServerState
from zofedht.server.inprocess import run_in_process
from zofedht.server.records.history import read_history
from zofedht.server.records.run_folder import RunFolder

QUADRATICS = quadratics()
FRESH_EACH_RUN = ("seconds", "bytes_down")  # a process that starts again is sent Q again


def start(folder: RunFolder, config: RunConfig, **extras: Any) -> Result:
    folder.begin(config, "in-process")
    return run_in_process(config, QUADRATICS, folder=folder, **extras)


def resume(folder: RunFolder, **changes: Any) -> Result:
    config, state, _ = folder.reopen(changes)
    return run_in_process(config, QUADRATICS, folder=folder, state=state)


def rows(folder: RunFolder) -> list[dict[str, Any]]:
    return [{k: v for k, v in row.items() if k not in FRESH_EACH_RUN} for row in read_history(folder.history_file)]


def checkpoints(folder: RunFolder) -> list[Path]:
    return sorted(folder.checkpoints.glob("*.ckpt"))


@contextmanager
def without_last_words(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A power cut: nothing is saved on the way out."""
    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "save", lambda *anything: None)
        yield


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder(tmp_path / "run")


@pytest.mark.parametrize("killed", range(1, 8))
@pytest.mark.parametrize("power_cut", [False, True])
def test_a_resumed_run_equals_an_uninterrupted_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, killed: int, power_cut: bool
):
    """Bit for bit."""
    config = small(memory=2, rounds=8, checkpoint_every=3)  # refreshes before, at and after a checkpoint
    whole, broken = RunFolder(tmp_path / "whole"), RunFolder(tmp_path / "broken")
    expected = start(whole, config)
    way_out = without_last_words(monkeypatch) if power_cut else nullcontext()
    with pytest.raises(KilledError), way_out:
        start(broken, config, observers=[kill_after(killed)])
    result = resume(broken)
    assert result.state.x.tobytes() == expected.state.x.tobytes()
    assert [m.tobytes() for m in result.state.trajectory] == [m.tobytes() for m in expected.state.trajectory]
    assert result.summary["x_sha256"] == expected.summary["x_sha256"]
    assert result.summary["initial_train_loss"] == expected.summary["initial_train_loss"]
    assert rows(broken) == rows(whole)  # each round once, with the same losses and evaluations


@pytest.mark.parametrize("limits", [{"rounds": 8}, {"rounds": 0, "budget": 500}, {"rounds": 12, "budget": 500}])
def test_a_linear_schedule_goes_on_where_it_was(folder: RunFolder, limits: dict[str, int]):
    config = small(step_schedule="linear", **limits)
    expected = run_in_process(config, QUADRATICS)
    with pytest.raises(KilledError):
        start(folder, config, observers=[kill_after(3)])
    assert resume(folder).state.x.tobytes() == expected.state.x.tobytes()
    steps = [row["step_size"] for row in rows(folder)]
    assert len(steps) == expected.state.round > 4
    assert steps == sorted(steps, reverse=True)
    assert 0.0 < steps[-1] < 0.3 * steps[0]


def test_with_more_rounds_a_linear_schedule_is_longer(folder: RunFolder):
    start(folder, small(step_schedule="linear", step_size=0.05, rounds=5))
    resume(folder, rounds=10)
    steps = [row["step_size"] / 0.05 for row in rows(folder)]
    assert steps == pytest.approx([1.0, 0.8, 0.6, 0.4, 0.2, 0.5, 0.4, 0.3, 0.2, 0.1])


def test_history_rows_after_the_checkpoint_are_dropped(folder: RunFolder, monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(KilledError), without_last_words(monkeypatch):
        start(folder, small(checkpoint_every=3), observers=[kill_after(5)])
    assert len(rows(folder)) == 5
    _, state, _ = folder.reopen({})
    assert state.round == 3
    assert [row["round"] for row in rows(folder)] == [0, 1, 2]


def test_repeated_kills_do_not_change_x(tmp_path: Path):
    expected = run_in_process(small(), QUADRATICS).state.x
    folder = RunFolder(tmp_path / "run")
    with pytest.raises(KilledError):
        start(folder, small(), observers=[kill_after(2)])
    for _ in range(2):
        config, state, _ = folder.reopen({})
        with pytest.raises(KilledError):
            run_in_process(config, QUADRATICS, folder=folder, state=state, observers=[kill_after(state.round + 2)])
    assert resume(folder).state.x.tobytes() == expected.tobytes()
    assert [row["round"] for row in rows(folder)] == list(range(7))


def test_more_rounds_equal_a_longer_run(tmp_path: Path):
    short, long = RunFolder(tmp_path / "short"), RunFolder(tmp_path / "long")
    start(short, small(rounds=5, step_schedule="inverse-sqrt"))
    expected = start(long, small(rounds=9, step_schedule="inverse-sqrt"))
    assert resume(short, rounds=9).summary["x_sha256"] == expected.summary["x_sha256"]
    assert load_toml(short.config_file)["rounds"] == 9


def test_resuming_a_finished_run_changes_nothing(folder: RunFolder):
    first = start(folder, small())
    before = rows(folder)
    again = resume(folder)
    costs = {"seconds": 0, "full_evaluations": 0}  # the end is looked at once more
    assert again.summary | costs == first.summary | costs
    assert rows(folder) == before


@pytest.mark.parametrize("damaged", [1, 2])
def test_damaged_checkpoints_cost_rounds_and_not_the_run(folder: RunFolder, damaged: int):
    expected = start(folder, small())
    for path in checkpoints(folder)[-damaged:]:
        path.write_bytes(path.read_bytes()[:-9])
    with pytest.warns(UserWarning, match="truncated or altered"):
        result = resume(folder)
    assert result.summary["x_sha256"] == expected.summary["x_sha256"]
    assert [row["round"] for row in rows(folder)] == list(range(7))


def test_when_all_checkpoints_are_damaged_nothing_is_touched(folder: RunFolder):
    start(folder, small())
    for path in checkpoints(folder):
        path.write_bytes(path.read_bytes()[:-9])
    history = folder.history_file.read_bytes()
    with pytest.raises(CheckpointError, match="no checkpoint can be continued from"):
        folder.reopen({})
    assert folder.history_file.read_bytes() == history


def test_keys_that_enter_the_numbers_cannot_change_on_resume(folder: RunFolder):
    start(folder, small())
    with pytest.raises(ConfigError) as caught:
        folder.reopen({"radius": 1e-3, "memory": 3, "rounds": 50})
    (told,) = caught.value.problems
    assert told.startswith("memory, radius cannot change when a run is resumed")


def test_an_edited_config_file_is_refused_by_what_differs(folder: RunFolder):
    start(folder, small())
    text = folder.config_file.read_text()
    folder.config_file.write_text(text.replace('radius = "default"', "radius = 0.5"))
    with pytest.raises(CheckpointError, match=r"radius = 0\.0001, now 0\.5"):
        folder.reopen({})


def test_another_n_is_refused_with_both_numbers(folder: RunFolder):
    start(folder, small())
    config, state, _ = folder.reopen({"rounds": 20})
    with pytest.raises(CheckpointError, match="n = 12 parameters, the objective has 7"):
        run_in_process(config, quadratics(dimension=7), folder=folder, state=state)


def test_a_folder_without_a_run_cannot_be_resumed(folder: RunFolder):
    with pytest.raises(CheckpointError, match=r"holds no run: it has no config\.toml"):
        folder.reopen({})


def test_without_run_json_a_run_can_be_finished(folder: RunFolder):
    with pytest.raises(KilledError):
        start(folder, small(), observers=[kill_after(3)])
    folder.about.file.unlink()
    with pytest.warns(UserWarning, match="the loss of the start"):
        assert resume(folder).summary["initial_train_loss"] is None


def test_the_engine_is_remembered(folder: RunFolder):
    folder.begin(small(), "simulation")
    run_in_process(small(), QUADRATICS, folder=folder)
    assert folder.reopen({})[2] == "simulation"


def test_a_full_disk_loses_nothing_written(folder: RunFolder, monkeypatch: pytest.MonkeyPatch):
    """The checkpoint of round 4 cannot be written: rounds 0 to 3 stay, and the run goes on from round 2."""

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def fill_the_disk(state: ServerState, record: RoundRecord) -> None:
        if state.round == 3:
            patch.setattr(os, "fsync", full)

    expected = run_in_process(small(), QUADRATICS).state.x
    with (
        monkeypatch.context() as patch,
        pytest.warns(UserWarning, match="the run can be resumed from an older checkpoint"),
        pytest.raises(DataError, match=r"round-00000004\.ckpt cannot be written \(No space left on device\)"),
    ):
        start(folder, small(), observers=[fill_the_disk])
    assert [row["round"] for row in rows(folder)] == [0, 1, 2, 3]
    assert [path.name for path in sorted(folder.checkpoints.iterdir())] == [
        "round-00000000.ckpt",
        "round-00000002.ckpt",
    ]
    assert resume(folder).state.x.tobytes() == expected.tobytes()
    assert [row["round"] for row in rows(folder)] == list(range(7))


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full to stand for a full disk")
def test_an_unwritable_history_stops_the_run(folder: RunFolder):
    """The round does not count."""
    expected = run_in_process(small(), QUADRATICS).state.x
    folder.begin(small(), "in-process")
    folder.history_file.symlink_to("/dev/full")
    with pytest.raises(DataError, match=r"history\.jsonl cannot be written"):
        run_in_process(small(), QUADRATICS, folder=folder)
    folder.history_file.unlink()
    assert resume(folder).state.x.tobytes() == expected.tobytes()
    assert [row["round"] for row in rows(folder)] == list(range(7))


def test_a_run_stopped_by_failing_clients_can_be_resumed(folder: RunFolder):
    from zofedht.common.errors import RoundError

    config, expected = small(max_retries=0), run_in_process(small(max_retries=0), QUADRATICS).state.x
    folder.begin(config, "in-process")

    def shut_down(state: ServerState, record: RoundRecord) -> None:
        if state.round == 5:
            raise RoundError("round 5 had fewer than min-replies")

    with pytest.raises(RoundError):
        run_in_process(config, QUADRATICS, folder=folder, observers=[shut_down])
    assert resume(folder).state.x.tobytes() == expected.tobytes()
