"""The README says what the code does."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.waiting import run_to_end

_ROOT = Path(__file__).parents[1]
_README = (_ROOT / "README.md").read_text(encoding="utf-8")


def test_the_valve_of_the_readme_runs_as_written(tmp_path: Path) -> None:
    code = re.search(r"```python\n(# valve\.py\n.*?)```", _README, re.DOTALL)
    command = re.search(r"zofedht-server run (--set objective=valve:make [^\n]*) --out runs/valve", _README)
    assert code
    assert command
    (tmp_path / "valve.py").write_text(code.group(1))
    for module, arguments in (
        ("client", ["check", "--objective", "valve:make"]),
        ("server", ["run", *command.group(1).split(), "--out", "runs/valve"]),
    ):
        ended = run_to_end([sys.executable, "-m", f"zofedht.{module}", *arguments], tmp_path)
        assert ended.returncode == 0, ended.stderr
    x = np.load(tmp_path / "runs" / "valve" / "x.npy")
    assert x.shape == (12,)
    assert np.all(np.abs(x - np.linspace(1.0, 3.0, 12)) < 1.0)  # the medians that the readings lie around


@pytest.mark.slow
def test_the_python_of_the_readme_runs_as_written(tmp_path: Path) -> None:
    code = re.search(r"```python\n(import numpy as np\nfrom zofedht import run\n.*?)```", _README, re.DOTALL)
    assert code
    ended = run_to_end([sys.executable, "-c", code.group(1)], tmp_path)
    assert ended.returncode == 0, ended.stderr
    function, hinge = ended.stdout.splitlines()
    np.testing.assert_allclose([float(part) for part in re.findall(r"\d\.\d*", function)[:5]], 3.0, atol=0.05)
    assert float(hinge.split()[0]) < 0.5  # it starts at 1


@pytest.mark.slow
def test_the_objectives_page_runs_as_written(tmp_path: Path) -> None:
    page = (_ROOT / "docs" / "objectives.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    function, estimator, regressor, module, check, commands = [
        text for kind, text in blocks if kind != "text"
    ]  # text: output
    (tmp_path / "pump.py").write_text(module)

    def python(*words: str) -> str:
        ended = run_to_end([sys.executable, *words], tmp_path)
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return ended.stdout

    assert "True all 1000 rounds are done" in python("-c", function)
    assert float(python("-c", estimator)) > 0.9
    assert 0.85 < float(python("-c", regressor)) < 0.95
    packages = {"zofedht-client": "client", "zofedht-server": "server"}
    for line in (check + commands).splitlines():
        program, *words = line.partition("#")[0].split()
        python("-m", f"zofedht.{packages[program]}", *words)
    x = np.loadtxt(tmp_path / "pump.csv", skiprows=1)
    assert np.all(np.abs(x - [0.4, 55.0, 120.0]) < [0.1, 5.0, 20.0])
