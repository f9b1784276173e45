"""What a run left can be had in Python and as a file, to the last bit."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import zofedht
from tests.helpers import quadratics, small
from zofedht import load_run
from zofedht.common.errors import CheckpointError, DataError
from zofedht.server.__main__ import main
from zofedht.server.conduct import Result
from zofedht.server.core.state import ServerState
from zofedht.server.inprocess import run_in_process
from zofedht.server.records.finished_run import EXPORTS, export
from zofedht.server.records.run_folder import RunFolder, sha256_of_x


def finish(path: Path, **changes: object) -> Result:
    folder = RunFolder(path)
    config = small(**{"return_x": "best"} | changes)
    folder.begin(config, "in-process")
    return run_in_process(config, quadratics(), folder=folder)


def test_a_finished_run_has_x_config_history_and_summary(tmp_path: Path):
    result = finish(tmp_path / "run")
    found = load_run(tmp_path / "run")
    assert found.x.tobytes() == result.x.tobytes() != found.last.tobytes() == result.state.x.tobytes()
    assert found.config == small(return_x="best")
    assert found.summary == result.summary
    assert [row["round"] for row in found.history] == list(range(7))


def test_an_interrupted_run_has_its_newest_x(tmp_path: Path):
    def stop(state: ServerState, record: object) -> None:
        if state.round == 5:
            raise KeyboardInterrupt

    folder, config = RunFolder(tmp_path / "run"), small(step_schedule="constant", return_x="best")
    folder.begin(config, "in-process")
    with pytest.raises(KeyboardInterrupt):
        run_in_process(config, quadratics(), folder=folder, observers=[stop])
    found = load_run(tmp_path / "run")
    four = run_in_process(config.replace(rounds=4), quadratics())  # round 4 was not done
    assert found.last.tobytes() == four.state.x.tobytes()
    best = four.state.best
    assert best is not None
    assert found.x.tobytes() == best.x.tobytes()
    assert found.summary == {}


def test_a_resumed_run_has_no_stale_summary(tmp_path: Path):
    finish(tmp_path / "run", step_schedule="constant")
    folder = RunFolder(tmp_path / "run")
    config, state, _ = folder.reopen({"rounds": 9})

    def stop(state: ServerState, record: object) -> None:
        if state.round == 9:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_in_process(config, quadratics(), folder=folder, state=state, observers=[stop])
    found = load_run(tmp_path / "run")
    assert found.last.tobytes() == run_in_process(config.replace(rounds=8), quadratics()).state.x.tobytes()
    assert found.summary == {}


def test_a_folder_copied_without_checkpoints_has_x(tmp_path: Path):
    result = finish(tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "checkpoints")
    found = load_run(tmp_path / "run")
    assert (found.x.tobytes(), found.last.tobytes()) == (result.x.tobytes(), result.state.x.tobytes())


def test_a_folder_without_a_run_is_refused(tmp_path: Path):
    with pytest.raises(DataError, match="holds no run"):
        load_run(tmp_path)
    RunFolder(tmp_path).begin(small(), "in-process")
    with pytest.raises(DataError, match="holds no run"):
        load_run(tmp_path)


@pytest.mark.parametrize("content", [b"", b"junk", b"PK\x03\x04"])
def test_a_damaged_x_or_checkpoint_is_refused(tmp_path: Path, content: bytes):
    finish(tmp_path / "run")
    for file in (tmp_path / "run" / "checkpoints").iterdir():
        file.write_bytes(content)
    with pytest.raises(CheckpointError, match="no checkpoint can be continued from"):
        load_run(tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "checkpoints")
    (tmp_path / "run" / "x.npy").write_bytes(content)
    with pytest.raises(DataError, match=r"x\.npy cannot be read"):
        load_run(tmp_path / "run")


def test_every_export_reads_back_bit_for_bit(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    x = finish(tmp_path / "run").x
    for ending in EXPORTS:
        assert main(["export", str(tmp_path / "run"), "--out", str(tmp_path / f"x{ending}")]) == 0
        assert f"x{ending} (12 values)" in capsys.readouterr().out
    with np.load(tmp_path / "x.npz") as arrays:
        assert arrays["x"].tobytes() == x.tobytes()
    rows = list(csv.DictReader((tmp_path / "x.csv").read_text().splitlines()))
    assert np.array([float(row["x"]) for row in rows]).tobytes() == x.tobytes()
    told = json.loads((tmp_path / "x.json").read_text())
    assert np.array(told["x"]).tobytes() == x.tobytes()
    assert (told["rounds"], told["x_sha256"]) == (7, load_run(tmp_path / "run").summary["x_sha256"])


def test_an_export_says_that_a_run_has_not_ended(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    """After another run was refused, the folder still holds the x of the first."""
    finish(tmp_path / "run")
    command = ["export", str(tmp_path / "run"), "--out", str(tmp_path / "x.csv")]
    assert main(command) == 0
    assert not caplog.messages
    (tmp_path / "run" / "summary.json").unlink()
    assert main(command) == 0
    told = "holds a run of dataset digits that has not ended; continue it with `zofedht-server resume "
    assert told in caplog.messages[-1]


def test_the_last_x_is_exported_on_demand(tmp_path: Path):
    result = finish(tmp_path / "run", step_size=30.0)
    assert result.verdict.which != "last"
    assert main(["export", str(tmp_path / "run"), "--last", "--out", str(tmp_path / "x.json")]) == 0
    told = json.loads((tmp_path / "x.json").read_text())
    assert np.array(told["x"]).tobytes() == result.state.x.tobytes()
    assert (told["x_sha256"], told["final_train_loss"]) == (
        sha256_of_x(result.state.x),
        result.summary["last_train_loss"],
    )


@pytest.mark.parametrize(
    ("out", "sentence"),
    [
        ("x.xlsx", "--out must end in .npz, .csv, .json, got 'x.xlsx'"),
        ("x", "--out must end in .npz, .csv, .json, got 'x'"),
        ("nowhere/x.csv", "there is no folder"),
    ],
)
def test_an_export_that_cannot_be_written_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], out: str, sentence: str
):
    finish(tmp_path / "run")
    assert main(["export", str(tmp_path / "run"), "--out", str(tmp_path / out)]) == 2
    error = capsys.readouterr().err
    assert len(error.splitlines()) == 1
    assert sentence in error


def test_an_export_into_a_folder_is_refused(tmp_path: Path):
    finish(tmp_path / "run")
    (tmp_path / "x.csv").mkdir()
    with pytest.raises(DataError, match="cannot be written"):
        export(load_run(tmp_path / "run"), tmp_path / "x.csv")


def test_the_package_has_its_public_names():
    assert all(getattr(zofedht, name).__name__ == name for name in zofedht.__all__ if name != "__version__")
    with pytest.raises(AttributeError, match="no attribute 'laod_run'; it has "):
        zofedht.laod_run  # noqa: B018
