"""check_objective: every fault has its finding, and a good objective has none."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.common.samples import MODEL_CASES, BlackBox, model
from tests.waiting import PATIENCE
from zofedht.common.checks import check as objective_checks
from zofedht.common.checks.check import Finding, PlannedRun, check_objective
from zofedht.common.checks.finding import clock_text
from zofedht.common.objective.base import Objective
from zofedht.common.typing import Indices, Matrix, Vector

_CENTRES = np.random.default_rng(0).standard_normal((8, 3))


class _Good(Objective):
    """A quadratic with a shard; the tests below break one thing at a time."""

    dim = 3

    def __len__(self) -> int:
        return 8

    def value(self, x: Vector, batch: Indices | slice) -> Any:
        return float(np.mean((x - _CENTRES[batch]) ** 2))


def _findings(objective: Objective, **options: Any) -> dict[str, Finding]:
    found = check_objective(objective, **options)
    by_name = {finding.name: finding for finding in found}
    assert len(by_name) == len(found)
    return by_name


def _faults(objective: Objective, **options: Any) -> dict[str, str]:
    """Return the level of everything that is not ok."""
    return {name: f.level for name, f in _findings(objective, **options).items() if f.level != "ok"}


def _broken(**methods: Callable[..., Any]) -> Objective:
    return type("Broken", (_Good,), methods)()  # type: ignore[no-any-return]


def test_a_good_objective_passes_every_check() -> None:
    findings = _findings(_Good())
    assert {finding.level for finding in findings.values()} == {"ok"}
    assert list(findings) == [
        "size", "value", "arguments", "repeats", "whole", "pair", "values", "parameters", "radius", "time",
    ]  # fmt: skip
    assert findings["size"].text == "3 parameters, 8 samples"


@pytest.mark.parametrize(("name", "bias", "l2"), MODEL_CASES)
@pytest.mark.parametrize("black", [True, False])
def test_built_in_models_pass_the_same_checks(name: str, bias: bool, l2: float, black: bool) -> None:
    objective = model(name, bias=bias, l2=l2)
    # From zero a network's first weights change nothing as long as its last ones are 0.
    expected = {"parameters": "warning"} if black and name == "mlp" and not l2 else {}
    assert _faults(BlackBox(objective) if black else objective) == expected


@pytest.mark.parametrize("batch_size", [0, 1, 64])
def test_any_batch_size_can_be_tried(batch_size: int) -> None:
    assert _faults(_Good(), batch_size=batch_size) == {}


def _raise(*_: Any) -> Any:
    raise OSError("the plant is offline")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (lambda self, x, batch: np.float32(1.0), "one float64 number, got float32"),
        (lambda self, x, batch: float("nan"), "returned nan, not a finite number"),
        (lambda self, x, batch: x - _CENTRES[batch].mean(axis=0), r"got an array of shape (3,)"),
        (lambda self, x, batch: None, "got NoneType"),
        (_raise, "raised OSError: the plant is offline"),
    ],
    ids=["float32", "NaN", "array", "nothing", "raising"],
)
def test_an_unusable_loss_ends_the_checks(value: Callable[..., Any], text: str) -> None:
    findings = _findings(_broken(value=value))
    assert findings["value"].level == "error"
    assert text in findings["value"].text
    assert list(findings)[-1] == "value"


def test_a_changed_x_is_an_error() -> None:
    def value(self: Any, x: Vector, batch: Indices | slice) -> float:
        x -= 0.5
        return float(np.mean((x - _CENTRES[batch]) ** 2))

    finding = _findings(_broken(value=value))["arguments"]
    assert (finding.level, finding.text) == ("error", "value() changes its argument x; work on a copy")


def test_a_changed_batch_is_an_error() -> None:
    def value(self: Any, x: Vector, batch: Indices | slice) -> float:
        if not isinstance(batch, slice):
            batch[:] = np.roll(np.sort(batch), 1)
        return float(np.mean((x - _CENTRES[batch]) ** 2))

    finding = _findings(_broken(value=value))["arguments"]
    assert (finding.level, finding.text) == ("error", "value() changes its argument batch; work on a copy")


def _noisy(size: float) -> Callable[..., float]:
    rng = np.random.default_rng(1)
    return lambda self, x, batch: float(np.mean((x - _CENTRES[batch]) ** 2) + size * rng.standard_normal())


def test_noisy_losses_are_not_blamed_on_pair_or_values() -> None:
    faults = _faults(_broken(value=_noisy(1e-2)))
    assert faults.pop("repeats") == "warning"
    assert faults == {"radius": "warning"}


def _single(self: Any, x: Vector, batch: Indices | slice) -> float:
    return float(np.float32(np.mean((x - _CENTRES[batch]) ** 2)))


def test_float32_rounding_inside_a_float_is_found() -> None:
    finding = _findings(_broken(value=_single), radius=1e-6)["radius"]
    assert finding.level == "warning"
    assert "compute in float64" in finding.text


@pytest.mark.parametrize("seed", range(8))
def test_the_advice_on_rounding_leads_to_a_good_radius(seed: int) -> None:
    def value(self: Any, x: Vector, batch: Indices | slice) -> float:
        return float(np.mean((x - _CENTRES[batch]) ** 2) + 1e-5 * np.cos(1e9 * x.sum()))  # noise that repeats

    objective, radius = _broken(value=value), 1e-6
    finding = _findings(objective, radius=radius, seed=seed)["radius"]
    assert finding.level == "warning"
    for _ in range(4):
        assert "rounding or noise" in finding.text
        better = float(finding.text.split("try radius = ")[1].split(",")[0])
        assert better >= 9.9 * radius  # shown with one digit
        radius, finding = better, _findings(objective, radius=better, seed=seed)["radius"]
        if finding.level == "ok":
            return
    pytest.fail(f"still {finding.text}")


def test_an_unchanged_function_within_the_radius_is_a_warning() -> None:
    finding = _findings(_broken(value=_single), radius=1e-12)["radius"]
    assert finding.level == "warning"
    assert "does not change within radius 1e-12" in finding.text


@pytest.mark.parametrize(
    ("initial", "text"),
    [
        (lambda self, rng: np.zeros(4), "must be a vector of 3 finite numbers, got an array of shape (4,)"),
        (lambda self, rng: np.full(3, np.inf), "got inf for parameter 0"),
        (_raise, "raised OSError: the plant is offline"),
    ],
    ids=["shape", "inf", "raising"],
)
def test_a_wrong_starting_point_is_an_error(initial: Callable[..., Any], text: str) -> None:
    finding = _findings(_broken(initial=initial))["initial"]
    assert finding.level == "error"
    assert text in finding.text


@pytest.mark.parametrize("methods", [{"__len__": _raise}, {"__len__": lambda self: 0}, {"dim": "three"}, {"dim": -1}])
def test_an_unusable_size_is_an_error(methods: dict[str, Any]) -> None:
    assert _faults(_broken(**methods)) == {"size": "error"}


@pytest.mark.parametrize(
    ("pair", "text"),
    [
        (lambda self, w, v, r, b: (self.value(w - r * v, b), self.value(w + r * v, b)), "pair() gives ["),
        (lambda self, w, v, r, b: np.zeros(2, np.float32), "got float32"),
        (lambda self, w, v, r, b: (1.0,), "pair() gives [1.0]"),
        (lambda self, w, v, r, b: 1.0, "raised TypeError"),
        (_raise, "raised OSError: the plant is offline"),
    ],
    ids=["swapped", "float32", "one value", "a number", "raising"],
)
def test_a_pair_that_disagrees_with_value_is_an_error(pair: Callable[..., Any], text: str) -> None:
    finding = _findings(_broken(pair=pair))["pair"]
    assert finding.level == "error"
    assert text in finding.text


def _swapped_values(self: Any, ws: Matrix, batch: Indices | slice) -> Vector:
    return np.array([self.value(w, batch) for w in ws[::-1]])


@pytest.mark.parametrize(
    ("values", "text"),
    [
        (_swapped_values, "values() gives ["),
        (lambda self, ws, b: np.zeros(len(ws), np.float32), "float64 array of shape (2,), got float32 (2,)"),
        (lambda self, ws, b: 1.0, "got float64 ()"),
        (lambda self, ws, b: np.full(len(ws), np.nan), "nan"),
        (_raise, "raised OSError: the plant is offline"),
    ],
    ids=["swapped", "float32", "a number", "NaN", "raising"],
)
def test_values_that_disagree_with_value_are_an_error(values: Callable[..., Any], text: str) -> None:
    finding = _findings(_broken(values=values))["values"]
    assert finding.level == "error"
    assert text in finding.text


def test_a_value_must_take_the_whole_shard() -> None:
    finding = _findings(_broken(value=lambda self, x, batch: float(x.sum()) + len(batch)))["whole"]
    assert finding.level == "error"
    assert "raised TypeError" in finding.text


def test_an_evaluation_without_a_loss_is_an_error() -> None:
    finding = _findings(_broken(evaluate=lambda self, x: {"yield": 1.0}))["whole"]
    assert finding.level == "error"
    assert "yield" in finding.text


def test_the_time_of_slot_and_run_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = iter([0.0, 70.0, 100.0, 104.0])  # the first evaluation imports things; a pair takes 4 seconds
    monkeypatch.setattr(objective_checks.time, "perf_counter", lambda: next(ticks))
    plan = PlannedRun(steps=50, rounds=90, slots=4, round_timeout=300.0)
    finding = _findings(_Good(), plan=plan)["time"]
    assert finding.level == "warning"
    assert finding.text == (
        "2 s for one evaluation, 3.3 min for a slot of 50 steps, 70 s for the very first; a run of 90 rounds takes 5 h"
        " if its clients work at once, 20 h if all 4 slots of a round are done here; lower local-steps, or let"
        " evaluations run at once (concurrency)"
    )


def test_a_slot_beyond_round_timeout_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = iter([0.0, 1.0, 10.0, 20.0])
    monkeypatch.setattr(objective_checks.time, "perf_counter", lambda: next(ticks))
    finding = _findings(_Good(), plan=PlannedRun(round_timeout=300.0))["time"]
    assert finding.level == "warning"
    assert "no slot would be done within round-timeout = 300 s" in finding.text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.0012, "0.0012 s"), (1.0, "1 s"), (119.0, "119 s"), (200.0, "3.3 min"), (9000.0, "2.5 h"), (1e6, "12 days")],
)
def test_times_have_two_digits_and_a_unit(seconds: float, text: str) -> None:
    assert clock_text(seconds) == text


def test_a_traceback_has_the_users_frames_only() -> None:
    finding = _findings(_broken(value=_raise))["value"]
    assert finding.text.startswith("raised OSError: the plant is offline (test_check.py, line ")
    lines = finding.traceback.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert sum(line.startswith("  File ") for line in lines) == 1
    assert lines[-1] == "OSError: the plant is offline"
    initial = _findings(_broken(initial=_raise))["initial"]
    assert initial.traceback.endswith("OSError: the plant is offline")
    assert _findings(_broken(value=lambda self, x, batch: None))["value"].traceback == ""


@pytest.mark.parametrize("method", ["pair", "values", "evaluate"])
def test_no_method_may_change_its_arguments(method: str) -> None:
    def meddle(self: Any, x: Vector, *others: Any) -> Any:
        answer = getattr(_Good, method)(self, x.copy(), *others)
        x += 1.0
        return answer

    finding = _findings(_broken(**{method: meddle}))["arguments"]
    assert finding.level == "error"
    assert finding.text.startswith(f"{method}() changes its argument ")


def test_a_memory_of_another_point_is_a_warning() -> None:
    def value(self: Any, x: Vector, batch: Indices | slice) -> float:
        last, self.last = getattr(self, "last", 0.0), float(x[0])
        here = float(np.mean((x - _CENTRES[batch]) ** 2))
        return here if self.last == last else here + 0.1 * last

    finding = _findings(_broken(value=value, last=0.0))["repeats"]
    assert finding.level == "warning"
    assert "different losses" in finding.text


def test_the_suggested_radius_passes_the_check() -> None:
    def value(self: Any, x: Vector, batch: Indices | slice) -> float:
        return float(np.float32(10.0 + np.mean((x - _CENTRES[batch]) ** 2)))

    finding = _findings(_broken(value=value), radius=1e-6)["radius"]
    assert finding.level == "warning"
    assert finding.text.endswith(", and compute in float64: all losses are float32 numbers")
    better = float(finding.text.split("try radius = ")[1].split(",")[0])
    assert _findings(_broken(value=value), radius=better)["radius"].level == "ok"


def _steps_of(width: float) -> Objective:
    def value(self: Any, x: Vector, batch: Indices | slice) -> float:
        return float(np.mean(np.abs(np.round(x / width) * width - 3.0)))

    return _broken(value=value)


class _Points(Objective):
    """One minus the accuracy, or the F1, of a linear rule on 300 cases that start well inside of their sides."""

    dim = 5

    def __init__(self, metric: str) -> None:
        rng = np.random.default_rng(7)
        self.cases = rng.standard_normal((300, 5))
        self.truth = self.cases @ np.ones(5) + 0.5 * rng.standard_normal(300) > 0.0
        self.metric = metric

    def __len__(self) -> int:
        return 300

    def initial(self, rng: np.random.Generator) -> Vector:
        return np.array([1.0, 0.5, 0.0, 1.0, 0.2])

    def value(self, x: Vector, batch: Indices | slice) -> float:
        said, truth = self.cases[batch] @ x > 0.0, self.truth[batch]
        if self.metric == "accuracy":
            return 1.0 - float(np.mean(said == truth))
        return 1.0 - 2.0 * float(np.sum(said & truth)) / max(1.0, float(said.sum() + truth.sum()))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("metric", ["accuracy", "f1"])
@pytest.mark.parametrize("batch_size", [64, 0])
def test_a_staircase_gets_a_radius_where_most_slopes_move(metric: str, batch_size: int, seed: int) -> None:
    told = _findings(_Points(metric), seed=seed, batch_size=batch_size)["radius"]
    assert told.level == "warning"
    assert "F is a staircase" in told.text
    assert "begin elsewhere" not in told.text
    better = float(told.text.split("try radius = ")[1].split(",")[0])
    assert 1e-4 < better <= 1.0
    # It was tried: at that radius the check is content, and most slopes of a run are not 0.
    assert _findings(_Points(metric), seed=seed, batch_size=batch_size, radius=better)["radius"].level == "ok"
    objective, rng = _Points(metric), np.random.default_rng(seed)
    moving = 0
    for _ in range(200):
        batch = rng.integers(0, 300, batch_size) if batch_size else slice(None)
        high, low = objective.pair(objective.initial(rng), rng.standard_normal(5), better, batch)
        moving += high != low
    assert moving > 80


@pytest.mark.parametrize("metric", ["accuracy", "f1"])
@pytest.mark.parametrize("radius", [1e-4, 1.0])
def test_a_start_on_a_jump_is_no_noise(metric: str, radius: float, monkeypatch: pytest.MonkeyPatch) -> None:
    objective = _Points(metric)
    monkeypatch.setattr(_Points, "initial", Objective.initial)  # zeros, where every score is 0
    told = _findings(objective, radius=radius)["radius"]
    assert told.level == "warning"
    assert f"jumps at the starting point: it is the same at radius {radius:g} and at a thousandth of it" in told.text
    assert "begin beside the jump (initial)" in told.text


@pytest.mark.parametrize("width", [1e-3, 0.02, 10.0, 1e4])
def test_the_radius_follows_the_width_of_the_stairs(width: float) -> None:
    objective = _steps_of(width)
    text = _findings(objective, radius=1e-3 * width)["radius"].text
    better = float(text.split("try radius = ")[1].split(",")[0])
    assert 0.03 * width <= better <= 3.0 * width


def test_a_flat_function_is_told() -> None:
    text = _findings(_broken(value=lambda self, x, batch: 1.0))["radius"].text
    assert "F is flat around the starting point: 8 of 8 slopes at radius 0.0001 are exactly 0" in text
    assert text.endswith("and most are up to radius 1000; begin elsewhere (initial), or scale x")


def test_a_failure_at_a_larger_radius_ends_the_scan() -> None:
    def value(self: Any, x: Vector, batch: Indices | slice) -> float:
        if np.abs(x).max() > 0.5:
            raise RuntimeError("the valve is shut")
        return 1.0

    found = _findings(_broken(value=value))["radius"]
    assert found.level == "warning"
    assert "raised RuntimeError: the valve is shut" in found.text
    assert "begin elsewhere" in found.text


def test_every_metric_must_be_a_number() -> None:
    finding = _findings(_broken(evaluate=lambda self, x: {"loss": 1.0, "plant": "north"}))["whole"]
    assert (finding.level, finding.text) == (
        "error",
        "evaluate() must return a number for each name, got plant = 'north'",
    )


def test_evaluations_that_disturb_each_other_are_an_error() -> None:
    class Sharing(_Good):
        concurrency = 4
        both = threading.Barrier(2)

        def value(self, x: Vector, batch: Indices | slice) -> Any:
            self.x = x
            if threading.current_thread() is not threading.main_thread():
                self.both.wait(PATIENCE)  # until another evaluation has put its point here
            return super().value(self.x, batch)

    finding = _findings(Sharing())["concurrency"]
    assert finding.level == "error"
    assert "set concurrency = 1" in finding.text
    assert _findings(_broken(concurrency=4))["concurrency"].level == "ok"
    assert _findings(_broken(concurrency=0))["size"].text.startswith(
        "Broken: concurrency must be a whole number from 1"
    )


def test_scale_and_bounds_are_told_and_checked() -> None:
    good = _findings(_broken(scale=[1.0, 2.0, 30.0], bounds=[(None, 5), (0, 1), (None, None)]))
    assert {finding.level for finding in good.values()} == {"ok"}
    assert good["units"].text == "scale 1 to 30, 2 with bounds"
    bad = _findings(_broken(scale=[1.0, 0.0, 1.0]))
    assert list(bad) == ["size", "units"]
    assert "scale must be positive and finite, got 0.0 for parameter 1" in bad["units"].text


def test_an_objective_without_samples_passes() -> None:
    class Plain(Objective):
        dim = 2

        def value(self, x: Vector, batch: Indices | slice) -> float:
            return float(np.sum((x - 1.0) ** 2))

    assert _findings(Plain())["size"].text == "2 parameters, no samples: every evaluation is a whole one"
    assert _faults(Plain()) == {}
