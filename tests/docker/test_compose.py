"""The deployment for real, by the commands of its page: containers that train, are killed, paused and restarted.

The blocks of docs/compose.md run as written and in their order, in a copy of this checkout.
"""

from __future__ import annotations

import csv
import json
import os
import re
import secrets
import shlex
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.doc_blocks import ROOT, Block, blocks, copy_checkout
from tests.waiting import free_port, nothing_left, run_to_end, until
from zofedht.server.records.finished_run import load_run
from zofedht.server.records.history import read_history

pytestmark = [pytest.mark.slow, pytest.mark.engine]

_PAGE = ROOT / "docs" / "compose.md"
UP, MORE, WATCH, BLACK_BOX, REMOTE, DEVICE = (
    block for block in blocks(_PAGE) if block.kind == "sh" and not block.reason
)
PUMP = next(block.text for block in blocks(ROOT / "docs" / "objectives.md") if block.file == "pump.py")
ENDLESS = 10**6  # rounds; the run is cut short when all faults are over
UID = os.getuid() or 1000


class Deployment:
    """docker compose in a copy of this repository, under a project of the test's own."""

    def __init__(self, checkout: Path) -> None:
        self.checkout = copy_checkout(checkout)
        self.folder = checkout / "runs" / "compose"
        self.project = f"zofedht-test-{secrets.token_hex(4)}"  # beside a deployment that somebody uses
        self.environment = {
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
            "ZOFEDHT_UID": str(UID),
            "ZOFEDHT_GID": str(os.getgid() or 1000),
            "COMPOSE_PROJECT_NAME": self.project,
            "COMPOSE_ANSI": "never",
            "MAX_WAIT": "3600",  # a busy machine is no absent server
        }

    def type(self, text: str | Block, *, code: int = 0, seconds: float = 1200.0, **environment: str) -> str:
        """Run commands, those of a block as written; return what they print. They must end with this exit code."""
        text = text.text if isinstance(text, Block) else text
        words = ["bash", "-euo", "pipefail", "-c", text]
        done = run_to_end(words, self.checkout, environment=self.environment | environment, seconds=seconds)
        said = done.stderr + done.stdout
        assert done.returncode == code, f"{text}: {said[-4000:]}"
        return said

    def compose(self, *arguments: str, **environment: str) -> str:
        """Run a command of docker compose; return what it printed."""
        return self.type(shlex.join(["docker", "compose", *arguments]), **environment)

    def containers(self) -> dict[str, dict[str, Any]]:
        """Return what the engine tells of every container: server, client-3, ..."""
        ids = self.compose("ps", "--all", "--quiet").split()
        told = json.loads(subprocess.run(["docker", "inspect", *ids], capture_output=True, check=True).stdout)
        names = [container["Name"].removeprefix(f"/{self.project}-") for container in told]
        return {
            (name if name.startswith("client-") else name.removesuffix("-1")): container
            for name, container in zip(names, told, strict=True)
        }

    def health(self, name: str) -> str:
        """Return what the engine says of a container's health; nothing where it is not there."""
        words = ["docker", "inspect", "--format", "{{.State.Health.Status}}", f"{self.project}-{name}-1"]
        return subprocess.run(words, capture_output=True, text=True, check=False).stdout.strip()

    @contextmanager
    def running(self, command: str, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
        """Run a command beside the block; what it prints goes to ``beside.log``."""
        with nothing_left() as mark, (self.checkout / "beside.log").open("wb") as log:
            variables = os.environ | self.environment | environment | mark
            words = ["bash", "-c", f"exec {command}"]
            with subprocess.Popen(words, cwd=self.checkout, env=variables, stdout=log, stderr=log) as process:
                try:
                    yield process
                finally:
                    process.kill()

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
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    reason = engine(base_images())
    if reason:
        pytest.skip(reason)
    deployment = Deployment(tmp_path_factory.mktemp("compose") / "zofedht")
    try:
        deployment.compose("build")
        yield deployment
    finally:
        deployment.compose("--profile", "page", "down", "--volumes", "--remove-orphans")


def check_result(folder: Path) -> list[dict[str, Any]]:
    """Check that a result folder is complete; return its history."""
    rows = read_history(folder / "history.jsonl")
    summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    assert rows
    assert [row["round"] for row in rows] == list(range(len(rows)))
    assert (summary["rounds"], summary["engine"]) == (len(rows), "grpc")
    assert summary["final_train_loss"] < 0.6 * summary["initial_train_loss"]
    assert (folder / "loss.png").read_bytes().startswith(b"\x89PNG")
    for path in folder.iterdir():
        assert path.stat().st_uid == UID
        assert path.stat().st_mode & 0o044 == 0o044, f"{path} cannot be read by all"
    return rows


def test_up_trains_to_the_end(deployment: Deployment):
    deployment.type(UP)  # in the foreground: it ends by itself

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


def test_the_server_waits_for_more_clients(deployment: Deployment):
    deployment.type(MORE, ROUNDS="2", SETTLE="1", LINGER="1")
    shards = json.loads((deployment.folder / "run.json").read_text(encoding="utf-8"))["shards"]
    assert sorted(shards) == [f"client-{i}" for i in range(1, 7)]
    assert len(read_history(deployment.folder / "history.jsonl")) == 2


def test_the_page_profile_shows_a_run_and_its_metrics(deployment: Deployment):
    """The page needs no other image; who has no token sees nothing; it stays healthy when the server has gone."""
    port = free_port()
    up, show_token = WATCH.text.splitlines()
    own = {"PAGE": str(port), "ROUNDS": str(ENDLESS), "CLIENTS": "2", "SETTLE": "1"}
    with deployment.running(up, **own):
        deployment.wait("the page", lambda: deployment.health("page") == "healthy")
        token = deployment.type(show_token).strip()

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
        ports = {"8088/tcp": [{"HostIp": "127.0.0.1", "HostPort": str(port)}]}
        assert told["page"]["NetworkSettings"]["Ports"] == ports
        deployment.compose("stop", "server")
        deployment.wait("the last round", lambda: metric("zofedht_rounds_total") == deployment.rounds())
    deployment.compose("--profile", "page", "down", "--remove-orphans")


SEEN = """
import os, sys
print(f"pump is imported in {os.getcwd()}", file=sys.stderr)
assert open("wear.txt").read() == "0.01"  # beside the module, as on the machine where it was written
"""


def test_a_black_box_stays_with_its_clients(deployment: Deployment):
    """The folder holds an interrupted run of something else before: one sentence names all of it and the cure."""
    mine = deployment.checkout / "mine"
    mine.mkdir()
    (mine / "pump.py").write_text(PUMP + SEEN, encoding="utf-8")
    (mine / "wear.txt").write_text("0.01", encoding="utf-8")
    exports, *typed, down = BLACK_BOX.text.splitlines()
    own = {"CLIENTS": "2", "SETTLE": "1", "LINGER": "1", "ROUNDS": "20"}

    def then(command: str, code: int = 0) -> str:
        return deployment.type(f"{exports}\n{command}", code=code, **own)

    if deployment.rounds() == 0 or (deployment.folder / "summary.json").exists():  # the test above has not run here
        deployment.compose("up", "--detach", ROUNDS=str(ENDLESS), CLIENTS="2", SETTLE="1")
        deployment.wait_for_rounds(10)
        deployment.compose("down")
    refused = then("docker compose up", code=1)
    for words in (
        "objective, radius, step-size cannot change", "objective = '', now 'pump:Pump'", "RUN=NAME", "runs/compose"
    ):  # fmt: skip
        assert words in refused
    exported = then(typed[-1])
    assert "runs/compose holds a run of dataset digits that has not ended" in exported
    shutil.rmtree(deployment.folder)

    then("\n".join(typed))
    rows = check_result(deployment.folder)
    assert len(rows) == 20
    assert not any(row["failures"] for row in rows)
    logs = {name: then(f"docker compose logs --no-log-prefix {name}") for name in ("server", "client")}
    assert logs["client"].count("pump is imported in /objective") == 2
    assert "pump is imported" not in logs["server"]
    # The same numbers as without a network: container 1 gets shard 0 of 2.
    shutil.copy(deployment.folder / "config.toml", mine / "run.toml")
    once = "docker compose run --rm --no-deps -T"
    alone = then(f"{once} client zofedht-server run --config run.toml --out /tmp/alone")
    summary = json.loads((deployment.folder / "summary.json").read_text(encoding="utf-8"))
    assert f"sha256 {summary['x_sha256']}" in alone
    # What was exported lies where the result is; and neither there nor in the image is the module.
    assert then(f"{once} server sh -c \"find / -name 'pump*' 2> /dev/null | wc -l\"").split()[-1] == "0"
    with (deployment.folder / "x.csv").open(encoding="utf-8") as file:
        x = [float(row["x"]) for row in csv.DictReader(file)]
    assert x == load_run(deployment.folder).x.tolist()
    then(down)


def test_a_run_survives_five_faults(deployment: Deployment):
    """A client is killed, another paused; the server is restarted, crashes, and moves to another container.

    A device that joins from outside is there all the time. The folder holds a finished run before, which is put aside.
    """
    if not (deployment.folder / "summary.json").exists():  # the other tests have not run here
        deployment.type(UP)
    finished, before = len(check_result(deployment.folder)), deployment.put_aside()
    port = free_port()
    deployment.type(REMOTE, ROUNDS=str(ENDLESS), PUBLISH=str(port))
    deployment.environment |= {"PUBLISH": str(port), "COMPOSE_FILE": "docker-compose.yml:docker/remote.yml"}
    with deployment.running(DEVICE.text.replace("HOST:8080", f"127.0.0.1:{port}")) as device:
        deployment.wait("the device", lambda: "joined: pi-1" in deployment.compose("logs", "server"))
        _survive(deployment)
        assert device.wait(600) == 0, (deployment.checkout / "beside.log").read_text()
    rows = check_result(deployment.folder)
    lost = {failure["client"] for row in rows for failure in row["failures"]}
    assert lost & {"client-2", "client-3"}
    about = json.loads((deployment.folder / "run.json").read_text(encoding="utf-8"))
    assert sorted(about["shards"]) == [*(f"client-{i}" for i in range(1, 6)), "pi-1"]
    [aside] = deployment.put_aside() - before
    assert len(check_result(aside)) == finished


def _survive(deployment: Deployment) -> None:
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
    assert sum(name.startswith("client-") for name in containers) == 5


def page_answer(port: int, path: str, token: str) -> tuple[int, str]:
    """Return the status and the text of an answer of the page."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers={"Authorization": f"Bearer {token}"})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, ""
