"""A run whose own process is ended says where it is kept, and goes on from there."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tests.helpers import small
from tests.waiting import run_to_end
from zofedht.common.config.run_config import RunConfig
from zofedht.common.errors import DataError
from zofedht.server.inprocess import run_in_process
from zofedht.server.records.run_folder import RunFolder
from zofedht.server.report.write import write_report

_PUMP = """
import os, signal
from zofedht import Objective

class Pump(Objective):
    dim = 2

    def value(self, x, batch):
        if os.path.exists("ends"):
            {end}
        return float(x @ x)

    def evaluate(self, x):
        open("ends", "w").close()  # after the checkpoint of the start
        return {{"loss": float(x @ x)}}
"""


def test_a_process_that_is_ended_names_the_way_on(tmp_path: Path):
    (tmp_path / "pump.py").write_text(_PUMP.format(end="os.kill(os.getpid(), signal.SIGKILL)"), encoding="utf-8")
    command = [sys.executable, "-m", "zofedht.server", "run", "--out", "runs/pump", "--set", "objective=pump:Pump"]
    command += ["algorithm=zofedht", "num-clients=1", "rounds=3", "checkpoint-every=1", "evaluate-every=1"]
    ended = run_to_end(command, tmp_path)
    assert ended.returncode not in (0, 1, 2)
    (said,) = [line for line in ended.stderr.splitlines() if "was ended" in line]
    assert "runs/pump has what was finished: go on with `zofedht-server resume runs/pump`" in said

    (tmp_path / "pump.py").write_text(_PUMP.format(end="pass"), encoding="utf-8")
    resumed = run_to_end([*command[:3], "resume", "runs/pump", "--data-changed"], tmp_path)
    assert "continuing runs/pump" in resumed.stderr
    assert "was ended" not in resumed.stderr


def test_a_process_that_is_ended_before_its_start_says_so(tmp_path: Path):
    (tmp_path / "pump.py").write_text("import os\nos._exit(5)\n", encoding="utf-8")
    command = [sys.executable, "-m", "zofedht.server", "run", "--out", "runs/pump", "--set", "objective=pump:Pump"]
    ended = run_to_end([*command, "num-clients=1"], tmp_path)
    assert ended.returncode == 5
    (said,) = [line for line in ended.stderr.splitlines() if "was ended" in line]
    assert "nothing was finished before: mend the objective" in said


_WANDERING = """
import os
from zofedht import Objective


class Pump(Objective):
    dim = 2

    def value(self, x, batch):
        os.chdir("/")
        return float(x @ x)
"""


def test_code_that_changes_the_working_folder_moves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "wandering.py").write_text(_WANDERING, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    config = RunConfig(objective="wandering:Pump", num_clients=1, rounds=2, algorithm="zofedavg-gd", step_size=0.1)
    with RunFolder(Path("run")) as folder:
        folder.begin(config, "in-process")
        run_in_process(config, folder=folder)
    assert (tmp_path / "run" / "summary.json").exists()
    assert not (tmp_path / "run" / "run.lock").exists()
    assert not Path("/run/summary.json").exists()


@pytest.mark.parametrize(
    ("engine", "command"),
    [
        ("in-process", "`zofedht-server resume runs/a`"),
        ("simulation", "`zofedht-server resume runs/a`"),
        ("grpc", "`zofedht-server serve --resume --out runs/a` and the options of before"),
        ("python", "run(objective, x0=load_run(DIR).x) in Python"),
    ],
)
def test_an_unfinished_run_names_its_own_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: str, command: str
):
    monkeypatch.chdir(tmp_path)
    folder = RunFolder(Path("runs/a"))
    folder.begin(small(), engine)
    folder.give_back()
    folder.history_file.touch()
    with pytest.raises(DataError, match=f"finish it with {re.escape(command)}$"):
        write_report(folder)
    with pytest.raises(DataError, match=f"continue it with {re.escape(command)}, or choose another --out"):
        folder.claim()
