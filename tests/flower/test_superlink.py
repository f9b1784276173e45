"""``flwr run . <connection>`` against a SuperLink and two SuperNodes of this machine: the same x as in process."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from common.config import RunConfig
from server.inprocess import run
from server.run_folder import x_digest

pytestmark = pytest.mark.slow

_KEYS = {"rounds": 3, "memory": 2, "clients-per-round": 2, "num-clients": 4, "local-steps": 5}
_ROOT = Path(__file__).parents[2]
_BIN = Path(sys.executable).parent


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def _process(log: Path, environment: dict[str, str], *command: str) -> Iterator[None]:
    with log.open("w") as file:
        process = subprocess.Popen(
            [str(_BIN / command[0]), *command[1:]], stdout=file, stderr=file, env=environment, start_new_session=True
        )
        try:
            yield
        finally:
            os.killpg(process.pid, 15)
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, 9)
                process.wait()


def _wait_for(port: int) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise AssertionError(f"nothing listens on port {port}")


def test_a_run_over_superlink_and_supernodes_equals_in_process(tmp_path: Path) -> None:
    home, out, port = tmp_path / "home", tmp_path / "out", _free_port()
    home.mkdir()
    (home / "config.toml").write_text(
        f'[superlink]\ndefault = "sites"\n\n[superlink.sites]\naddress = "127.0.0.1:{port}"\ninsecure = true\n'
    )
    environment = os.environ | {
        "FLWR_HOME": str(home),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "PATH": f"{_BIN}:{os.environ['PATH']}",
    }
    keys = " ".join(f"{key}={value}" for key, value in _KEYS.items()) + f' out="{out}"'
    with ExitStack() as stack:
        link = ("flower-superlink", "--insecure", "--host", "127.0.0.1", "--port", str(port))
        link += ("--disable-runtime-dependency-installation",)
        stack.enter_context(_process(tmp_path / "link.log", environment, *link))
        _wait_for(port)
        for site in range(2):
            node = ("flower-supernode", "--insecure", "--superlink", f"127.0.0.1:{port}", "--port", str(_free_port()))
            node += ("--node-config", f"partition-id={site} num-partitions=2")
            stack.enter_context(_process(tmp_path / f"site{site}.log", environment, *node))
        ended = subprocess.run(
            [str(_BIN / "flwr"), "run", ".", "sites", "--stream", "--run-config", keys],
            cwd=_ROOT, env=environment, capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
    log = ended.stdout + ended.stderr
    assert ended.returncode == 0, log
    assert "deprecat" not in log.lower()
    summary = json.loads((out / "summary.json").read_text())
    assert summary["x_sha256"] == x_digest(run(RunConfig.from_mapping(_KEYS)).state.x), log
