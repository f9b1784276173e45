"""A tiny study, end to end: run, kill, go on."""

from __future__ import annotations

import json
import os
import platform
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import PATIENCE, until
from zofedht.common.data.dataset import Dataset
from zofedht.common.data.loading import DataSpec, load_described
from zofedht.experiments.__main__ import main
from zofedht.experiments.study.cell_run import read_result
from zofedht.experiments.study.results import read_study

ROOT = Path(__file__).resolve().parents[3]
TINY = ["--preset", "authors", "--dataset", "digits", "--model", "logistic", "--partition", "iid", "--repeats", "1"]
TWO_CELLS = [*TINY, "--algorithms", "zofedavg-sgd", "--etas", "1", "10"]
FIRST, SECOND = (f"digits-logistic-iid-zofedavg-sgd-eta{eta}-alphanone-repeat0" for eta in (1, 10))


def study(out: Path, *more: str) -> int:
    return main(["study", *TWO_CELLS, "--rounds", "3", *more, "--out", str(out)])


def outcome(folder: Path) -> dict[str, object]:
    found = read_result(folder)
    assert found is not None
    return {key: value for key, value in found.items() if not key.endswith("seconds")}


def start(out: Path, rounds: int) -> subprocess.Popen[bytes]:
    command = [
        sys.executable,
        "-m",
        "zofedht.experiments",
        "study",
        *TWO_CELLS,
        "--rounds",
        str(rounds),
        "--out",
        str(out),
    ]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def wait_for(path: Path, process: subprocess.Popen[bytes]) -> None:
    until(lambda: path.exists() or process.poll() is not None, str(path))
    assert process.poll() is None, "the study ended before it could be killed"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a study of two cells that nothing interrupted."""
    out = tmp_path_factory.mktemp("whole")
    assert main(["study", *TWO_CELLS, "--rounds", "40", "--jobs", "2", "--out", str(out)]) == 0
    return out


@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_study_equals_an_uninterrupted_one(tmp_path: Path, whole: Path, sign: signal.Signals):
    out = tmp_path / "killed"
    with start(out, 40) as process:  # so many that compiled loops have not finished the second cell by then
        wait_for(out / FIRST / "result.json", process)
        wait_for(out / SECOND, process)  # the second cell has begun
        process.send_signal(sign)
        error = process.communicate(timeout=PATIENCE)[1].decode()
    if sign == signal.SIGTERM:
        assert process.returncode == 130
        assert "what was finished is kept" in error
    assert not (out / SECOND / "result.json").exists()
    before = (out / FIRST / "result.json").stat().st_mtime_ns
    assert main(["study", *TWO_CELLS, "--rounds", "40", "--jobs", "2", "--out", str(out)]) == 0
    assert (out / FIRST / "result.json").stat().st_mtime_ns == before  # skipped
    assert sorted(path.name for path in (out / SECOND).iterdir()) == ["history.jsonl", "result.json"]  # no leftovers
    for name in (FIRST, SECOND):
        assert outcome(out / name) == outcome(whole / name)
        texts = [(folder / name / "history.jsonl").read_text() for folder in (out, whole)]
        losses = [[json.loads(line)["train_loss"] for line in text.splitlines()] for text in texts]
        assert losses[0] == losses[1]
        assert len(losses[0]) == 40


def test_only_the_tuned_cell_is_repeated(tmp_path: Path):
    assert study(tmp_path / "s", "--repeats", "3") == 0
    read = read_study(tmp_path / "s")
    (tuned,) = read.chosen(read.panels()[0])
    assert len(tuned.losses) == 3
    assert len(read.outcomes) == 2 + 2
    assert len(set(tuned.losses)) == 3  # each repeat has its own seed


def test_all_cells_are_repeated_on_demand(tmp_path: Path):
    assert study(tmp_path / "s", "--repeats", "2", "--repeat-all") == 0
    assert len(read_study(tmp_path / "s").outcomes) == 4


def test_a_study_is_tuned_run_and_reported(tmp_path: Path):
    out = tmp_path / "s"
    assert (
        main(["study", *TINY, "--etas", "1", "--alphas", ".3", "--rounds", "6", "--jobs", "2", "--out", str(out)]) == 0
    )
    read = read_study(out)
    evaluations = {found.cell.algorithm: found.result["evaluations"] for found in read.outcomes}
    assert set(evaluations) == {"zofedht", "zofedavg-sgd", "zofedavg-gd"}
    assert max(evaluations.values()) <= 1.05 * min(evaluations.values())  # the same budget
    assert all(found.loss < 0.66 for found in read.outcomes)
    assert main(["report", str(out)]) == 0
    assert (out / "report.md").exists()


def test_a_run_that_diverges_is_a_result(tmp_path: Path):
    assert main(["study", *TINY, "--algorithms", "zofedavg-sgd", "--model", "svm", "--etas", "1000", "--rounds", "6",
                 "--out", str(tmp_path / "s")]) == 0  # fmt: skip
    (found,) = read_study(tmp_path / "s").outcomes
    assert found.loss == float("inf")
    assert "step-size" in found.result["failed"]
    assert found.result["evaluations"] > 0 < found.result["rounds"]


@pytest.mark.parametrize("other", [["--rounds", "4"], ["--rounds", "3", "--seed", "7"]])
def test_other_settings_in_the_same_folder_are_refused(
    tmp_path: Path, other: list[str], capsys: pytest.CaptureFixture[str]
):
    assert study(tmp_path / "s") == 0
    capsys.readouterr()
    assert main(["study", *TWO_CELLS, *other, "--out", str(tmp_path / "s")]) == 2
    error = capsys.readouterr().err
    assert error.startswith("experiments: error: ")
    assert "choose another --out" in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("change", [{"memory": 7}, {"no-such-key": 1}])
def test_a_cell_of_another_config_is_refused(tmp_path: Path, change: dict[str, int]):
    assert study(tmp_path / "s") == 0
    path = tmp_path / "s" / FIRST / "result.json"
    result = json.loads(path.read_text())
    path.write_text(json.dumps(result | {"config": result["config"] | change}))
    assert study(tmp_path / "s") == 2


def test_a_dead_worker_ends_the_study(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr("zofedht.experiments.study.pool.cell_process", lambda *_: os._exit(9))
    assert study(tmp_path / "s") == 2
    assert f"the worker of cell {FIRST} ended with code 9" in capsys.readouterr().err


@pytest.mark.skipif(platform.system() != "Linux", reason="elsewhere each worker loads the data set for itself")
def test_workers_share_the_data_set_that_the_parent_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    log = tmp_path / "loads"

    def loading(spec: DataSpec) -> tuple[Dataset, Dataset]:
        with log.open("a") as file:
            file.write(f"{os.getpid()}\n")
        return load_described(spec)

    monkeypatch.setattr("zofedht.common.shards.load_described", loading)
    assert study(tmp_path / "s", "--jobs", "2", "--seed", "31") == 0  # a seed that no other test has left in the cache
    assert log.read_text() == f"{os.getpid()}\n"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--etas", "-1"], "must be a number greater than 0, got '-1'"),
        (["--alphas", "1.5"], "must be a number in [0, 1], got '1.5'"),
        (["--jobs", "0"], "must be a whole number of at least 1, got '0'"),
        (["--rounds", "1", "--budget", "5"], "not allowed with"),
        (["--dataset", "mnits"], "invalid choice"),
    ],
)
def test_a_wrong_option_is_named(tmp_path: Path, arguments: list[str], text: str, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as stopped:
        main(["study", "--preset", "paper", *arguments, "--out", str(tmp_path)])
    assert stopped.value.code == 2
    assert text in capsys.readouterr().err


def test_data_that_is_not_there_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "data" / "mnist").mkdir(parents=True)
    arguments = ["study", "--preset", "paper", "--dataset", "mnist", "--rounds", "1"]
    assert main([*arguments, "--data-dir", str(tmp_path / "data"), "--out", str(tmp_path / "s")]) == 2
    error = capsys.readouterr().err
    assert error.splitlines()[-1].startswith("experiments: error: ")
    assert "Traceback" not in error
