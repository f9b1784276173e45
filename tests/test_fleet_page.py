"""docs/fleet.md runs as written."""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path

import pytest

from tests.waiting import free_port, run_to_end
from zofedht.common.errors import CAUSES

_PAGE = (Path(__file__).parents[1] / "docs" / "fleet.md").read_text(encoding="utf-8")


def _blocks() -> list[str]:
    return re.findall(r"^```(?:python|sh)\n(.*?)^```$", _PAGE, re.DOTALL | re.MULTILINE)


def test_the_page_names_each_cause() -> None:
    named = set(re.findall(r"^\| `([a-z-]+)` \|", _PAGE, re.MULTILINE))
    assert {"raised", "not-a-loss", "not-finite", "refused", "no-answer", "absent"} <= named & set(CAUSES)


def test_the_page_s_python_runs_as_written(tmp_path: Path) -> None:
    local, *_, budget, minimize, rounds, _, asked = _blocks()

    def python(code: str) -> str:
        done = run_to_end([sys.executable, "-c", code], tmp_path)
        assert done.returncode == 0, done.stderr
        return done.stdout

    first = python(local)
    assert "5 of 5 sites better" in first
    assert python(local) == first  # replayed from its folder
    assert "the budget of 50 site evaluations has 0 left" in python(budget)
    numbers, message = python(minimize).splitlines()
    assert " True " in numbers
    assert "equal when asked twice; smooth, as far as 14 evaluations of a site tell; L-BFGS-B took" in message
    assert python(asked) == "auto [2. 2.] True\n"
    assert "the budget of 5,000 evaluations is spent; answers are equal when asked twice" in python(rounds)


@pytest.mark.slow
def test_the_page_s_network_runs_as_written(tmp_path: Path) -> None:
    _, tune, pump, commands, *_ = _blocks()
    port = free_port()
    (tmp_path / "tune.py").write_text(tune.replace(":8080", f":{port}"))
    (tmp_path / "pump.py").write_text(pump)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    bash = shutil.which("bash")
    assert bash
    commands = "exec 2>&1\n" + commands.replace(":8080", f":{port}")
    shell = run_to_end([bash, "-euo", "pipefail", "-c", commands], tmp_path, environment={"PATH": path})
    said = shell.stdout
    assert shell.returncode == 0, said
    found = re.search(r"\('north', 'south'\) \[ *([\d.]+) +([\d.]+) *\]", said)
    assert found, said
    assert float(found[1]) == pytest.approx(0.4, abs=1e-3)
    assert float(found[2]) == pytest.approx(55.0, abs=0.1)
