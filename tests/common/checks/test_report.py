"""``zofedht.check``: the findings of the command, for a function, an Objective or module:factory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.helpers import VALVE
from zofedht import CheckReport, ConfigError, Objective, ObjectiveError, Shard, check
from zofedht.client.__main__ import main


def bowl(x: Any) -> float:
    return float(np.sum((x - 1.0) ** 2))


class Bowl(Objective):
    dim = 3

    def value(self, x: Any, batch: Any) -> float:
        return bowl(x)


class Single(Bowl):
    def value(self, x: Any, batch: Any) -> Any:
        return np.float32(bowl(x))


class Bounded(Bowl):
    bounds = (0.0, 2.0)


def _texts(report: CheckReport) -> dict[str, str]:
    return {finding.name: finding.text for finding in report.findings}


def test_a_function_is_checked_at_x0() -> None:
    report = check(bowl, x0=[1.0, 1.0, 3.0])
    assert report.ok
    assert _texts(report)["value"] == "4 at the starting point"
    assert str(report).splitlines()[-1] == "bowl can run"


def test_an_objective_starts_by_itself_or_at_x0() -> None:
    assert _texts(check(Bowl()))["value"] == "3 at the starting point"
    assert _texts(check(Bowl(), x0=[1.0, 1.0, 1.5]))["value"] == "0.25 at the starting point"
    assert _texts(check(Bounded(), x0=[1.0, 1.0, 1.5]))["value"] == "0.25 at the starting point"


def test_a_bad_x0_of_an_objective_is_a_finding() -> None:
    told = _texts(check(Bowl(), x0=[0.0]))
    assert told["initial"] == "x0 must be a vector of 3 finite numbers, got an array of shape (1,)"
    told = _texts(check(Bounded(), x0=[0.0, 5.0, 0.0]))
    assert told["initial"] == "x0 must lie within the bounds, got 5.0 for parameter 1"


def test_an_objective_that_cannot_run_is_not_ok() -> None:
    report = check(Single())
    assert not report.ok
    assert "got float32" in _texts(report)["value"]
    assert str(report).splitlines()[-1] == "Single cannot run: 1 to mend"
    assert repr(report) == str(report)


def test_an_objective_without_parameters_is_a_finding() -> None:
    class Empty(Bowl):
        dim = 0

    report = check(Empty())
    assert [(finding.name, finding.level) for finding in report.findings] == [("size", "error")]


def test_options_describe_the_run() -> None:
    told = _texts(check(bowl, x0=np.zeros(3), rounds=70, local_steps=7, memory=9))
    assert "for a slot of 7 steps; a run of 70 rounds takes " in told["time"]
    assert "if all 1 slots" in told["time"]
    assert told["memory"] == "with 3 parameters the run takes memory = 3 instead of 9"


@pytest.mark.parametrize(("options", "points"), [({}, 7), ({"algorithm": "cma-es"}, 7), ({"algorithm": "lbfgs"}, 4)])
def test_a_search_is_planned_by_its_points(options: dict[str, Any], points: int) -> None:
    """A search takes no local steps, whether it is named or is what few parameters get."""
    told = _texts(check(bowl, x0=np.zeros(3), budget=700, **options))["time"]
    assert "radius" not in told
    assert f"for a slot of {points} points; a run of {700 // points} rounds takes " in told
    assert "steps" not in told


def test_a_search_over_sites_is_planned_for_the_fewest() -> None:
    told = _texts(check(bowl, x0=np.zeros(3), budget=700, num_clients=5, algorithm="cma-es"))["time"]
    assert "a run of at most 50 rounds takes " in told  # of two sites; more sites take fewer
    assert "if all 2 slots of a round are done here" in told


def test_the_report_is_what_the_command_prints(
    write_module: Callable[[str, str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    write_module("valve_report", VALVE)
    for name, code in (("Valve", 0), ("Broken", 2)):
        report = check(f"valve_report:{name}", shard=Shard("3", 3, 5, seed=2), seed=2, radius=0.01, num_clients=5)
        assert report.ok == (code == 0)
        arguments = ["--objective", f"valve_report:{name}", "--client", "3", "--set", "seed=2", "radius=0.01"]
        assert main(["check", *arguments, "num-clients=5"]) == code
        ours, theirs = str(report).splitlines(), capsys.readouterr().out.splitlines()
        assert [line for line in ours if " time: " not in line] == [line for line in theirs if " time: " not in line]


@pytest.mark.parametrize(
    ("target", "options", "sentence"),
    [
        (bowl, {}, "objective is a function, so x0, the point to start from, must be given"),
        (Bowl(), {"samples": 4}, "are for functions; an Objective says them itself"),
        (Bowl(), {"raduis": 1.0}, "unknown key 'raduis'; did you mean 'radius'"),
        (3, {}, "objective must be a function, an Objective or 'module:factory', got 3"),
    ],
)
def test_a_wrong_option_is_raised(target: Any, options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        check(target, **options)


def test_a_module_that_is_not_there_is_raised() -> None:
    with pytest.raises(ObjectiveError, match="no module named 'no_such_valve'"):
        check("no_such_valve:make")
