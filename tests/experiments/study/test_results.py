"""Which cell is chosen, and what a study folder says."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from tests.experiments.studies import DIGITS, add, begin, cell, outcome
from zofedht.common.errors import DataError
from zofedht.experiments.study.results import choose, curve, lowest, read_study

LUCKY = [outcome(1.0, 0, 0.30), outcome(1.0, 1, 0.50), outcome(1.0, 2, 0.49)]
STEADY = [outcome(0.1, 0, 0.40), outcome(0.1, 1, 0.41), outcome(0.1, 2, 0.39)]


def test_best_takes_the_candidate_with_the_luckiest_repeat():
    chosen = choose(LUCKY + STEADY, "best")
    assert chosen.eta == 1.0
    assert chosen.best == chosen.value("best") == 0.30


def test_mean_takes_the_candidate_that_is_good_on_average():
    chosen = choose(LUCKY + STEADY, "mean")
    assert chosen.eta == 0.1
    assert chosen.value("mean") == pytest.approx(0.40)
    assert chosen.sd == pytest.approx(0.01)  # n - 1
    assert chosen.losses == [0.40, 0.41, 0.39]


@pytest.mark.parametrize("selection", ["best", "mean"])
def test_more_repeats_are_no_better_chance(selection: str):
    """Only repeat 0 is common: .35 beats .40 there, whatever later repeats of the other gave."""
    chosen = choose([*STEADY, outcome(0.1, 3, 0.01), outcome(1.0, 0, 0.35)], selection)  # type: ignore[arg-type]
    assert chosen.eta == 1.0


def test_a_diverged_repeat_rules_out_the_mean():
    """It does not rule a candidate out of the best."""
    diverged = [outcome(1.0, 0, 0.30), outcome(1.0, 1, math.inf), outcome(1.0, 2, 0.30)]
    assert choose(diverged + STEADY, "mean").eta == 0.1
    assert choose(diverged + STEADY, "best").eta == 1.0


def test_one_repeat_has_no_sd():
    assert math.isnan(choose([outcome(1.0, 0, 0.3)], "best").sd)


def test_unfinished_cells_are_left_out(tmp_path: Path):
    folder = begin(tmp_path / "s")
    add(folder, cell("zofedht", 1.0, 0), [0.5, 0.4])
    add(folder, cell("zofedht", 1.0, 1), [0.5, 0.3])
    add(folder, cell("zofedavg-sgd", 10.0), [0.6, None])
    (folder / cell("zofedavg-gd", 1.0).name).mkdir()  # begun and killed
    study = read_study(folder)
    assert study.panels() == [DIGITS]
    ht, sgd = study.chosen(DIGITS)
    assert (ht.algorithm, ht.alpha, ht.losses) == ("zofedht", 0.3, [0.4, 0.3])
    assert (sgd.algorithm, sgd.best) == ("zofedavg-sgd", math.inf)


def test_a_curve_ends_with_the_shortest_repeat(tmp_path: Path):
    """It starts at the starting point."""
    folder = begin(tmp_path / "s")
    add(folder, cell("zofedht", 1.0, 0), [0.5, 0.4, 0.3])
    add(folder, cell("zofedht", 1.0, 1), [0.6, None])
    evaluations, losses = curve(read_study(folder).outcomes)
    assert evaluations == [0, 359_500, 719_000]
    np.testing.assert_array_equal(losses, [[0.7, 0.5, 0.4], [0.7, 0.6, np.nan]])


def test_the_lowest_loss_is_of_all_repeats(tmp_path: Path):
    """What diverged does not count."""
    folder = begin(tmp_path / "s")
    add(folder, cell("zofedht", 1.0, 0), [0.5, 0.35, 0.6])
    add(folder, cell("zofedht", 1.0, 1), [0.3, None, None])
    assert lowest(read_study(folder).outcomes) == 0.3


def test_names_of_cells_are_read_back_for_every_number(tmp_path: Path):
    folder = begin(tmp_path / "s")
    cells = [cell("zofedht", eta, 2, alpha) for eta in (0.03, 1e-5, 30.0) for alpha in (0.05, 0.9)]
    for one in cells:
        add(folder, one, [0.5])
    assert {found.cell for found in read_study(folder).outcomes} == set(cells)


@pytest.mark.parametrize("wrong", ["missing", "broken", "empty", "bad result"])
def test_what_is_no_study_is_named(tmp_path: Path, wrong: str):
    folder = begin(tmp_path / "s")
    if wrong == "missing":
        (folder / "study.json").unlink()
    elif wrong == "broken":
        (folder / "study.json").write_text("[]")
    elif wrong == "bad result":
        add(folder, cell("zofedht", 1.0), [0.5])
        (folder / cell("zofedht", 1.0).name / "result.json").write_text("{")
    with pytest.raises(DataError, match="s"):
        read_study(folder)
