"""Real Flower simulations on Ray, in one process of their own: Ray's threads and warnings stay there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers import black_box, small
from tests.waiting import run_to_end
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
import sys
from pathlib import Path
from zofedht.common.config.run_config import RunConfig
from zofedht.server.__main__ import main
from zofedht.server.flower.simulation import run_simulation
from zofedht.server.records.run_folder import RunFolder
import ray

ray.shutdown = lambda: None  # the second run meets the Ray of the first: its start takes most of a run
folder = RunFolder(Path("digits"))
config = RunConfig.from_mapping({mapping!r})
folder.begin(config, "simulation")
run_simulation(config, folder, nodes=2)
print("-----", flush=True)
print("-----", file=sys.stderr, flush=True)
sys.exit(main({failing!r}))
"""


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """Return the folder and the end of a process that simulates twice: digits, then clients that fail."""
    folder = tmp_path_factory.mktemp("simulated")
    with pytest.MonkeyPatch.context() as patch:
        module = black_box(folder, patch)
    failing = ["run", "--engine", "simulation", "--out", "failing", "--set", f"objective={module}:Breaking"]
    failing += ["rounds=2", "max-retries=0", "memory=2", "num-clients=2", "clients-per-round=2"]
    script = SCRIPT.format(mapping=CONFIG.to_mapping(), failing=failing)
    path = os.pathsep.join([str(ROOT), str(folder)])
    return folder, run_to_end([sys.executable, "-c", script], folder, environment={"PYTHONPATH": path})


def test_a_simulation_equals_in_process(
    simulated: tuple[Path, subprocess.CompletedProcess[str]],
) -> None:
    folder, done = simulated
    assert (folder / "digits" / "summary.json").exists(), done.stderr
    summary = json.loads((folder / "digits" / "summary.json").read_text())
    assert summary["x_sha256"] == sha256_of_x(run_in_process(CONFIG).x)
    assert (summary["rounds"], summary["engine"]) == (6, "simulation")
    said = done.stdout.split("-----")[0] + done.stderr.split("-----")[0]
    assert "eprecat" not in said
    assert "Warning" not in said
    state = RunFolder(folder / "digits").reopen({})[1]
    assert sha256_of_x(state.x) == summary["x_sha256"]


def test_failing_clients_end_in_one_sentence(
    simulated: tuple[Path, subprocess.CompletedProcess[str]],
) -> None:
    _, done = simulated
    assert done.returncode == 2, done.stderr
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("zofedht-server: error: round 1 had fewer than min-replies = 1")
    assert "step 1: the objective raised RuntimeError: the valve is shut" in last
    assert "Traceback" not in done.stderr


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


def test_workers_that_die_are_replaced(tmp_path: Path) -> None:
    """Each costs its slots and one sentence, not the run: Ray prints a page for each."""
    (tmp_path / "killed.py").write_text(_KILLED)
    keys = "objective=killed:Killed num-clients=2 clients-per-round=2 sampling=without-replacement rounds=2"
    keys += " local-steps=4 step-size=0.01 kernel=numpy max-retries=0"
    command = [sys.executable, "-m", "zofedht.server", "run", "--engine", "simulation", "--out", "out", "--set"]
    path = os.pathsep.join([str(ROOT), str(tmp_path)])
    done = run_to_end([*command, *keys.split()], tmp_path, environment={"PYTHONPATH": path})
    assert done.returncode in (0, 3), done.stderr  # the run is done; its few steps need not lower the loss
    said = done.stdout + done.stderr
    assert "Traceback" not in said
    assert "raylet" not in said
    assert len(said.splitlines()) < 25
    rounds = [json.loads(line) for line in (tmp_path / "out" / "history.jsonl").read_text().splitlines()]
    reasons = {failure["client"]: failure["reason"] for row in rounds for failure in row["failures"]}
    assert reasons["1"] == "its process died: its code ended it or it was killed"
    assert all(row["replies"] for row in rounds)
