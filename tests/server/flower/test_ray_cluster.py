"""A simulation and a study on a Ray cluster of two machines, of which one may be lost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import small
from tests.ray_cluster import two_raylets
from tests.waiting import nothing_left, run_to_end, until
from zofedht.common.config.texts import dump_toml
from zofedht.server.inprocess import run_in_process
from zofedht.server.records.history import read_history
from zofedht.server.records.run_folder import sha256_of_x

pytest.importorskip("ray", reason="the extra `sim` is not installed")
pytestmark = [pytest.mark.slow, pytest.mark.engine]

CONFIG = small(rounds=4, num_clients=4, step_size=1.0)


@pytest.fixture(scope="module")
def cluster() -> Iterator[tuple[str, Callable[[], None]]]:
    """Return the address of the cluster, and what kills one of its machines: the last test does."""
    with two_raylets() as found:
        yield found


def command(folder: Path, address: str, *keys: str) -> list[str]:
    (folder / "run.toml").write_text(dump_toml(CONFIG))
    words = ["run", "--engine", "simulation", "--config", "run.toml", "--out", "run", "--set", f"ray-address={address}"]
    return [sys.executable, "-m", "zofedht.server", *words, *keys]


def test_a_simulation_joins_a_cluster(tmp_path: Path, cluster: tuple[str, Callable[[], None]]):
    ended = run_to_end(command(tmp_path, cluster[0]), tmp_path)
    assert ended.returncode == 0, ended.stderr
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["x_sha256"] == sha256_of_x(run_in_process(CONFIG).x)


def test_a_study_on_a_cluster_has_the_results_of_worker_processes(
    tmp_path: Path, cluster: tuple[str, Callable[[], None]]
):
    study = ["study", "--preset", "paper", "--dataset", "digits", "--model", "logistic", "--partition", "iid"]
    study += ["--etas", "1", "--alphas", ".5", "--repeats", "1", "--rounds", "3"]
    for name, jobs, environment in (("ray", "ray", {"RAY_ADDRESS": cluster[0]}), ("here", "2", {})):
        words = [sys.executable, "-m", "zofedht.experiments", *study, "--jobs", jobs, "--out", name]
        ended = run_to_end(words, tmp_path, environment=environment)
        assert ended.returncode == 0, ended.stderr
    cells = sorted(path.parent.name for path in (tmp_path / "here").glob("*/result.json"))
    assert cells
    for cell in cells:
        there, here = (json.loads((tmp_path / name / cell / "result.json").read_text()) for name in ("ray", "here"))
        assert there["final_train_loss"] == here["final_train_loss"]


def test_a_lost_machine_does_not_end_the_run(tmp_path: Path, cluster: tuple[str, Callable[[], None]]):
    history = tmp_path / "run" / "history.jsonl"
    address, lose = cluster

    def rows() -> list[dict[str, Any]]:
        return list(read_history(history)) if history.exists() else []

    with (
        nothing_left() as mark,
        (tmp_path / "said").open("w+") as said,
        subprocess.Popen(
            command(tmp_path, address, "rounds=100000"), cwd=tmp_path, stderr=said, env=os.environ | mark
        ) as running,
    ):

        def ended() -> bool:
            assert running.poll() is None, (tmp_path / "said").read_text()
            return False

        until(lambda: ended() or len(rows()) >= 2, "two rounds")
        lose()
        lost = len(rows())  # its worker may be at work then, which costs a slot, or wait for one
        until(lambda: ended() or len(rows()) >= lost + 30, "thirty rounds more")
        running.kill()
    assert [row["round"] for row in rows()] == list(range(len(rows())))
    assert not any(row["failures"] for row in rows()[-5:])
