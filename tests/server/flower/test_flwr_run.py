"""``flwr run .`` as a user of Flower types it: a simulation, and a SuperLink with SuperNodes.

Each test has a SuperLink on a port of its own and an own FLWR_HOME. ``flwr run .`` alone would start a SuperLink on a
fixed port, or meet one that an earlier run has left there with the environment of that run.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.servers.superlink_sites import superlink_sites
from tests.helpers import black_box
from tests.own_folders import own_folders
from tests.waiting import nothing_left
from zofedht.common.config.run_config import RunConfig
from zofedht.server.inprocess import run_in_process
from zofedht.server.records.run_folder import sha256_of_x

pytestmark = [pytest.mark.slow, pytest.mark.engine]


_DYING = """
import os

class Dying(Bounded):
    def value(self, x, batch):
        try:
            os.close(os.open("{mark}", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return super().value(x, batch)
        os._exit(3)
"""


@pytest.fixture(autouse=True)
def _nothing_left(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Flower starts processes for an app, which outlive the SuperLink."""
    with nothing_left() as mark:
        for name, value in mark.items():
            monkeypatch.setenv(name, value)
        yield


def test_flwr_run_simulates_a_black_box_quietly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both rules of auto are on, and x is that of the run in process.

    The bundle has a folder ``common``, and so has the user on PYTHONPATH: the user's is the one that is imported.
    One evaluation ends its worker, which is replaced.
    """
    pytest.importorskip("ray", reason="the extra `sim` is not installed")
    module = black_box(tmp_path, monkeypatch)
    own_folders(tmp_path)
    with (tmp_path / f"{module}.py").open("a") as file:
        file.write("\nimport server\nfrom common.days import DAYS\n" + _DYING.format(mark=str(tmp_path / "ended")))
    keys: dict[str, object] = {"objective": f"{module}:Bounded", "num-clients": 3, "batch-size": 3}
    keys |= {"rounds": 4, "memory": 2, "step-size": "auto", "subspace-weight": "auto"}
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    out = tmp_path / "out"
    with superlink_sites(tmp_path, simulation=True) as sites:
        log = sites.submit(keys | {"objective": f"{module}:Dying", "out": str(out)}, "--stream")
    assert (tmp_path / "ended").exists()
    for word in ("deprecat", "futurewarning", "traceback", "actor died"):
        assert word not in log.lower(), log
    assert f"results go to {out}" in log
    assert digest(out, log) == sha256_of_x(run_in_process(RunConfig.from_mapping(keys)).x)


def test_a_run_over_supernodes_equals_in_process(tmp_path: Path) -> None:
    """Flower starts a process for every message, so there are few: only the second round has a basis."""
    keys: dict[str, object] = {"rounds": 2, "memory": 1, "clients-per-round": 2, "num-clients": 4, "local-steps": 5}
    keys["preprocess"] = "standardize,bias,unit-norm"
    out = tmp_path / "out"
    with superlink_sites(tmp_path) as sites:
        log = sites.submit(keys | {"out": str(out)}, "--stream")
    assert "deprecat" not in log.lower(), log
    assert digest(out, log) == sha256_of_x(run_in_process(RunConfig.from_mapping(keys)).x)
    settled = json.loads((out / "summary.json").read_text())["config"]["standardize-by"]
    assert len(settled.split(",")) == 64  # mean:deviation of each column of digits


def digest(out: Path, log: str) -> str:
    assert (out / "summary.json").exists(), log
    return str(json.loads((out / "summary.json").read_text())["x_sha256"])
