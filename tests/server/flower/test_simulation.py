"""Real Flower simulations on Ray, in one process of their own: Ray's threads and warnings stay there."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.helpers import black_box, small
from tests.waiting import PATIENCE, run_to_end, until
from zofedht.server.inprocess import run_in_process
from zofedht.server.records.run_folder import RunFolder, sha256_of_x

pytest.importorskip("ray", reason="the extra `sim` is not installed")
pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[3]
CONFIG = small(  # memory 2, digits
    rounds=6,
    num_clients=5,
    step_size=1.0,
    uplink="slopes",
    directions="shared",
    preprocess="standardize,bias,unit-norm",
)

SCRIPT = """
import json
import sys
from pathlib import Path
from zofedht.common.config.run_config import RunConfig
from zofedht.server.__main__ import main
from zofedht.server.flower.simulation import run_simulation
from zofedht.server.records.run_folder import RunFolder
import ray

start, stop = ray.init, ray.shutdown


def patient_start(*args, **keys):
    while True:
        try:
            return start(*args, **keys)
        except Exception as error:  # Ray gives its own processes 30 s, whatever the machine has to do
            if "timed out during startup" not in str(error):
                raise
            stop()


ray.init = patient_start
ray.shutdown = lambda: None  # all runs meet the Ray of the first: its start takes most of a run
folder = RunFolder(Path("digits"))
config = RunConfig.from_mapping({mapping!r})
folder.begin(config, "simulation")
run_simulation(config, folder, nodes=2)
codes = []
for words in {commands!r}:
    print("-----", flush=True)
    print("-----", file=sys.stderr, flush=True)
    codes.append(main(["run", "--engine", "simulation", *words.split()]))
Path("codes").write_text(json.dumps(codes))
"""

_KILLED = """
import os
import numpy as np
from zofedht import Objective

class Killed(Objective):
    dim = 2
    def __init__(self, shard):
        self.index, self.calls = shard.index, 0
    def value(self, x, batch):
        self.calls += 1
        if self.index == 1 and self.calls > 4:
            os._exit(3)  # as a crash in compiled code ends a process
        return float(np.sum((x - self.index) ** 2))
"""


@dataclass(frozen=True)
class Run:
    """What one of the runs left: what it printed, and the exit code of a command."""

    folder: Path
    printed: str
    errors: str
    code: int


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    """Return the runs of one process on one Ray: digits, clients that fail, and workers that die."""
    folder = tmp_path_factory.mktemp("simulated")
    with pytest.MonkeyPatch.context() as patch:
        module = black_box(folder, patch)
    (folder / "killed.py").write_text(_KILLED)
    few = "rounds=2 max-retries=0 num-clients=2 clients-per-round=2"
    failing = f"--out failing --set objective={module}:Breaking memory=2 {few}"
    killed = f"--out killed --set objective=killed:Killed {few} sampling=without-replacement local-steps=4"
    commands = [failing, f"{killed} step-size=0.01 kernel=numpy"]
    script = SCRIPT.format(mapping=CONFIG.to_mapping(), commands=commands)
    path = os.pathsep.join([str(ROOT), str(folder)])
    done = run_to_end([sys.executable, "-c", script], folder, environment={"PYTHONPATH": path})
    assert (folder / "codes").exists(), done.stdout + done.stderr
    codes = [0, *json.loads((folder / "codes").read_text())]
    parts = zip(
        ("digits", "failing", "killed"),
        *(text.split("-----\n") for text in (done.stdout, done.stderr)),
        codes,
        strict=True,
    )
    return {name: Run(folder / name, *rest) for name, *rest in parts}


def test_a_simulation_equals_in_process(simulated: dict[str, Run]) -> None:
    done = simulated["digits"]
    summary = json.loads((done.folder / "summary.json").read_text())
    assert summary["x_sha256"] == sha256_of_x(run_in_process(CONFIG).x)
    assert (summary["rounds"], summary["engine"]) == (6, "simulation")
    assert "eprecat" not in done.printed + done.errors
    assert "Warning" not in done.printed + done.errors
    state = RunFolder(done.folder).reopen({})[1]
    assert sha256_of_x(state.x) == summary["x_sha256"]


def test_failing_clients_end_in_one_sentence(simulated: dict[str, Run]) -> None:
    done = simulated["failing"]
    assert done.code == 2, done.errors
    last = done.errors.strip().splitlines()[-1]
    assert last.startswith("zofedht-server: error: round 1 had fewer than min-replies = 1")
    assert "step 1: the objective raised RuntimeError: the valve is shut" in last
    assert "Traceback" not in done.errors


def test_workers_that_die_are_replaced(simulated: dict[str, Run]) -> None:
    """Each costs its slots and one sentence, not the run: Ray prints a page for each."""
    done = simulated["killed"]
    assert done.code in (0, 3), done.errors  # the run is done; its few steps need not lower the loss
    said = done.printed + done.errors
    assert "Traceback" not in said
    assert "raylet" not in said
    assert len(said.splitlines()) < 25
    rounds = [json.loads(line) for line in (done.folder / "history.jsonl").read_text().splitlines()]
    reasons = {failure["client"]: failure["reason"] for row in rounds for failure in row["failures"]}
    assert reasons["1"] == "its process died: its code ended it or it was killed"
    assert all(row["replies"] for row in rounds)


@pytest.mark.engine
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_simulation_ends_at_a_signal(tmp_path: Path, name: str) -> None:
    """Ray takes SIGTERM for itself, and Flower's thread of the server waits for nodes that are gone."""
    words = ["run", "--engine", "simulation", "--out", "out", "--set", "rounds=100000", "num-clients=2"]
    words.append("checkpoint-every=100000")
    history, errors = tmp_path / "out" / "history.jsonl", tmp_path / "errors"
    with errors.open("wb") as file:
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-m", "zofedht.server", *words, "clients-per-round=2"]
        process = subprocess.Popen(command, cwd=tmp_path, env=environment, stderr=file)

    def begun() -> bool:
        assert process.poll() is None, errors.read_text()
        return history.exists() and history.stat().st_size > 0

    try:
        until(begun, "the first round")
        process.send_signal(getattr(signal, name))
        assert process.wait(PATIENCE) == 130, errors.read_text()
    finally:
        process.kill()
        process.wait()
    told = errors.read_text()
    assert told.strip().endswith("interrupted; what was finished is kept"), told
    assert not re.search("SIGTERM received|Traceback|PC: @", told)
    rounds = [json.loads(line)["round"] for line in history.read_text().splitlines()]
    state = RunFolder(tmp_path / "out").reopen({})[1]
    assert state.round == len(rounds) == rounds[-1] + 1
