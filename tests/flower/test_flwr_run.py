"""``flwr run .`` on a machine that never ran it: Flower's own simulation, started by Flower's own command."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from common.config import RunConfig
from server.inprocess import run
from server.run_folder import x_digest

pytestmark = pytest.mark.slow

_ROOT = Path(__file__).parents[2]
_BIN = Path(sys.executable).parent


@pytest.fixture
def flower_home(tmp_path: Path) -> Iterator[Path]:
    """A home that Flower has never seen; the SuperLink that ``flwr run`` leaves behind is stopped."""
    home = tmp_path / "home"
    yield home
    mark = f"FLWR_HOME={home}".encode()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            ours = mark in (process / "environ").read_bytes().split(b"\0")
        except OSError:  # it has ended, or is somebody else's
            continue
        if ours:
            os.kill(int(process.name), signal.SIGKILL)


def test_flwr_run_trains_without_a_warning_and_equals_in_process(flower_home: Path, tmp_path: Path) -> None:
    keys = {"rounds": 4, "memory": 2, "model": "svm-hinge", "num-clients": 7}
    keys |= {"step-size": "auto", "subspace-weight": "auto"}
    out = tmp_path / "out"
    text = " ".join(f"{key}={json.dumps(value)}" for key, value in keys.items()) + f' out="{out}"'
    environment = os.environ | {"FLWR_HOME": str(flower_home), "PATH": f"{_BIN}:{os.environ['PATH']}"}
    ended = subprocess.run(
        [str(_BIN / "flwr"), "run", ".", "--stream", "--run-config", text],
        cwd=_ROOT, env=environment, capture_output=True, text=True, timeout=400, check=False,
    )  # fmt: skip
    log = ended.stdout + ended.stderr
    assert (out / "summary.json").exists(), log
    assert "deprecat" not in log.lower(), log
    assert "FutureWarning" not in log, log
    summary = json.loads((out / "summary.json").read_text())
    assert summary["x_sha256"] == x_digest(run(RunConfig.from_mapping(keys)).state.x)
    assert f"results go to {out}" in log
