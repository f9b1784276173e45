"""Named parameters in ``run`` and in fleets: a user's values in, a user's values out."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from zofedht import Choice, Fleet, Integer, Objective, ObjectiveError, Real, check, load_run, run
from zofedht.server.__main__ import main

PUMP: Any = {"valve": Real(0, 1), "pause": Real(1e-3, 10, log=True), "teeth": Integer(8, 40), "mode": Choice("a", "b")}


def energy(valve: float, pause: float, teeth: int, mode: str) -> float:
    assert isinstance(teeth, int)
    assert mode in ("a", "b")
    return (valve - 0.3) ** 2 + math.log10(pause) ** 2 / 16 + ((teeth - 30) / 32) ** 2 + 0.2 * (mode == "a")


def smooth(valve: float, pause: float) -> float:
    return (valve - 0.3) ** 2 + (math.log10(pause) + 0.5) ** 2 / 16


SMOOTH: Any = {name: PUMP[name] for name in ("valve", "pause")}


def test_run_returns_the_users_values(tmp_path: Path) -> None:
    result = run(smooth, parameters=SMOOTH, rounds=60, out=tmp_path / "run")
    assert result.success
    assert result.settings["valve"] == pytest.approx(0.3, abs=0.01)
    assert result.settings["pause"] == pytest.approx(10**-0.5, rel=0.1)
    assert result.fun == smooth(**result.settings)


def test_run_starts_where_a_mapping_says() -> None:
    heard: list[tuple[float, float]] = []

    def listen(valve: float, pause: float) -> float:
        heard.append((valve, pause))
        return smooth(valve, pause)

    run(listen, {"valve": 0.75}, parameters=SMOOTH, rounds=1)
    assert heard[0] == (0.75, pytest.approx(0.1))


def test_several_functions_share_their_parameters() -> None:
    sites = [lambda valve, pause, at=at: smooth(valve - at, pause) for at in (-0.1, 0.0, 0.1)]
    result = run(sites, parameters=SMOOTH, rounds=60)
    assert result.settings["valve"] == pytest.approx(0.3, abs=0.02)


def test_a_fleet_takes_and_gives_settings(tmp_path: Path) -> None:
    asked = {"valve": 0.3, "pause": 1.0, "teeth": 30, "mode": "a"}
    with Fleet.local([energy], parameters=PUMP, folder=tmp_path / "fleet", x0={"teeth": 9}) as fleet:
        assert fleet(asked) == pytest.approx(0.2)
        assert fleet.many([asked, asked | {"mode": "b"}]).tolist() == pytest.approx([0.2, 0.0])
        assert fleet.best is not None
        assert fleet.settings(fleet.best.x) == asked | {"mode": "b"}
        assert fleet.settings(fleet.x0)["teeth"] == 9
        with pytest.raises(ObjectiveError, match="parameter 'teeth' must be a whole number from 8 to 40, got 50"):
            fleet(asked | {"teeth": 50})
    header = (tmp_path / "fleet/candidates.csv").read_text(encoding="utf-8").splitlines()[0]
    assert header == "candidate,round,valve,log10(pause),teeth,mode=a,mode=b,mean,sites"


def test_a_folder_refuses_other_parameters(tmp_path: Path) -> None:
    with Fleet.local([smooth], parameters=SMOOTH, folder=tmp_path) as fleet:
        fleet(fleet.x0)
    other = SMOOTH | {"pause": Real(-3, 1)}
    with (
        pytest.raises(Exception, match=r"calls parameter 1 'pause', .* 'log10\(pause\)'"),
        Fleet.local([smooth], parameters=other, folder=tmp_path),
    ):
        pass


def test_sites_must_have_the_same_parameters() -> None:
    from zofedht import FunctionObjective

    def teeth(value: Any) -> Any:
        return FunctionObjective(lambda mode: 0.0, parameters={"mode": value})

    with pytest.raises(Exception, match="site site-1 has the parameter 'mode' as Choice"):
        Fleet.local([teeth(Choice(1, 2)), teeth(Choice("1", "2"))])


def test_check_names_the_parameters() -> None:
    report = check(energy, parameters=PUMP)
    assert report.ok
    assert report.findings[0].text.startswith("4 parameters (valve, pause, teeth, mode), 5 coordinates")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"parameters": {"valve": 3}}, "got 3 for 'valve'"),
        ({"parameters": SMOOTH | {"teeth": Integer(1, 2)}}, r"by name, \(valve=, pause=, teeth=\), but it takes"),
        ({"parameters": SMOOTH, "bounds": [(0, 1)] * 2}, "bounds and parameters exclude each other"),
        ({"parameters": SMOOTH, "x0": {"valve": 7}}, "parameter 'valve' must be a number from 0 to 1, got 7"),
        ({"parameters": SMOOTH, "x0": {"pressure": 7}}, "there is no parameter 'pressure'; there are valve, pause"),
    ],
)
def test_wrong_parameters_are_named(arguments: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ObjectiveError, match=sentence):
        run(smooth, rounds=1, **arguments)


def test_errors_call_parameters_by_name() -> None:
    class Named(Objective):
        dim, names, bounds, scale = 2, ("valve", "pause"), ((0, 1), (1, 9)), (1.0, 1.0)

        def value(self, x: Any, batch: Any) -> float:
            return 0.0

        def initial(self, rng: Any) -> Any:
            return self.start

        start = (0.5, 2.0)

    with pytest.raises(ObjectiveError, match=r"x0 must lie within the bounds, got 12.0 for parameter 'pause'"):
        run(Named(), x0=[0.5, 12.0], rounds=1)
    low = Named()
    low.start = (0.5, 0.5)
    with pytest.raises(ObjectiveError, match=r"initial\(\) must lie within the bounds, got 0.5 for parameter 'pause'"):
        run(low, rounds=1)
    wider = Named()
    wider.scale = (1.0, 2.0)
    with pytest.raises(ObjectiveError, match=r"has the scale 2\.0 for parameter 'pause'"):
        run([Named(), wider], x0=[0.5, 2.0], rounds=1)


def test_settings_for_a_vector_are_refused() -> None:
    with pytest.raises(ObjectiveError, match="x0 must be a vector"):
        run(lambda x: float(np.sum(x)), x0={"valve": 1})


def test_a_stored_run_knows_its_settings(tmp_path: Path) -> None:
    result = run(smooth, parameters=SMOOTH, rounds=3, out=tmp_path / "run")
    assert load_run(tmp_path / "run").settings == result.settings


@pytest.mark.parametrize("method", ["auto", "cma-es"])
def test_a_fleet_finds_the_optimum_of_all_kinds(method: str) -> None:
    with Fleet.local([energy], parameters=PUMP) as fleet:
        result = fleet.minimize(maxfev=800, method=method)
    assert result.settings["valve"] == pytest.approx(0.3, abs=0.01)
    assert result.settings["pause"] == pytest.approx(1.0, rel=0.1)
    assert (result.settings["teeth"], result.settings["mode"]) == (30, "b")
    assert result.fun == energy(**result.settings)
    if method == "auto":
        assert "integers or choices" in result.message


@pytest.mark.parametrize("at", [1e-3, 2e-5, 0.7])
def test_an_optimum_of_a_logarithm_is_found_within_a_percent(at: float) -> None:
    """Of a function that is as steep in the value itself as in its logarithm: 500 evaluations suffice."""
    for function in (lambda p: math.log(p / at) ** 2, lambda p: abs(p / at - 1.0)):
        with Fleet.local([function], parameters={"p": Real(1e-6, 1, log=True)}, x0={"p": 0.3}) as fleet:
            result = fleet.minimize(maxfev=500)
        assert result.settings["p"] == pytest.approx(at, rel=0.01)


def test_a_killed_search_of_integers_ends_the_same(tmp_path: Path) -> None:
    def search(folder: Path, evaluations: int) -> Any:
        with Fleet.local([energy, energy], parameters=PUMP, folder=folder) as fleet:
            return fleet.minimize(maxfev=evaluations, method="cma-es")

    whole = search(tmp_path / "whole", 400)
    search(tmp_path / "parts", 150)
    resumed = search(tmp_path / "parts", 400)
    assert np.array_equal(resumed.x, whole.x)
    assert resumed.settings == whole.settings


def test_lbfgs_refuses_integers() -> None:
    with Fleet.local([energy], parameters=PUMP) as fleet, pytest.raises(Exception, match="lbfgs needs slopes"):
        fleet.minimize(maxfev=100, method="lbfgs")


@pytest.mark.parametrize("algorithm", ["cma-es", "zofedht"])
def test_run_searches_integers_and_choices(algorithm: str, tmp_path: Path) -> None:
    result = run(energy, parameters=PUMP, algorithm=algorithm, budget=900, out=tmp_path / "run")
    assert result.success
    assert result.fun == energy(**result.settings)
    assert load_run(tmp_path / "run").settings == result.settings
    if algorithm == "cma-es":
        assert (result.settings["teeth"], result.settings["mode"]) == (30, "b")
        assert result.settings["valve"] == pytest.approx(0.3, abs=0.01)


def test_slopes_reach_half_a_step() -> None:
    """Where nobody says a radius the run takes one; a smaller one is refused in a sentence."""
    teeth: Any = {"valve": Real(0, 1), "teeth": Integer(8, 40)}
    sites: Any = {"parameters": teeth, "algorithm": "zofedht", "rounds": 60}
    result = run(lambda valve, teeth: (valve - 0.3) ** 2 + ((teeth - 30) / 32) ** 2, **sites)
    assert abs(result.settings["teeth"] - 30) <= 2
    change = result.records[0]["interventions"]
    assert [one["after"] for one in change if one["what"] == "radius"] == [pytest.approx(0.5 / 33)]
    flat = run(lambda valve, teeth: 1.0, parameters=teeth, algorithm="zofedht", rounds=2)
    assert "integers and choices have no slopes; algorithm = cma-es searches them" in flat.message
    with pytest.raises(Exception, match=r"radius must be at least 0.01515, half a step of 'teeth', got 0.01"):
        run(lambda valve, teeth: 0.0, parameters=teeth, rounds=1, radius=0.01)
    report = check(lambda valve, teeth: valve + teeth, parameters=teeth, radius=0.01)
    assert not report.ok
    assert "half a step of 'teeth'" in str(report)


PROGRAM = """
import math

def energy(valve, pause, teeth, mode, shard=None):
    at = .3 if shard is None else .25 + .1 * shard.index
    return (valve - at) ** 2 + math.log10(pause) ** 2 / 16 + ((teeth - 30) / 32) ** 2 + .2 * (mode == "a")
"""

CONFIG = """
objective = "pump_by_name:energy"
algorithm = "cma-es"
num-clients = 2
budget = 1600

[parameters]
valve = { lower = 0, upper = 1 }
pause = { lower = 1e-3, upper = 10, log = true }
teeth = { lower = 8, upper = 40, integer = true }
mode = { options = ["a", "b"] }
"""


def _project(folder: Path, monkeypatch: pytest.MonkeyPatch, config: str = CONFIG) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.delitem(sys.modules, "pump_by_name", raising=False)  # each test has its own
    (folder / "pump_by_name.py").write_text(PROGRAM, encoding="utf-8")
    (folder / "run.toml").write_text(config, encoding="utf-8")


def test_the_command_takes_parameters_of_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _project(tmp_path, monkeypatch)
    assert main(["run", "--config", "run.toml", "--out", "out"]) == 0
    found = load_run("out")
    assert (found.settings["teeth"], found.settings["mode"]) == (30, "b")
    assert found.settings["valve"] == pytest.approx(0.3, abs=0.01)
    assert main(["export", "out", "--out", "x.csv"]) == 0
    rows = dict(line.split(",") for line in (tmp_path / "x.csv").read_text(encoding="utf-8").splitlines())
    assert (rows.pop("parameter"), rows["teeth"], rows["mode"]) == ("value", "30", "b")
    assert float(rows["valve"]) == found.settings["valve"]
    same = run("pump_by_name:energy", parameters=PUMP, algorithm="cma-es", num_clients=2, budget=1600)
    assert np.array_equal(same.x, found.x)
    capsys.readouterr()


def test_a_resumed_run_of_integers_ends_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _project(tmp_path, monkeypatch)
    for folder, budget in (("whole", "1600"), ("parts", "500")):
        assert main(["run", "--config", "run.toml", "--set", f"budget={budget}", "--out", folder]) == 0
    assert main(["resume", "parts", "--set", "budget=1600"]) == 0
    assert np.array_equal(load_run("parts").x, load_run("whole").x)
    text = (tmp_path / "parts/config.toml").read_text(encoding="utf-8")
    assert '"mode" = {options = ["a", "b"]}' in text


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ("valve = { lower = 1, upper = 0 }", "parameter 'valve': Real must have lower < upper, got (1, 0)"),
        ("valve = 3", "parameter 'valve' must be a row"),
        ("mode = { options = [] }", "parameter 'mode': Choice must have 2 to 100 options, got 0"),
        ("valve = { lower = 0, upper = 1 }", "must take its parameters by name, (valve=), but it takes"),
    ],
)
def test_wrong_rows_are_named(
    rows: str, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _project(tmp_path, monkeypatch, CONFIG.split("valve =")[0] + rows)
    assert main(["run", "--config", "run.toml", "--out", "out"]) == 2
    assert sentence in capsys.readouterr().err
