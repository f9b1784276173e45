"""auto against a grid: which runs it is made of, and what its tables say of known losses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from zofedht.experiments.__main__ import main
from zofedht.experiments.auto.tables import AutoResult, page, step_rows, weight_rows
from zofedht.experiments.study.cells import Panel

PANEL = Panel("digits", "logistic", "iid")


def result(algorithm: str, step: float | str, weight: float | str, loss: float, seed: int = 0) -> AutoResult:
    return AutoResult(PANEL, algorithm, step, weight, seed, loss, {})


def losses(auto_step: float, auto_weight: float) -> list[AutoResult]:
    return [
        result("zofedavg-sgd", 1.0, 0.0, 0.42),
        result("zofedavg-sgd", 3.0, 0.0, 0.40),
        result("zofedavg-sgd", "auto", 0.0, auto_step),
        result("zofedht", "auto", 0.3, 0.50),
        result("zofedht", "auto", "auto", auto_weight),
    ]


@pytest.mark.parametrize(("loss", "excess", "verdict"), [(0.43, "+7.5%", "yes"), (0.45, "+12.5%", "**no**")])
def test_the_step_is_judged_by_the_grid(loss: float, excess: str, verdict: str) -> None:
    (row,) = step_rows(losses(loss, 0.4))
    assert row[1:] == ["0.4000", "3", f"{loss:.4f}", excess, verdict, excess]


@pytest.mark.parametrize(("loss", "excess", "verdict"), [(0.404, "+1.0%", "yes"), (0.42, "+5.0%", "**no**")])
def test_the_weight_is_judged_by_the_better_of_both(loss: float, excess: str, verdict: str) -> None:
    (row,) = weight_rows(losses(0.4, loss))
    assert row[1:] == ["0.4000", "0.5000", f"{loss:.4f}", excess, verdict]


def test_panels_that_lack_a_run_are_left_out() -> None:
    """The others are means over seeds."""
    more = [*losses(0.40, 0.4), result("zofedavg-sgd", "auto", 0.0, 0.42, seed=1)]
    assert step_rows(more)[0][3] == "0.4100"
    assert weight_rows(more[:3]) == []
    assert page(more, "Made by hand.").startswith("Made by hand.")


def test_it_runs_writes_its_page_and_does_nothing_twice(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    words = ["auto", "--quick", "--rounds", "2", "--partition", "iid", "--out", str(tmp_path)]
    assert main(words) == 0
    text = (tmp_path / "auto.md").read_text()
    assert text.count("digits logistic iid") == 2
    results = [json.loads(path.read_text()) for path in tmp_path.glob("*/result.json")]
    grid = {each["evaluations"] for each in results if each["config"]["step-size"] != "auto"}
    assert {each["config"]["budget"] for each in results} - {0} == grid  # what auto measures is charged
    made = {path: path.stat().st_mtime_ns for path in tmp_path.glob("*/result.json")}
    assert len(made) == 9 + 3
    assert main(words) == 0
    assert {path: path.stat().st_mtime_ns for path in tmp_path.glob("*/result.json")} == made
    assert capfd.readouterr().out.count("auto.md") == 2
