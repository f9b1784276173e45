"""The family study: equal evaluations for all methods, each at its best step, excesses over the least loss."""

from __future__ import annotations

import json
import math
import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from tests.common.samples import model
from zofedht.common.algorithms import ALGORITHMS
from zofedht.experiments.__main__ import main
from zofedht.experiments.family.grid import FamilyGrid
from zofedht.experiments.family.methods import COMPARED, METHODS, STEPS
from zofedht.experiments.family.optimum import least_loss
from zofedht.experiments.family.runs import Tuned
from zofedht.experiments.study.cells import Panel


@pytest.mark.parametrize("name", ["logistic", "svm-squared-hinge"])
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_no_point_near_the_least_loss_is_lower(name: str, kind: str) -> None:
    objective = model(name, kind, l2=0.1)
    least = least_loss(objective)
    assert least is not None
    rng = np.random.default_rng(0)
    x = objective.zeros()
    for _ in range(2000):  # a random descent finds the same loss and never a lower one
        trial = x + 0.1 * rng.standard_normal(objective.dim)
        x = trial if objective.value(trial, slice(None)) < objective.value(x, slice(None)) else x
    found = objective.value(x, slice(None))
    assert least - 1e-12 <= found < least + 1e-2


@pytest.mark.parametrize("name", ["svm-hinge", "mlp", "quadratic"])
def test_other_objectives_have_no_least_loss(name: str) -> None:
    assert least_loss(model(name)) is None


def test_all_methods_get_the_same_evaluations_and_draws() -> None:
    grid = FamilyGrid(["digits"], ["logistic"], ["iid"], COMPARED)
    configs = [grid.config(Panel("digits", "logistic", "iid"), METHODS[name], 1.0, 2) for name in COMPARED]
    assert {(config.budget, config.seed, config.clients_per_round, config.sampling) for config in configs} == {
        (500 * 1438, 2, 10, "without-replacement")
    }
    slots = {config.step_spec(step_size=1.0).evaluations(1438) for config in configs}
    assert len(slots) == 1
    assert {config.step_schedule for config in configs} == {"linear", "inverse-sqrt"}


def test_it_writes_its_page_and_does_nothing_twice(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    words = ["family", "--dataset", "digits", "--model", "logistic", "--partition", "sorted", "--seeds", "2"]
    assert main([*words, "--out", str(tmp_path)]) == 0
    text = (tmp_path / "family.md").read_text()
    made = {path: path.stat().st_mtime_ns for path in tmp_path.glob("*/result.json")}
    assert len(made) == len(COMPARED) * (len(STEPS["logistic"]) + 1)
    assert main([*words, "--out", str(tmp_path)]) == 0
    assert {path: path.stat().st_mtime_ns for path in tmp_path.glob("*/result.json")} == made
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    head, *lines = [row for row in rows if row[0] != "---"]
    least = float(re.search(r"[\d.]+", head[2])[0])
    losses = {name: float(loss.split()[0]) for name, loss, *_ in lines}
    assert list(losses) == list(COMPARED)
    assert losses["zofed-shrink"] == min(losses.values())
    np.testing.assert_allclose([least + float(row[2]) for row in lines], list(losses.values()), atol=2e-4)
    assert all(float(megabytes) > 0.0 and float(seconds) > 0.0 for *_, megabytes, seconds in lines)
    assert "![digits logistic sorted](digits-logistic-sorted.png)" in text
    assert (tmp_path / "digits-logistic-sorted.png").read_bytes().startswith(b"\x89PNG")


def test_every_row_can_be_compared() -> None:
    grid = FamilyGrid(["digits"], ["logistic"], ["iid"], COMPARED)
    panel = Panel("digits", "logistic", "iid")
    rows = [name for name, row in ALGORITHMS.items() if not row.asks_points]
    assert set(rows) <= set(METHODS)
    for name in rows:
        config = grid.config(panel, METHODS[name], grid.steps(panel, METHODS[name])[0], 0)
        assert (config.algorithm, config.budget) == (name, 500 * 1438)
        assert {key: getattr(config, key) for key in config.row.defaults if key != "sampling"}.items() <= {
            **config.row.defaults
        }.items()


def test_other_step_sizes_take_the_place_of_the_four(tmp_path: Path) -> None:
    panel = ["--dataset", "digits", "--model", "logistic", "--partition", "iid"]
    words = ["family", *panel, "--epochs", "20", "--etas", "2", "4", "--seeds", "1"]
    assert main([*words, "--methods", "zofedavg-sgd", "fedavg", "--out", str(tmp_path)]) == 0
    made = sorted(path.parent.name.split("-eta")[1] for path in tmp_path.glob("*/result.json"))
    assert made == ["2-repeat0", "20-repeat0", "4-repeat0", "40-repeat0"]


def test_rows_whose_server_scales_the_step_are_tuned_by_its_rate() -> None:
    grid = FamilyGrid(["digits"], ["logistic"], ["iid"], ["fedadam"])
    panel, method = grid.panels()[0], METHODS["fedadam"]
    configs = [grid.config(panel, method, step, 0) for step in grid.steps(panel, method)]
    assert [config.server_rate for config in configs] == pytest.approx([0.03, 0.1, 0.3, 1.0])
    assert {config.step_size for config in configs} == {1.0}


def test_a_curve_has_twenty_points_and_more_where_a_run_has_so_many_rounds(tmp_path: Path) -> None:
    panel = ["--dataset", "digits", "--model", "logistic", "--partition", "iid", "--epochs", "100"]
    assert main(["family", *panel, "--etas", "1", "--seeds", "1", "--methods", "spsa", "--out", str(tmp_path)]) == 0
    [history] = tmp_path.glob("*/history.jsonl")
    points = [json.loads(line) for line in history.read_text().splitlines()]
    assert 20 <= len(points) <= 50
    assert all(first["bytes_up"] < then["bytes_up"] for first, then in pairwise(points))


def test_a_run_that_diverged_is_told_and_no_mean_of_it() -> None:
    shown = [Tuned(METHODS["mezo"], 3.0, losses, (), 1.0, 1.0).shown for losses in ((0.5, math.inf), (0.5, 0.7))]
    assert shown == ["diverged in 1 of 2 runs at 3", "0.6000 (0.1414) at 3"]
