"""The README and the page on objectives say what the code does: their blocks run as written, in their order."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.doc_blocks import ROOT, Block, blocks
from zofedht.client.__main__ import main as client
from zofedht.server.__main__ import main as server

_COMMANDS = {"zofedht-client": client, "zofedht-server": server}

Write = Callable[[str, str], None]


def _run(page: str) -> list[Block]:
    """Return the blocks of a page that are run; a test unpacks them, and fails where there is one more."""
    return [block for block in blocks(ROOT / page) if block.kind in ("sh", "python") and not block.reason]


def _type(*found: Block) -> None:
    for line in "\n".join(block.text for block in found).splitlines():
        if words := shlex.split(line, comments=True):
            assert _COMMANDS[words[0]](words[1:]) == 0


def _printed(block: Block, capsys: pytest.CaptureFixture[str]) -> list[str]:
    exec(compile(block.text, f"line {block.line}", "exec"), {"__name__": "__main__"})
    return capsys.readouterr().out.splitlines()


def test_the_valve_of_the_readme_runs_as_written(tmp_path: Path, write_module: Write) -> None:
    valve, commands, _ = _run("README.md")
    assert valve.file == "valve.py"
    write_module("valve", valve.text)
    _type(commands)
    x = np.load(tmp_path / "runs" / "valve" / "x.npy")
    assert x.shape == (12,)
    assert np.all(np.abs(x - np.linspace(1.0, 3.0, 12)) < 1.0)  # the medians that the readings lie around


def test_the_python_of_the_readme_runs_as_written(capsys: pytest.CaptureFixture[str]) -> None:
    function, hinge = _printed(_run("README.md")[-1], capsys)
    np.testing.assert_allclose([float(part) for part in re.findall(r"\d\.\d*", function)[:5]], 3.0, atol=0.05)
    assert float(hinge.split()[0]) < 0.5  # it starts at 1


@pytest.mark.slow
def test_the_objectives_page_runs_as_written(
    tmp_path: Path, write_module: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    function, estimator, regressor, module, *commands = _run("docs/objectives.md")
    assert "True all 1000 rounds are done" in _printed(function, capsys)[-1]
    assert float(_printed(estimator, capsys)[-1]) > 0.9
    assert 0.85 < float(_printed(regressor, capsys)[-1]) < 0.95
    assert module.file == "pump.py"
    write_module("pump", module.text)
    _type(*commands)
    x = np.loadtxt(tmp_path / "pump.csv", skiprows=1)
    assert np.all(np.abs(x - [0.4, 55.0, 120.0]) < [0.1, 5.0, 20.0])
