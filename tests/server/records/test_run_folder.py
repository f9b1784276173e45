"""The result folder: begun once, with a summary at the end, and never overwritten."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.helpers import quadratics, small
from zofedht.common.config.run_config import RunConfig
from zofedht.common.config.texts import load_toml
from zofedht.common.errors import DataError
from zofedht.server.conduct import Result
from zofedht.server.inprocess import run_in_process
from zofedht.server.records.checkpoint import read_checkpoint
from zofedht.server.records.history import read_history
from zofedht.server.records.run_folder import RunFolder, sha256_of_x

QUADRATICS = quadratics()


def start(folder: RunFolder, config: RunConfig) -> Result:
    folder.begin(config, "in-process")
    return run_in_process(config, QUADRATICS, folder=folder)


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder(tmp_path / "run")


def test_a_folder_with_a_run_is_refused(folder: RunFolder):
    start(folder, small())
    before = {path: path.read_bytes() for path in folder.path.rglob("*") if path.is_file()}
    with pytest.raises(DataError, match=r"already holds a run; continue it with `zofedht-server resume .*/run`"):
        folder.begin(small(seed=99), "in-process")
    assert {path: path.read_bytes() for path in folder.path.rglob("*") if path.is_file()} == before


def test_a_run_that_never_began_can_be_started_again(folder: RunFolder):
    folder.begin(small(), "in-process")  # and then its data could not be read
    assert start(folder, small(seed=3)).summary["config"]["seed"] == 3


def test_an_impossible_folder_is_named(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match=r"the result folder .*file/run cannot be written \(Not a directory\)"):
        RunFolder(tmp_path / "file" / "run").begin(small(), "in-process")


def test_config_toml_reads_back_to_the_config(folder: RunFolder):
    config = small(dirichlet_alpha=0.1, radius=1e-5, objective='odd "name"\\:é', mlp_bias=True)
    folder.begin(config, "in-process")
    assert RunConfig.from_mapping(load_toml(folder.config_file)) == config


def test_the_summary_has_costs_and_config(folder: RunFolder):
    result = start(folder, small())
    summary = json.loads(folder.summary_file.read_text())
    assert summary == result.summary
    assert summary["rounds"] == 7
    assert summary["evaluations"] == 7 * 72
    assert summary["x_sha256"] == sha256_of_x(result.x)
    assert summary["config"] == small().to_mapping()
    assert summary["initial_train_loss"] == result.initial["train_loss"]
    assert summary["final_train_loss"] == result.final["train_loss"]
    assert (summary["final_train_accuracy"], summary["test_accuracy"]) == (None, None)  # a quadratic classifies nothing
    last = read_history(folder.history_file)[-1]
    assert all(summary[key] == last[key] for key in ("evaluations", "bytes_up", "bytes_down"))


def test_history_rows_have_the_documented_fields(folder: RunFolder):
    start(folder, small())
    rows = [json.loads(line) for line in folder.history_file.read_text().splitlines()]
    promised = {"round", "evaluations", "train_loss", "step_size", "basis_version", "basis_rank"}
    promised |= {"bytes_up", "bytes_down", "seconds", "failures", "start_loss"}
    assert all(promised <= set(row) for row in rows)
    for total in ("round", "evaluations", "bytes_up", "bytes_down", "seconds"):
        column = [row[total] for row in rows]
        assert column == sorted(column), total


def test_the_newest_checkpoint_is_that_of_the_last_round(folder: RunFolder):
    result = start(folder, small())  # 7 rounds, a checkpoint every 2
    state, _ = read_checkpoint(max(folder.checkpoints.iterdir()))
    assert (state.round, state.x.tobytes()) == (7, result.state.x.tobytes())


def test_a_run_without_losses_has_no_picture(folder: RunFolder):
    start(folder, small(rounds=3))
    folder.history_file.write_text(
        folder.history_file.read_text().replace('"train_loss": ', '"train_loss": null, "x": ')
    )
    assert "has no finished round with a loss to draw" in folder.draw()
