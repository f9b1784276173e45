"""docs/parameters.md runs as written."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tests.waiting import run_to_end
from zofedht import Choice, FunctionObjective, ObjectiveError, Real, run
from zofedht.common.space.space import Space

_PAGE = (Path(__file__).parents[1] / "docs" / "parameters.md").read_text(encoding="utf-8")
_FIRST, _CLASS, _TOML, _PLANT, _COMMANDS, _FLEET = re.findall(
    r"^```(?:python|sh|toml)\n(.*?)^```$", _PAGE, re.DOTALL | re.MULTILINE
)


@pytest.mark.parametrize("code", [_FIRST, _FLEET], ids=["run", "fleet"])
def test_the_page_s_python_finds_the_optimum(code: str, tmp_path: Path) -> None:
    done = run_to_end([sys.executable, "-c", code], tmp_path)
    assert done.returncode == 0, done.stderr
    settings = eval(done.stdout.splitlines()[-1])
    assert (settings["teeth"], settings["mode"]) == (30, "boost")
    assert settings["pause"] == pytest.approx(1.0 if "valve" in settings else 0.1, rel=0.1)


def test_the_page_s_class_is_an_objective(tmp_path: Path) -> None:
    (tmp_path / "pump.py").write_text(_CLASS, encoding="utf-8")
    command = "from zofedht import check; r = check('pump:Pump', algorithm='cma-es'); print(r); assert r.ok"
    done = run_to_end([sys.executable, "-c", command], tmp_path)
    assert done.returncode == 0, done.stderr
    assert "2 parameters (valve, teeth)" in done.stdout


def test_the_page_s_run_writes_the_settings(tmp_path: Path) -> None:
    (tmp_path / "plant.py").write_text(_PLANT, encoding="utf-8")
    (tmp_path / "run.toml").write_text(_TOML, encoding="utf-8")
    for line in _COMMANDS.splitlines():
        done = run_to_end([sys.executable, "-m", "zofedht.server", *line.split()[1:]], tmp_path)
        assert done.returncode == 0, done.stderr
    rows = dict(line.split(",") for line in (tmp_path / "settings.csv").read_text(encoding="utf-8").splitlines())
    assert (rows["teeth"], rows["mode"]) == ("30", "boost")
    assert float(rows["valve"]) == pytest.approx(0.3, abs=0.02)


def test_the_page_s_refusals_are_the_program_s() -> None:
    table = dict(re.findall(r"^\| `?(.+?)`? \| (.+?) \|$", _PAGE.split("## What is refused")[1], re.MULTILINE))
    space = Space.of(
        {"valve": Real(0, 1), "pause": Real(), "teeth": Real(), "mode": Choice("eco", "boost")},
    )
    both = {"valve": Real(0, 1), "pause": Real()}
    tries = {
        "Real(1, 0)": lambda: Real(1, 0),
        "Real(0, 1, log=True)": lambda: Real(0, 1, log=True),
        'Choice("a")': lambda: Choice("a"),
        'x0={"valve": 7}': lambda: space.coordinates({"valve": 7}, space.middle),
        'x0={"valv": 0.5}': lambda: space.coordinates({"valv": 0.5}, space.middle),
        "a function of other names": lambda: FunctionObjective(lambda x: 0.0, parameters=both),
        "bounds` beside `parameters": lambda: run(lambda valve: 0.0, parameters={"valve": Real()}, bounds=(0, 1)),
    }
    assert set(tries) == set(table) - {"mistake", "---"}
    for mistake, attempt in tries.items():
        with pytest.raises(ObjectiveError, match=re.escape(table[mistake])):
            attempt()
