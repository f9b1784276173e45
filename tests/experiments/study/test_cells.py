"""The grid, and the config of each cell."""

from __future__ import annotations

from dataclasses import replace

import pytest

from zofedht.experiments.study.cells import Cell, Grid, Panel, cell_config
from zofedht.experiments.study.presets import ALPHAS, ETAS, PRESETS, QUICK

ALGORITHMS = ("zofedht", "zofedavg-sgd", "zofedavg-gd")
DATASETS = ("mnist", "fashion-mnist", "rcv1")


def grid(preset: str = "authors", **changes: object) -> Grid:
    whole = Grid(PRESETS[preset], DATASETS, ("logistic", "svm", "mlp"), ("iid", "non-iid"), ALGORITHMS, ETAS, ALPHAS, 3)
    return replace(whole, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("preset", PRESETS)
def test_the_whole_grid_is_the_18_panels(preset: str):
    panels = grid(preset).panels()
    assert len(panels) == len(set(panels)) == 18
    # zofedht is tuned over eta_0 x alpha, the others over eta_0
    assert len(grid(preset).cells(panels[0], 0)) == 3 * 5 + 3 + 3


def test_names_are_unique_and_say_everything():
    whole = grid()
    names = [cell.name for panel in whole.panels() for repeat in range(3) for cell in whole.cells(panel, repeat)]
    assert len(names) == len(set(names)) == 18 * 3 * 21
    assert "rcv1-svm-squared-hinge-thirds-zofedht-eta0.1-alpha0.3-repeat2" in names
    assert "mnist-mlp-iid-zofedavg-gd-eta10-alphanone-repeat0" in names


def test_the_preset_follows_the_papers_words():
    assert Panel("mnist", "svm-squared-hinge", "thirds") in grid("authors").panels()
    assert Panel("mnist", "svm-hinge", "sorted") in grid("paper").panels()


def test_presets_differ_only_by_their_named_options():
    cell = Cell(Panel("mnist", "svm-squared-hinge", "iid"), "zofedht", 1.0, 0.3, 1)
    paper, authors = (cell_config(grid(name), cell).to_mapping() for name in ("paper", "authors"))
    assert {key: (paper[key], authors[key]) for key in paper if paper[key] != authors[key]} == {
        "covariance": ("paper", "trace"),
        "sampling": ("with-replacement", "without-replacement"),
        "init": ("zeros", "ones"),
    }
    rcv1 = Cell(Panel("rcv1", "logistic", "iid"), "zofedht", 1.0, 0.3, 0)
    assert [cell_config(grid(name), rcv1).batch_size for name in ("paper", "authors")] == [64, 1000]


def test_every_algorithm_has_500_evaluations_a_row():
    panel = Panel("mnist", "logistic", "iid")
    for algorithm, alpha in (("zofedht", 0.1), ("zofedavg-sgd", None), ("zofedavg-gd", None)):
        config = cell_config(grid(), Cell(panel, algorithm, 1.0, alpha, 0))
        assert config.budget == 500 * 48_000
        assert config.train_rows == 48_000


def test_rounds_are_counted_in_minibatch_rounds():
    config = cell_config(grid(rounds=225), Cell(Panel("mnist", "logistic", "iid"), "zofedavg-gd", 1.0, None, 0))
    assert config.budget == 225 * 64_000  # 30 rounds of GD
    assert config.evaluate_every == 1


def test_repeats_differ_in_the_seed_alone():
    panel = Panel("mnist", "mlp", "thirds")
    first, second = (cell_config(grid(), Cell(panel, "zofedavg-sgd", 1.0, None, repeat)) for repeat in (0, 1))
    assert first.replace(seed=1) == second


def test_the_quick_part_is_a_share_of_every_budget():
    for panel, rows in ((Panel("mnist", "logistic", "iid"), 48_000), (Panel("rcv1", "logistic", "iid"), 20_242)):
        config = cell_config(grid(epochs=QUICK.epochs), Cell(panel, "zofedavg-sgd", 1.0, None, 0))
        assert config.budget == QUICK.epochs * rows
