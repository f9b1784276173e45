"""The page about SuperLink, as written and in its order: what a reader types ends well, and x is that of one process.

Programs that stay are started and left; ports and folders are the test's own.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.doc_blocks import ROOT, Block, blocks, copy_checkout
from tests.waiting import free_port, nothing_left, run_to_end, until
from zofedht.common.config.run_config import RunConfig
from zofedht.server.inprocess import run_in_process
from zofedht.server.records.run_folder import sha256_of_x

pytestmark = [pytest.mark.slow, pytest.mark.engine]

_PAGE = ROOT / "docs" / "superlink.md"
_STAYS = ("flower-superlink", "flower-supernode")
_GAVE_UP = "Failed to start local SuperLink within"
"""Flower waits for its SuperLink for 15 s, which a busy machine may exceed; a reader types the command once more."""

_TRIES = 10
_PORT = re.compile(r"(?<=[: =])(8300|8301|9394|9395|9480|9481|39193|39191)\b")


class _Reader:
    """Somebody with a checkout and an empty home, who types the page from its top to its end."""

    def __init__(self, folder: Path, mark: dict[str, str]) -> None:
        self.folder, self.checkout = folder, copy_checkout(folder / "checkout")
        self.connections = folder / ".flwr" / "config.toml"
        self.connections.parent.mkdir()
        self.environment = mark | {
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
            "HOME": str(folder),
            "FLWR_HOME": str(self.connections.parent),
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
        }
        self.stay: list[subprocess.Popen[bytes]] = []
        self._ports: dict[str, str] = {}

    def own(self, text: str) -> str:
        """Return a text of the page with this test's ports and folders."""
        text = _PORT.sub(lambda found: self._ports.setdefault(found[0], str(free_port())), text)
        return text.replace('"/tmp/', f'"{self.folder}/').replace("/absolute/path/of", str(self.checkout))

    def do(self, block: Block) -> None:
        if block.kind == "toml":
            self.connections.write_text(self.own(block.text))
            return
        text = self.own(block.text).replace("\\\n", " ")
        commands = text.splitlines() if any(word in text for word in _STAYS) else [text]
        for command in commands:
            (self._start if command.startswith(_STAYS) else self._run)(command, f"{_PAGE.name}:{block.line}")

    def _run(self, command: str, where: str) -> None:
        words = ["bash", "-euo", "pipefail", "-c", command]
        for _ in range(_TRIES):
            done = run_to_end(words, self.checkout, environment=self.environment, seconds=1500.0)
            if _GAVE_UP not in done.stdout + done.stderr:
                break
        assert done.returncode == 0, f"{where}: {command}\n{done.stdout}{done.stderr}"

    def _start(self, command: str, where: str) -> None:
        log = self.folder / f"{len(self.stay)}.log"
        with log.open("wb") as file:
            words = ["bash", "-c", f"exec {command}"]
            started = subprocess.Popen(
                words, cwd=self.checkout, env=os.environ | self.environment, stdout=file, stderr=subprocess.STDOUT
            )
        self.stay.append(started)
        if command.startswith("flower-superlink"):
            port = re.findall(r"--port (\d+)", command)[0]
            until(lambda: started.poll() is not None or _listens(int(port)), f"{where}: {command}")
        assert started.poll() is None, f"{where}: {command}\n{log.read_text()}"


def _listens(port: int) -> bool:
    lines = [
        line.split() for table in ("tcp", "tcp6") for line in Path("/proc/net", table).read_text().splitlines()[1:]
    ]
    return any(words[3] == "0A" and int(words[1].rpartition(":")[2], 16) == port for words in lines)


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[_Reader]:
    for program in ("bash", "ssh-keygen"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed; the page uses it")
    pytest.importorskip("ray", reason="the extra `sim` is not installed; the last block simulates")
    with nothing_left() as mark:
        found = _Reader(tmp_path, mark)
        try:
            yield found
        finally:
            for process in found.stay:
                process.terminate()
                process.wait(60)


def test_the_page_runs_as_written(reader: _Reader, tmp_path: Path):
    for block in blocks(_PAGE):
        reader.do(block)
    for out, rounds in (("zofedht-sites", 3), ("zofedht-keys", 2)):
        summary = json.loads((tmp_path / out / "summary.json").read_text())
        keys = {"rounds": rounds, "clients-per-round": 2, "num-clients": 4}
        assert summary["last_x_sha256"] == sha256_of_x(run_in_process(RunConfig.from_mapping(keys)).state.user_x), out
    assert len(list((tmp_path / "zofedht-runs").iterdir())) == 1  # the run without `out`
