"""Real Flower simulations on Ray, each in a process of its own: Ray's threads and warnings stay there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers import black_box, small
from zofedht.server.inprocess import run
from zofedht.server.records.run_folder import RunFolder, x_digest

pytest.importorskip("ray")
pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[3]
CONFIG = small(rounds=6, num_clients=5, step_size=1.0)  # memory 2, digits


def simulate(folder: Path, script: str, work: Path) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(ROOT), str(work)])
    return subprocess.run(
        [sys.executable, "-c", script, str(folder)],
        cwd=work,
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


SCRIPT = """
import sys
from pathlib import Path
from zofedht.common.config.run_config import RunConfig
from zofedht.server.records.run_folder import RunFolder
from zofedht.server.flower.simulation import run_simulation
folder = RunFolder(Path(sys.argv[1]))
config = RunConfig.from_mapping({mapping!r})
folder.begin(config, "simulation")
run_simulation(config, folder, nodes=2)
"""


@pytest.mark.parametrize("changes", [{}, {"uplink": "slopes", "directions": "shared"}])
def test_a_simulation_ends_in_the_x_of_the_run_in_process(tmp_path: Path, changes: dict[str, str]):
    config = CONFIG.replace(**changes)
    done = simulate(tmp_path / "run", SCRIPT.format(mapping=config.to_mapping()), tmp_path)
    assert done.returncode == 0, done.stderr
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["x_sha256"] == x_digest(run(config).state.x)
    assert (summary["rounds"], summary["engine"]) == (6, "simulation")
    assert "eprecat" not in done.stderr + done.stdout
    assert "Warning" not in done.stderr + done.stdout
    state = RunFolder(tmp_path / "run").reopen({})[1]
    assert x_digest(state.x) == summary["x_sha256"]


def test_a_simulation_whose_clients_fail_ends_in_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    module = black_box(tmp_path, monkeypatch)
    words = ["run", "--engine", "simulation", "--out", str(tmp_path / "run"), "--set", f"objective={module}:Breaking"]
    words += ["rounds=2", "max-retries=0", "memory=2", "num-clients=2", "clients-per-round=2"]
    script = f"import sys; from zofedht.server.__main__ import main; sys.exit(main({words}))"
    done = simulate(tmp_path / "run", script, tmp_path)
    assert done.returncode == 2
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("zofedht-server: error: round 0 had fewer than min-replies = 1")
    assert "step 0: the objective raised RuntimeError: the valve is shut" in last
    assert "Traceback" not in done.stderr
