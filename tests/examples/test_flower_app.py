"""The template of a Flower app: ``flwr run .`` ends in the model of ``zofedht.run`` on the same losses."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks.servers.superlink_sites import superlink_sites
from tests.waiting import nothing_left
from zofedht import run
from zofedht.common.objective.function import FunctionObjective

APP = Path(__file__).resolve().parents[2] / "examples" / "flower_app"
NODES = 2  # that Flower simulates unless it is told otherwise


def in_process(rounds: int, settings: dict[str, Any], task: Any) -> NDArray[Any]:
    like = task.initial_arrays()
    cut = like[0].size

    def client(index: int) -> FunctionObjective:
        loss, rows = task.loss_of(index, NODES)
        return FunctionObjective(
            lambda x, batch: loss([x[:cut].reshape(like[0].shape), x[cut:]], batch), np.zeros(cut + like[1].size), rows
        )

    return run([client(index) for index in range(NODES)], rounds=rounds, **settings).x


def test_the_app_is_a_page_of_code():
    lines = [line for file in APP.rglob("*.py") for line in file.read_text().splitlines() if line.strip()]
    assert len(lines) <= 60


@pytest.mark.slow
@pytest.mark.engine
def test_flwr_run_ends_in_the_x_of_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("ray", reason="the extra `sim` is not installed")
    monkeypatch.syspath_prepend(str(APP))
    from digits_app import server_app, task

    out = tmp_path / "model.npz"
    with nothing_left() as mark:
        for name, value in mark.items():
            monkeypatch.setenv(name, value)
        with superlink_sites(tmp_path, simulation=True) as sites:
            log = sites.submit({"rounds": 2, "out": str(out)}, "--stream", app=APP)
    assert "round 2: loss" in log, log
    with np.load(out) as saved:
        x = np.concatenate([saved[name].ravel() for name in saved.files])
    assert np.array_equal(x, in_process(2, server_app.SETTINGS, task))
    for name in [name for name in sys.modules if name.startswith("digits_app")]:
        del sys.modules[name]
