"""A SuperLink on loopback, with two SuperNodes or with Flower's simulation, and ``flwr run .`` against it.

Tests use it, too.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

_BIN = Path(sys.executable).parent
_ROOT = Path(__file__).parents[2]
_PATIENCE = 1500.0  # seconds until a wait has failed; on a busy machine each of many programs takes a minute to start


@dataclass(frozen=True)
class Sites:
    """A SuperLink that runs, and its SuperNodes; ``environment`` has the connection ``sites``."""

    environment: Mapping[str, str]
    processes: Sequence[subprocess.Popen[str]]

    def submit(self, keys: Mapping[str, object], *options: str, app: Path = _ROOT) -> str:
        """Submit a run of an app, by default the checkout that holds this file; return what ``flwr run`` printed.

        Raises CalledProcessError, or TimeoutExpired after 25 minutes.
        """
        text = " ".join(f"{key}={json.dumps(value)}" for key, value in keys.items())
        command = [str(_BIN / "flwr"), "run", ".", "sites", *options, "--run-config", text]
        ended = subprocess.run(
            command, cwd=app, env=self.environment, check=True, capture_output=True, text=True, timeout=_PATIENCE
        )
        return ended.stdout + ended.stderr


@contextmanager
def superlink_sites(folder: Path, *, simulation: bool = False) -> Iterator[Sites]:
    """Start a SuperLink on loopback, with its files below ``folder``, and stop it at the end.

    It has two SuperNodes or, with ``simulation``, simulates them: then it is the SuperLink that ``flwr run .`` starts
    by itself, on a port of its own.
    """
    port = _free_port()
    home = folder / "home"
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
    with ExitStack() as stack:

        def start(*command: str) -> subprocess.Popen[str]:
            quiet = subprocess.DEVNULL
            process = subprocess.Popen(
                [str(_BIN / command[0]), *command[1:]],
                stdout=quiet,
                stderr=quiet,
                env=environment,
                cwd=_ROOT,
                text=True,
            )
            stack.callback(_end, process)
            return process

        link = ["flower-superlink", "--insecure", "--host", "127.0.0.1", "--port", str(port)]
        link += ["--disable-runtime-dependency-installation"]
        processes = [start(*link, *(["--simulation"] if simulation else []))]
        _wait_for(port, processes[0])
        for site in range(0 if simulation else 2):
            node = ("flower-supernode", "--insecure", "--superlink", f"127.0.0.1:{port}", "--port", str(_free_port()))
            processes.append(start(*node, "--node-config", f"partition-id={site} num-partitions=2"))
        yield Sites(environment, processes)


def _end(process: subprocess.Popen[str]) -> None:
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_for(port: int, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"{process.args!r} ended with {process.returncode} before it listened on port {port}")
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise RuntimeError(f"nothing listens on port {port} after {_PATIENCE:g} s")
