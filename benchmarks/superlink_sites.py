"""A SuperLink with two SuperNodes on loopback, and ``flwr run .`` against it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

_BIN = Path(sys.executable).parent
_ROOT = Path(__file__).parents[1]


@contextmanager
def superlink_sites(folder: Path, keys: Mapping[str, object]) -> Iterator[list[subprocess.Popen[str]]]:
    """Start everything below ``folder`` and submit a run of ``keys``; yield the processes that stay."""
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
            stack.callback(process.wait)
            stack.callback(process.terminate)
            return process

        link = ("flower-superlink", "--insecure", "--host", "127.0.0.1", "--port", str(port))
        processes = [start(*link, "--disable-runtime-dependency-installation")]
        _wait_for(port)
        for site in range(2):
            node = ("flower-supernode", "--insecure", "--superlink", f"127.0.0.1:{port}", "--port", str(_free_port()))
            processes.append(start(*node, "--node-config", f"partition-id={site} num-partitions=2"))
        text = " ".join(f"{key}={json.dumps(value)}" for key, value in keys.items())
        command = [str(_BIN / "flwr"), "run", ".", "sites", "--run-config", text]
        subprocess.run(command, cwd=_ROOT, env=environment, check=True, stdout=subprocess.DEVNULL)
        yield processes


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
