"""Named parameters in ``run`` and in fleets: a user's values in, a user's values out."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from zofedht import Choice, Fleet, Integer, ObjectiveError, Real, check, load_run, run

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
    report = check(energy, parameters=PUMP, radius=0.1)
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
