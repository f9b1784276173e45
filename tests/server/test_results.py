"""What Python's callers get and may give: results, callbacks, signs, and arguments as SciPy takes them."""

from __future__ import annotations

import json
import logging
import math
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.optimize import Bounds, OptimizeResult

from zofedht import Choice, ConfigError, Fleet, FleetError, Integer, Objective, ObjectiveError, Real, load_run, run
from zofedht.server.page.view import RunView
from zofedht.server.records.history import read_history
from zofedht.server.records.run_folder import RunFolder
from zofedht.server.results import ShortResult, plain_rows
from zofedht.server.terminal.summary import summary_text

TARGET = np.array([3.0, -1.0, 0.5])


def bowl(x: Any) -> float:
    return float(np.sum((x - TARGET) ** 2))


def hill(x: Any) -> float:
    return 7.0 - bowl(x)


class Hill(Objective):
    """Values of many points at once, and a metric."""

    dim = 3

    def value(self, x: Any, batch: Any) -> float:
        return hill(x)

    def values(self, ws: Any, batch: Any) -> Any:
        return np.array([hill(w) for w in ws])

    def evaluate(self, x: Any) -> dict[str, float]:
        return {"loss": hill(x), "height": hill(x)}


# callbacks


def test_a_callback_hears_x_settings_and_the_record() -> None:
    heard: list[OptimizeResult] = []
    result = run(
        lambda valve, pause: (valve - 0.3) ** 2 + math.log10(pause) ** 2,
        parameters={"valve": Real(0, 1), "pause": Real(0.1, 10, log=True)},
        rounds=5,
        callback=heard.append,
    )
    assert [one.nit for one in heard] == [1, 2, 3, 4, 5]
    assert [one.nfev for one in heard] == [row["evaluations"] for row in result.records]
    assert {name: heard[-1][name] for name in result.records[-1]} == result.records[-1]
    assert np.array_equal(heard[-1].x, result.last)
    assert heard[-1].settings["valve"] == result.last[0]
    assert heard[-1].settings["pause"] == pytest.approx(10 ** result.last[1])


@pytest.mark.parametrize("how", ["True", "numpy", "StopIteration"])
@pytest.mark.parametrize("algorithm", ["zofedht", "cma-es"])
def test_a_callback_stops_the_run(how: str, algorithm: str, tmp_path: Path) -> None:
    def stop(intermediate: OptimizeResult) -> Any:
        if intermediate.nit < 4:
            return None
        if how == "StopIteration":
            raise StopIteration
        return np.True_ if how == "numpy" else True

    result = run(bowl, x0=np.zeros(3), rounds=20, algorithm=algorithm, callback=stop, out=tmp_path / "run")
    assert (result.nit, result.ended) == (4, "callback")
    assert "the callback has stopped the run after 4 rounds" in result.message
    assert result.fun == bowl(result.x) <= bowl(np.zeros(3))
    kept = load_run(tmp_path / "run")
    assert (len(kept.history), kept.summary["rounds"]) == (4, 4)
    assert np.array_equal(kept.x, result.x)


def test_a_callback_that_returns_something_else_stops_nothing() -> None:
    assert run(bowl, x0=np.zeros(3), rounds=3, callback=lambda _: "go on").ended == "rounds"


def test_a_callback_stops_a_fleet_s_search() -> None:
    heard: list[OptimizeResult] = []

    def stop(intermediate: OptimizeResult) -> bool:
        heard.append(intermediate)
        return intermediate.nit == 3

    parameters: Any = {"teeth": Integer(1, 9), "mode": Choice("a", "b")}
    with Fleet.local([lambda teeth, mode: float(teeth)], parameters=parameters) as fleet:
        result = fleet.minimize(maxfev=500, callback=stop)
    assert (result.nit, result.ended) == (3, "callback")
    assert set(heard[0].settings) == {"teeth", "mode"}
    assert "the callback has stopped the search" in result.message


# maximize


@pytest.mark.parametrize("target", [hill, Hill()], ids=["function", "Objective"])
@pytest.mark.parametrize("algorithm", ["zofedht", "cma-es"])
def test_maximize_is_minimize_of_the_negative(target: Any, algorithm: str) -> None:
    options: dict[str, Any] = {"x0": np.zeros(3), "rounds": 30, "algorithm": algorithm}
    heard: list[OptimizeResult] = []
    most = run(target, maximize=True, callback=heard.append, **options)
    least = run(lambda x: -hill(x), **options)
    assert np.array_equal(most.x, least.x)
    assert most.fun == -least.fun == hill(most.x)
    assert most.success
    assert most.comparison is not None
    assert most.comparison.gain > 0.0
    for row, other, told in zip(most.history, least.history, heard, strict=True):
        assert row["train_loss"] == told.train_loss == -other["train_loss"]
    if isinstance(target, Hill):
        assert most.metrics == {"train_loss": most.fun, "train_height": most.fun}


def test_a_fallen_value_is_told_in_the_user_s_sign() -> None:
    with np.errstate(all="ignore"):
        result = run(hill, x0=np.zeros(3), maximize=True, rounds=2, step_size=30.0, step_schedule="constant")
    assert not result.success
    assert result.message.startswith(f"the value went from {hill(np.zeros(3)):.4g} to -")


def test_files_are_in_the_user_s_sign(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The history, the summary, both reports, the page and the progress say what the result says."""
    caught: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: caught.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger("zofedht").addHandler(handler)
    options: dict[str, Any] = {"algorithm": "cma-es", "rounds": 40, "evaluate_every": 5}
    try:
        most = run([hill, hill], np.zeros(3), maximize=True, out=tmp_path / "up", show_progress=True, **options)
    finally:
        logging.getLogger("zofedht").removeHandler(handler)
    least = run([lambda x: -hill(x)] * 2, np.zeros(3), out=tmp_path / "down", **options)
    up, down = (json.loads((tmp_path / name / "summary.json").read_text()) for name in ("up", "down"))
    assert (up["maximize"], down["maximize"]) == (True, False)
    for name in ("initial_train_loss", "final_train_loss", "last_train_loss"):
        assert up[name] == -down[name]
    assert up["final_train_loss"] == most.fun == -least.fun
    assert up["comparison"]["gain"] == down["comparison"]["gain"] > 0.0
    for above, below in zip(up["comparison"]["sites"], down["comparison"]["sites"], strict=True):
        assert (above["x"], above["start"], above["gain"]) == (-below["x"], -below["start"], below["gain"])
    rows = read_history(tmp_path / "up" / "history.jsonl")
    assert [row["train_loss"] for row in rows] == [row["train_loss"] for row in most.history]
    view = RunView(tmp_path / "up")
    view.look()
    status = view.status()
    assert (status["initial"], status["best"]) == (
        hill(np.zeros(3)),
        pytest.approx(max(row["train_loss"] for row in rows)),
    )
    report = (tmp_path / "up" / "report.html").read_text()
    assert f"Mean value {hill(np.zeros(3)):.4g} at the start, {most.fun:.4g} at the returned x" in report
    settings = tomllib.loads((tmp_path / "up" / "settings.toml").read_text())
    assert settings["value-after"] == most.fun
    told = summary_text(up, RunFolder(tmp_path / "up"))
    assert told.startswith(f"value           {hill(np.zeros(3)):.4g} -> {most.fun:.4g}\n")
    assert "rose" not in told
    assert any(f"loss {rows[-1]['train_loss']:.4g}" in line for line in caught)


def test_a_fleet_maximizes_too() -> None:
    with Fleet.local([hill, hill], x0=np.zeros(3), maximize=True) as fleet:
        most = fleet.minimize(maxfev=900)
    with Fleet.local([lambda x: -hill(x)] * 2, x0=np.zeros(3)) as fleet:
        least = fleet.minimize(maxfev=900)
    assert np.array_equal(most.x, least.x)
    assert (most.fun, most.start_fun) == (-least.fun, hill(np.zeros(3)))
    assert most.success


def test_maximize_is_for_what_is_evaluated_here() -> None:
    with pytest.raises(ConfigError, match="let module:factory return the negative"):
        run("pump:Pump", maximize=True)


# arguments as SciPy takes them


def test_scipy_s_bounds_are_bounds() -> None:
    pairs = [(-1.0, 1.0), (-2.0, 0.5), (0.0, np.inf)]
    given = Bounds([-1.0, -2.0, 0.0], [1.0, 0.5, np.inf])
    ends = [run(bowl, x0=np.zeros(3), bounds=bounds, rounds=10).x for bounds in (pairs, given)]
    assert np.array_equal(*ends)
    assert np.array_equal(
        run(bowl, x0=np.zeros(3), bounds=Bounds(-1.0, 1.0), rounds=5).x,
        run(bowl, x0=np.zeros(3), bounds=(-1.0, 1.0), rounds=5).x,
    )
    with Fleet.local([bowl], x0=np.zeros(3), bounds=given) as fleet:
        assert fleet.bounds == pairs


def test_args_follow_x() -> None:
    def shifted(x: Any, by: float, scale: float) -> float:
        return bowl((x - by) / scale)

    found = run(shifted, x0=np.zeros(3), args=(1.0, 2.0), rounds=10)
    assert np.array_equal(found.x, run(lambda x: shifted(x, 1.0, 2.0), x0=np.zeros(3), rounds=10).x)
    rows = np.arange(5.0)
    batched = run(
        lambda x, batch, by: float(np.mean((x[0] - by - rows[batch]) ** 2)), [0.0], samples=5, args=[1.0], rounds=3
    )
    assert batched.nit == 3


def test_numpy_s_scalars_and_paths_are_options(tmp_path: Path) -> None:
    given = run(
        bowl, np.zeros(3), rounds=np.int64(4), step_size=np.float64(0.05), seed=np.uint8(3), out=tmp_path / "run",
        maximize=np.False_,
    )  # fmt: skip
    assert np.array_equal(given.x, run(bowl, [0, 0, 0], rounds=4, step_size=0.05, seed=3).x)
    with Fleet.local([bowl], x0=np.zeros(3), budget=np.int64(90), folder=tmp_path / "fleet", seed=np.int64(0)) as fleet:
        assert fleet.minimize(maxfev=np.int64(60), seed=np.int32(1)).nfev <= 60


def test_values_may_be_arrays_without_axes() -> None:
    plain = run(bowl, x0=np.zeros(3), rounds=4)
    assert np.array_equal(run(lambda x: np.array(bowl(x)), x0=np.zeros(3), rounds=4).x, plain.x)
    with Fleet.local([lambda x: np.array(bowl(x))], x0=np.zeros(3)) as fleet:
        assert fleet(np.ones(3)) == bowl(np.ones(3))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"callback": 3}, "callback must be a function of one argument, got 3"),
        ({"out": 3}, "out must name a folder, got 3"),
        ({"config": {"rounds": 3}}, r"config must be a RunConfig, got \{'rounds': 3\}"),
        ({"maximize": "yes"}, "maximize must be True or False, got 'yes'"),
        ({"callback": lambda x, more: None}, "callback must be a function of one argument"),
        ({"samples": "5"}, "samples must be a whole number of at least 1, got '5'"),
        ({"samples": 0}, "samples must be a whole number of at least 1, got 0"),
        ({"args": 3}, "args must be a tuple of further arguments of the function, got 3"),
        ({"args": (1.0,)}, r"the function must take \(x, args\[0\]\), but it takes \(x: 'Any'\)"),
        ({"bounds": 3}, r"bounds must be pairs \(lower, upper\) or scipy.optimize.Bounds, got 3"),
        ({"bounds": Bounds([0.0, 0.0], [1.0, 1.0])}, "bounds must be a vector of 3 numbers"),
        ({"x0": "zeros"}, "x0 must be a vector of finite numbers, got 'zeros'"),
        ({"x0": {"valve": 1}}, "x0 must be a vector of finite numbers, got"),
    ],
)
def test_malformed_arguments_of_run_are_named(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises((ConfigError, ObjectiveError), match=sentence):
        run(bowl, **({"x0": np.zeros(3), "rounds": 1} | options))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"callback": 3}, "callback must be a function of one argument, got 3"),
        ({"seed": "a"}, "seed must be a whole number of at least 0, got 'a'"),
        ({"seed": -1}, "seed must be a whole number of at least 0, got -1"),
        ({"maxfev": 10.5}, "maxfev must be a whole number of at least 0, got 10.5"),
    ],
)
def test_malformed_arguments_of_a_fleet_s_search_are_named(options: dict[str, Any], sentence: str) -> None:
    with Fleet.local([bowl], x0=np.zeros(3)) as fleet, pytest.raises(FleetError, match=sentence):
        fleet.minimize(**({"maxfev": 60} | options))


# what is lost


def quitting(x: Any) -> float:
    """A script that was wrapped: it ends the program now and then, the same for everybody."""
    if int(abs(x[0]) * 1e6) % 5 == 1:
        raise SystemExit(3)
    return bowl(x)


@pytest.mark.parametrize("algorithm", ["zofedht", "cma-es"])
def test_an_objective_that_quits_loses_its_evaluation(algorithm: str) -> None:
    result = run(quitting, x0=np.zeros(3), algorithm=algorithm, rounds=12, on_error="skip-step")
    assert result.nit == 12
    assert result.lost["steps"] > 0
    assert "most often: the objective raised SystemExit: 3" in result.message
    assert f"{result.lost['steps']} " in result.message
    assert f"{result.lost['steps']:,} of " in str(result)
    assert sum(int(row["skipped"]) for row in result.history) == result.lost["steps"]


def test_a_site_that_quits_loses_its_answer() -> None:
    with Fleet.local([quitting], x0=np.zeros(3), max_retries=0) as fleet:
        result = fleet.minimize(maxfev=400, method="cma-es")
    assert result.lost > 0
    assert f"{result.lost} of " in result.message
    assert result.success


# what is shown


def test_a_result_prints_in_ten_lines() -> None:
    results = [
        run(bowl, x0=np.zeros(3), rounds=30),
        run(lambda x: float(x @ x), x0=np.ones(40), rounds=3),
        run(quitting, x0=np.zeros(3), rounds=5),
        run(lambda **s: sum(s.values()), parameters={f"p{i}": Real(0, 1) for i in range(12)}, rounds=2),
    ]
    with Fleet.local([bowl], x0=np.zeros(3)) as fleet:
        results.append(fleet.minimize(maxfev=90))
    for result in results:
        assert isinstance(result, ShortResult)
        text = str(result)
        assert text == repr(result)
        assert len(text.splitlines()) <= 10
        assert all(name in text for name in ("success:", "message:", "fun:", "nfev:"))
    assert f"{results[0].fun:.4g}" in str(results[0])
    assert "... of 40]" in str(results[1])
    assert "and 4 more" in str(results[3])


def test_the_history_is_a_table_of_plain_values() -> None:
    result = run(quitting, x0=np.zeros(3), rounds=6, algorithm="zofedht", on_error="skip-step")
    names = [list(row) for row in result.history]
    assert names == [names[0]] * 6
    for row in result.history:
        assert all(type(value) in (str, int, float) for value in row.values()), row
    assert "memory: 5 -> 3" in str(result.history[0]["interventions"])
    told = [one for record in result.records for one in record["interventions"]]
    assert sum(str(row["interventions"]).count("->") for row in result.history) == len(told)
    pandas = pytest.importorskip("pandas", reason="needs pandas: pip install pandas")
    table = pandas.DataFrame(result.history)
    assert table.shape == (6, len(names[0]))
    assert table["evaluations"].tolist() == [record["evaluations"] for record in result.records]


def test_what_is_missing_is_nan() -> None:
    [row] = plain_rows([{"train_accuracy": None, "failures": [1, 2], "skipped": [{"steps": 3}], "method": ""}])
    assert math.isnan(row.pop("train_accuracy"))  # type: ignore[arg-type]
    assert row == {"failures": 2, "skipped": 3, "method": ""}
