"""The family study: equal evaluations for all methods, each at its best step, excesses over the least loss."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.common.samples import model
from zofedht.common.algorithms import ALGORITHMS
from zofedht.experiments.__main__ import main
from zofedht.experiments.family.methods import COMPARED, METHODS, STEPS
from zofedht.experiments.family.optimum import least_loss
from zofedht.experiments.family.runs import FamilyGrid
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
    assert text.count("digits logistic sorted") == 2
    made = {path: path.stat().st_mtime_ns for path in tmp_path.glob("*/result.json")}
    assert len(made) == len(COMPARED) * (len(STEPS["logistic"]) + 1)
    assert main([*words, "--out", str(tmp_path)]) == 0
    assert {path: path.stat().st_mtime_ns for path in tmp_path.glob("*/result.json")} == made
    losses, excesses = (line.split(" | ")[1:] for line in text.splitlines() if "digits logistic sorted" in line)
    by_name = dict(zip(COMPARED, [float(cell.split()[0]) for cell in losses], strict=True))
    assert by_name["zofed-shrink"] == min(by_name.values())
    least, *above = [float(cell.split()[0]) for cell in excesses]
    np.testing.assert_allclose([least + excess for excess in above], list(by_name.values()), atol=2e-4)


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
