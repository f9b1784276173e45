"""A SuperLink with two SuperNodes on loopback, and ``flwr run .`` against it; a test uses them, too."""

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
_ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Sites:
    """A SuperLink and its SuperNodes that run; ``environment`` has the connection ``sites``."""

    environment: Mapping[str, str]
    processes: Sequence[subprocess.Popen[str]]

    def submit(self, keys: Mapping[str, object], *options: str) -> str:
        """Submit a run of the checkout that holds this file; return what ``flwr run`` printed.

        Raises CalledProcessError, or TimeoutExpired after five minutes.
        """
        text = " ".join(f"{key}={json.dumps(value)}" for key, value in keys.items())
        command = [str(_BIN / "flwr"), "run", ".", "sites", *options, "--run-config", text]
        ended = subprocess.run(
            command, cwd=_ROOT, env=self.environment, check=True, capture_output=True, text=True, timeout=300
        )
        return ended.stdout + ended.stderr


@contextmanager
def superlink_sites(folder: Path) -> Iterator[Sites]:
    """Start a SuperLink and two SuperNodes on loopback, with their files below ``folder``; stop them at the end."""
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

        link = ("flower-superlink", "--insecure", "--host", "127.0.0.1", "--port", str(port))
        processes = [start(*link, "--disable-runtime-dependency-installation")]
        _wait_for(port)
        for site in range(2):
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


def _wait_for(port: int) -> None:
    deadline = time.monotonic() + 60.0
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise RuntimeError(f"nothing listens on port {port}")
