"""docs/fleet.md runs as written."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from zofedht.common.objective.points import LOSSES

_PAGE = (Path(__file__).parents[1] / "docs" / "fleet.md").read_text(encoding="utf-8")


def _blocks() -> list[str]:
    return re.findall(r"^```(?:python|sh)\n(.*?)^```$", _PAGE, re.DOTALL | re.MULTILINE)


def test_the_page_names_each_cause() -> None:
    assert re.findall(r"^\| `([a-z-]+)` \| (?!round)[a-z]", _PAGE, re.MULTILINE)[: len(LOSSES)] == list(LOSSES)


def test_the_page_s_python_runs_as_written(tmp_path: Path) -> None:
    local, *_, budget = _blocks()

    def python(code: str) -> str:
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    first = python(local)
    assert "5 of 5 sites better" in first
    assert python(local) == first  # replayed from its folder
    assert "the budget of 50 site evaluations has 0 left" in python(budget)


@pytest.mark.slow
def test_the_page_s_network_runs_as_written(tmp_path: Path) -> None:
    _, tune, pump, commands, _ = _blocks()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (tmp_path / "tune.py").write_text(tune.replace(":8080", f":{port}"))
    (tmp_path / "pump.py").write_text(pump)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    bash = shutil.which("bash")
    assert bash
    shell = subprocess.Popen(
        [bash, "-euo", "pipefail", "-c", commands.replace(":8080", f":{port}")],
        cwd=tmp_path, env=os.environ | {"PATH": path}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        start_new_session=True,
    )  # fmt: skip
    try:
        said, _ = shell.communicate(timeout=120)
    finally:
        if shell.poll() is None:
            os.killpg(shell.pid, signal.SIGKILL)
            shell.wait()
    assert shell.returncode == 0, said
    found = re.search(r"\('north', 'south'\) \[ *([\d.]+) +([\d.]+) *\]", said)
    assert found, said
    assert float(found[1]) == pytest.approx(0.4, abs=1e-3)
    assert float(found[2]) == pytest.approx(55.0, abs=0.1)
