"""The deployment for real: containers that train, are killed, paused and restarted, and train to the end."""

from __future__ import annotations

import csv
import json
import os
import re
import secrets
import shutil
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import free_port, run_to_end, until
from zofedht.server.records.finished_run import load_run
from zofedht.server.records.history import read_history

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
ENDLESS = 10**6  # rounds; the run is cut short when all faults are over
UID = os.getuid() or 1000


class Deployment:
    """docker compose in this repository, under a project and a result folder of the test's own."""

    def __init__(self, run: str) -> None:
        self.folder = ROOT / "runs" / run
        self.project = f"zofedht-{run}"  # beside a deployment that somebody uses
        self._environment = {
            "RUN": run,
            "ZOFEDHT_UID": str(UID),
            "ZOFEDHT_GID": str(os.getgid() or 1000),
            "COMPOSE_PROJECT_NAME": self.project,
            "MAX_WAIT": "3600",  # a busy machine is no absent server
        }

    def compose(self, *arguments: str, seconds: float = 1200.0, **environment: str) -> str:
        """Run a command that must exit with 0; return what it printed."""
        command = ["docker", "compose", "--ansi", "never", *arguments]
        done = run_to_end(command, ROOT, environment=self._environment | environment, seconds=seconds)
        said = done.stderr + done.stdout
        assert done.returncode == 0, f"docker compose {' '.join(arguments)}: {said[-4000:]}"
        return said

    def containers(self) -> dict[str, dict[str, Any]]:
        """Return what the engine tells of every container: server, client-3, ..."""
        ids = self.compose("ps", "--all", "--quiet").split()
        told = json.loads(subprocess.run(["docker", "inspect", *ids], capture_output=True, check=True).stdout)
        names = [container["Name"].removeprefix(f"/{self.project}-") for container in told]
        return {
            (name if name.startswith("client-") else name.removesuffix("-1")): container
            for name, container in zip(names, told, strict=True)
        }

    def rounds(self) -> int:
        """Return how many rounds the history holds by now."""
        path = self.folder / "history.jsonl"
        return path.read_bytes().count(b"\n") if path.exists() else 0

    def put_aside(self) -> set[Path]:
        """Return the folders of finished runs that were put aside."""
        return set(self.folder.parent.glob(f"{self.folder.name}-*"))

    def wait(self, what: str, true: Callable[[], bool]) -> None:
        """Wait until something is true; fail with the logs."""
        try:
            until(true, what)
        except AssertionError as error:
            pytest.fail(f"{error}\n{self.compose('logs', '--tail', '20')}")

    def wait_for_rounds(self, more: int) -> None:
        """Wait until the run has gone on by so many rounds."""
        goal = self.rounds() + more
        self.wait(f"round {goal}", lambda: self.rounds() >= goal)


def engine(images: list[str]) -> str:
    """Return why containers cannot be tried here, or nothing."""
    for command in (["docker", "compose", "version"], ["docker", "info"]):
        try:
            subprocess.run(command, capture_output=True, check=True)
        except (OSError, subprocess.SubprocessError) as error:
            return f"no Docker engine with compose answers: {error}"
    for image in images:
        here = subprocess.run(["docker", "image", "inspect", image], capture_output=True, check=False)
        if here.returncode != 0:
            fetched = subprocess.run(["docker", "pull", image], capture_output=True, text=True, check=False)
            if fetched.returncode != 0:
                reason = fetched.stderr.strip().splitlines()[-1:]
                return f"the Docker engine has no image {image} and cannot fetch it: {' '.join(reason)}"
    return ""


def base_images() -> list[str]:
    text = (ROOT / "docker" / "Dockerfile").read_text(encoding="utf-8")
    return re.findall(r"^ARG BASE=(\S+)", text, re.MULTILINE)


@pytest.fixture(scope="module")
def deployment() -> Iterator[Deployment]:
    reason = engine(base_images())
    if reason:
        pytest.skip(reason)
    deployment = Deployment(f"test-{secrets.token_hex(4)}")
    try:
        deployment.compose("build", seconds=3600.0)
        yield deployment
    finally:
        deployment.compose("down", "--volumes", "--remove-orphans")
        for folder in ROOT.glob(f"runs/{deployment.folder.name}*"):
            shutil.rmtree(folder)


def check_result(folder: Path) -> list[dict[str, Any]]:
    """Check that a result folder is complete; return its history."""
    rows = read_history(folder / "history.jsonl")
    summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    assert rows
    assert [row["round"] for row in rows] == list(range(len(rows)))
    assert (summary["rounds"], summary["engine"]) == (len(rows), "grpc")
    assert summary["final_train_loss"] < 0.5 * summary["initial_train_loss"]
    assert (folder / "loss.png").read_bytes().startswith(b"\x89PNG")
    for path in folder.iterdir():
        assert path.stat().st_uid == UID
        assert path.stat().st_mode & 0o044 == 0o044, f"{path} cannot be read by all"
    return rows


def test_up_trains_to_the_end(deployment: Deployment):
    deployment.compose("up")  # in the foreground: it ends by itself

    containers = deployment.containers()
    assert sorted(containers) == ["certificates", *(f"client-{i}" for i in range(1, 6)), "folders", "server"]
    assert {name: told["State"]["ExitCode"] for name, told in containers.items()} == dict.fromkeys(containers, 0)
    assert len(check_result(deployment.folder)) == 200
    shards = json.loads((deployment.folder / "run.json").read_text(encoding="utf-8"))["shards"]
    assert shards == {f"client-{i}": i - 1 for i in range(1, 6)}
    for name, told in containers.items():
        host = told["HostConfig"]
        assert host["ReadonlyRootfs"]
        assert host["CapDrop"] == ["ALL"]
        assert 0 < host["Memory"] <= 2**30
        assert host["NanoCpus"] > 0
        assert name == "folders" or told["Config"]["User"].startswith(f"{UID}:")
    # The same numbers as without a network, bit for bit.
    command = ["zofedht-server", "run", "--config", "config.toml", "--set", "num-clients=5", "--out", "tmp/alone"]
    alone = deployment.compose("run", "--rm", "--no-deps", "-T", "server", *command)
    summary = json.loads((deployment.folder / "summary.json").read_text(encoding="utf-8"))
    assert f"sha256 {summary['x_sha256']}" in alone


LATHE = """
import os
import sys

import numpy as np

from zofedht.common.objective.base import Objective

print(f"lathe is imported in {os.getcwd()}", file=sys.stderr)


class Lathe(Objective):
    dim = 3
    bounds = [(0.0, 1.0), (20.0, 80.0), (0.0, None)]
    scale = [1.0, 60.0, 300.0]

    def __init__(self, shard):
        assert open("wear.txt").read() == "0.01"  # beside the module, as on the machine where it was written
        self.best = np.array([0.4, 50.0, 120.0]) * (1.0 + 0.01 * shard.index)

    def initial(self, rng):
        return [1.0, 75.0, 0.0]

    def value(self, x, batch):
        return float(np.mean(np.abs((x - self.best) / self.scale)))
"""


def test_a_black_box_stays_with_its_clients(deployment: Deployment, tmp_path: Path):
    (tmp_path / "lathe.py").write_text(LATHE, encoding="utf-8")
    (tmp_path / "wear.txt").write_text("0.01", encoding="utf-8")
    tmp_path.chmod(0o755)
    own = {
        "COMPOSE_FILE": "docker-compose.yml:docker/objective.yml", "OBJECTIVE": "lathe:Lathe", "MODULES": str(tmp_path),
        "CLIENTS": "2", "SETTLE": "1", "LINGER": "1", "ROUNDS": "20",
    }  # fmt: skip
    deployment.compose("down", "--remove-orphans", **own)  # else containers 1 and 5 of the test above would stay
    deployment.compose("up", **own)

    rows = check_result(deployment.folder)
    assert len(rows) == 20
    assert not any(row["failures"] for row in rows)
    logs = {name: deployment.compose("logs", "--no-log-prefix", name, **own) for name in ("server", "client")}
    assert logs["client"].count("lathe is imported in /objective") == 2
    assert "lathe is imported" not in logs["server"]
    # The same numbers as without a network: container 1 gets shard 0 of 2.
    once = ("run", "--rm", "--no-deps", "-T")
    config = (deployment.folder / "config.toml").read_text(encoding="utf-8")
    (tmp_path / "run.toml").write_text(config, encoding="utf-8")
    command = ("zofedht-server", "run", "--config", "run.toml", "--out", "/tmp/alone")
    alone = deployment.compose(*once, "client", *command, **own)
    summary = json.loads((deployment.folder / "summary.json").read_text(encoding="utf-8"))
    assert f"sha256 {summary['x_sha256']}" in alone
    # Export, where the result is; and neither there nor in the image is the module.
    result = f"runs/{deployment.folder.name}"
    seen = "find / -name 'lathe*' 2> /dev/null | wc -l"
    told = deployment.compose(
        *once, "server", "sh", "-c", f"zofedht-server export {result} --out {result}/x.csv && {seen}", **own
    )
    assert told.split()[-1] == "0"
    with (deployment.folder / "x.csv").open(encoding="utf-8") as file:
        exported = [float(row["x"]) for row in csv.DictReader(file)]
    assert exported == load_run(deployment.folder).x.tolist()
    deployment.compose("down", "--remove-orphans", **own)


def test_a_run_survives_five_faults(deployment: Deployment):
    """A client is killed, another paused; the server is restarted, crashes, and moves to another container.

    The folder holds a finished run before, which is put aside.
    """
    if not (deployment.folder / "summary.json").exists():  # the other tests have not run here
        deployment.compose("up")
    finished, before = len(check_result(deployment.folder)), deployment.put_aside()
    deployment.compose("up", "--detach", "--scale", "client=7", ROUNDS=str(ENDLESS))
    deployment.wait_for_rounds(10)
    assert "SERVING" in deployment.compose("exec", "-T", "--index", "3", "client", "health.py", "127.0.0.1:8081")
    containers = deployment.containers()
    server = containers["server"]["Id"]

    subprocess.run(["docker", "kill", containers["client-2"]["Id"]], check=True, capture_output=True)
    subprocess.run(["docker", "pause", containers["client-3"]["Id"]], check=True, capture_output=True)
    deployment.wait_for_rounds(10)  # once it has noticed that client-3 does not answer
    deployment.compose("restart", "server")  # SIGTERM: it writes a checkpoint
    deployment.wait_for_rounds(10)
    subprocess.run(["docker", "unpause", containers["client-3"]["Id"]], check=True, capture_output=True)
    deployment.wait("client-3 is back", lambda: deployment.compose("logs", "server").count("joined: client-3") > 1)
    deployment.compose("exec", "-T", "server", "sh", "-c", "kill -KILL -1")  # all but the init process and itself
    deployment.wait("the restart policy", lambda: deployment.containers()["server"]["RestartCount"] == 1)
    deployment.wait_for_rounds(10)
    assert deployment.containers()["server"]["Id"] == server
    # Another container, with another address, finishes the run.
    deployment.compose("up", "--detach", "--no-deps", "server", ROUNDS=str(deployment.rounds() + 150))

    deployment.wait("the end", lambda: deployment.containers()["server"]["State"]["Status"] == "exited")
    deployment.wait(
        "the clients go home",
        lambda: all(told["State"]["Status"] == "exited" for told in deployment.containers().values()),
    )
    containers = deployment.containers()
    expected = dict.fromkeys(containers, 0) | {"client-2": 137}
    assert {name: told["State"]["ExitCode"] for name, told in containers.items()} == expected
    assert sum(name.startswith("client-") for name in containers) == 7
    rows = check_result(deployment.folder)
    lost = {failure["client"] for row in rows for failure in row["failures"]}
    assert lost & {"client-2", "client-3"}
    about = json.loads((deployment.folder / "run.json").read_text(encoding="utf-8"))
    assert sorted(about["shards"]) == [f"client-{i}" for i in range(1, 8)]
    [aside] = deployment.put_aside() - before
    assert len(check_result(aside)) == finished


def test_the_page_profile_shows_a_run_and_its_metrics(deployment: Deployment):
    """The page needs no other image; who has no token sees nothing; it stays healthy when the server has gone."""
    if not (deployment.folder / "summary.json").exists():  # the other tests have not run here
        deployment.compose("up")
    port = free_port()
    own = {"COMPOSE_PROFILES": "page", "PAGE": str(port), "ROUNDS": str(ENDLESS), "CLIENTS": "2"}
    deployment.compose("up", "--detach", "--scale", "client=2", **own)
    deployment.wait("the page", lambda: deployment.containers()["page"]["State"]["Health"]["Status"] == "healthy")
    token = (deployment.folder / "page-token").read_text(encoding="utf-8").strip()

    def metric(name: str) -> float:
        status, text = page_answer(port, "/metrics", token)
        assert status == 200
        return next((float(line.split()[-1]) for line in text.splitlines() if line.startswith(name)), -1.0)

    deployment.wait("ten rounds at /metrics", lambda: metric("zofedht_rounds_total") >= 10)
    assert [page_answer(port, path, "")[0] for path in ("/metrics", "/events", "/config.toml")] == [401, 401, 401]
    status, page = page_answer(port, "/", token)
    assert (status, "<title>" in page) == (200, True)
    told = deployment.containers()
    assert told["page"]["Image"] == told["server"]["Image"]
    assert told["page"]["NetworkSettings"]["Ports"] == {"8088/tcp": [{"HostIp": "127.0.0.1", "HostPort": str(port)}]}
    deployment.compose("stop", "server", **own)
    deployment.wait("the last round", lambda: metric("zofedht_rounds_total") == deployment.rounds())
    deployment.compose("down", "--remove-orphans", **own)


def page_answer(port: int, path: str, token: str) -> tuple[int, str]:
    """Return the status and the text of an answer of the page."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers={"Authorization": f"Bearer {token}"})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, ""
