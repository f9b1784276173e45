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

from tests.helpers import black_box
from tests.own_folders import own_folders
from zofedht.common.config.run_config import RunConfig
from zofedht.server.inprocess import run
from zofedht.server.records.run_folder import x_digest

pytestmark = pytest.mark.slow

_ROOT = Path(__file__).parents[3]
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


def flwr_run(home: Path, out: Path, keys: dict[str, object], **environment: str) -> tuple[str, str]:
    """Run the app as a user of Flower does; return the digest of x and the log."""
    text = " ".join(f"{key}={json.dumps(value)}" for key, value in keys.items()) + f' out="{out}"'
    variables = os.environ | {"FLWR_HOME": str(home), "PATH": f"{_BIN}:{os.environ['PATH']}"} | environment
    ended = subprocess.run(
        [str(_BIN / "flwr"), "run", ".", "--stream", "--run-config", text],
        cwd=_ROOT, env=variables, capture_output=True, text=True, timeout=400, check=False,
    )  # fmt: skip
    log = ended.stdout + ended.stderr
    assert (out / "summary.json").exists(), log
    return json.loads((out / "summary.json").read_text())["x_sha256"], log


def test_flwr_run_trains_without_a_warning_and_equals_in_process(flower_home: Path, tmp_path: Path) -> None:
    keys: dict[str, object] = {"rounds": 4, "memory": 2, "model": "svm-hinge", "num-clients": 7}
    keys |= {"step-size": "auto", "subspace-weight": "auto"}
    out = tmp_path / "out"
    digest, log = flwr_run(flower_home, out, keys)
    assert "deprecat" not in log.lower(), log
    assert "FutureWarning" not in log, log
    assert digest == x_digest(run(RunConfig.from_mapping(keys)).state.x)
    assert f"results go to {out}" in log


def test_flwr_run_finds_a_black_box_and_its_common_folder(
    flower_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bundle has a folder ``common`` as well; the user's, on PYTHONPATH, is the one that is imported."""
    module = black_box(tmp_path, monkeypatch)
    own_folders(tmp_path)
    with (tmp_path / f"{module}.py").open("a") as file:
        file.write("\nimport server\nfrom common.days import DAYS\n")
    keys: dict[str, object] = {
        "objective": f"{module}:Bounded", "rounds": 4, "memory": 2, "num-clients": 3, "batch-size": 3, "step-size": 0.05
    }  # fmt: skip
    digest, _ = flwr_run(flower_home, tmp_path / "out", keys, PYTHONPATH=str(tmp_path))
    assert digest == x_digest(run(RunConfig.from_mapping(keys)).x)
