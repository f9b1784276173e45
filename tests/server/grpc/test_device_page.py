"""The commands for devices, as the README has them, with both sides on one machine; docs/edge.md has the same.

The names of machines, addresses, ports and the number of rounds are the test's own, and a second device types what the
first one does.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.doc_blocks import ROOT, blocks
from tests.waiting import free_port, nothing_left, run_to_end
from zofedht.common.config.run_config import RunConfig
from zofedht.server.inprocess import run_in_process
from zofedht.server.records.run_folder import sha256_of_x


def _commands(page: str) -> list[str]:
    """Return the commands of a page that devices need: to make certificates, to serve, to join."""
    text = "\n".join(block.text for block in blocks(ROOT / page) if block.kind == "sh")
    begins = (
        "zofedht-server make-certs",
        "zofedht-server serve --address 0.0.0.0:8080",
        "zofedht-client join --server",
    )
    found = [next(line for line in text.splitlines() if line.startswith(words)) for words in begins]
    return [line.replace(",192.0.2.10", "") for line in found]


def test_both_pages_have_the_same_commands() -> None:
    readme, edge = ([sorted(command.split()) for command in _commands(page)] for page in ("README.md", "docs/edge.md"))
    assert readme == edge


@pytest.mark.slow
def test_devices_join_as_the_page_says(tmp_path: Path) -> None:
    port = str(free_port())
    text = "\n".join(_commands("README.md")).replace("0.0.0.0:8080", f"127.0.0.1:{port}")
    text = text.replace("server.example:8080", f"localhost:{port}").replace("server.example", "localhost")
    text = text.replace("rounds=500", "rounds=20")
    certs, serve, join = text.splitlines()
    environment = {"PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])}
    done = run_to_end(["bash", "-c", certs], tmp_path, environment=environment)
    assert done.returncode == 0, done.stderr
    with nothing_left() as mark:
        started = []
        for words in (serve, join, join.replace("pi-1", "pi-2").replace("0/2", "1/2")):
            folder = tmp_path / f"machine{len(started)}"
            shutil.copytree(tmp_path / "certs" / "clients", folder)  # carried to the device
            shutil.copytree(tmp_path / "certs", folder / "certs")
            with (folder / "log").open("wb") as log:
                started.append(
                    subprocess.Popen(
                        ["bash", "-c", f"exec {words}"], cwd=folder, env=os.environ | environment | mark, stderr=log
                    )
                )
        for place, process in enumerate(started):
            assert process.wait(600) == 0, (tmp_path / f"machine{place}" / "log").read_text()
    summary = json.loads((tmp_path / "machine0" / "runs" / "pi" / "summary.json").read_text())
    keys = {"rounds": 20, "num-clients": 2}
    assert summary["last_x_sha256"] == sha256_of_x(run_in_process(RunConfig.from_mapping(keys)).state.user_x)
