"""``zofedht.plot`` and ``.plot()``: the numbers that are drawn are those of the runs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import zofedht
from tests.server.records.test_plots import finished
from zofedht import ConfigError, DataError, MissingExtraError, load_run, run
from zofedht.server.page.view import RunView

pyplot: Any = pytest.importorskip("matplotlib.pyplot")
SHORT: dict[str, Any] = {"x0": [3.0, 1.0], "rounds": 6, "seed": 1}


@pytest.fixture(autouse=True)
def _closed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    pyplot.switch_backend("agg")
    yield
    pyplot.close("all")


def bowl(x: Any) -> float:
    return float(x @ x)


def losses(axes: Any, line: int = 0) -> list[float]:
    curves = [one for one in axes.get_lines() if one.get_label().partition(",")[2].startswith(" ends at")]
    return [float(y) for y in curves[line].get_ydata()]


def test_a_result_draws_its_losses():
    result = run(bowl, **SHORT)
    axes = result.plot()
    assert losses(axes) == [row["train_loss"] for row in result.history]
    assert axes.get_xlabel() == "function evaluations"
    assert axes.get_title() == "bowl, 1 client, seed 1"
    assert (result.config["rounds"], result.config["objective"]) == (6, "bowl")


def test_a_folder_of_a_python_objective_is_named_after_it(tmp_path: Path):
    """No key of its config does: dataset and model have their defaults there."""
    run(bowl, out=tmp_path / "run", **SHORT)
    assert zofedht.plot(tmp_path / "run").get_title().startswith("bowl, 1 client, seed")
    view = RunView(tmp_path / "run")
    view.look()
    assert ("objective", "bowl", False) in view.config_keys()


def test_several_results_have_a_line_and_a_name_each():
    runs = {name: run(bowl, algorithm=name, **SHORT) for name in ("zofedht", "mezo")}
    axes = zofedht.plot(runs, against="rounds")
    labels = [text.get_text().partition(",")[0] for text in axes.get_legend().get_texts()]
    assert labels == ["zofedht", "mezo"]
    assert losses(axes, 1) == [row["train_loss"] for row in runs["mezo"].history]
    assert list(axes.get_lines()[0].get_xdata()) == [1, 2, 3, 4, 5, 6]
    unnamed = zofedht.plot(list(runs.values()))
    assert [text.get_text().partition(",")[0] for text in unnamed.get_legend().get_texts()] == ["run 1", "run 2"]


def test_folders_and_loaded_runs_are_the_same_curve(tmp_path: Path):
    folder = finished(tmp_path / "one")
    loaded = load_run(folder)
    drawn = [losses(axes) for axes in (zofedht.plot(folder), zofedht.plot([str(folder)]), loaded.plot())]
    assert drawn[0] == drawn[1] == drawn[2]
    assert drawn[0][1:] == [row["train_loss"] for row in loaded.history]
    assert "seed 11" in zofedht.plot(loaded).get_title()


def test_seeds_of_folders_are_a_band(tmp_path: Path):
    folders = [finished(tmp_path / f"a-seed{seed}", seed=seed) for seed in (1, 2, 3)]
    axes = zofedht.plot(folders)
    assert [text.get_text().partition(",")[0] for text in axes.get_legend().get_texts()] == ["a"]
    assert len(axes.collections) == 1


@pytest.mark.parametrize(("against", "label"), [("bytes", "bytes up and down, kB"), ("seconds", "seconds")])
def test_the_axis_is_chosen(tmp_path: Path, against: str, label: str):
    assert zofedht.plot(finished(tmp_path / "one"), against=against).get_xlabel() == label


def test_own_axes_are_drawn_on():
    _, own = pyplot.subplots()
    assert run(bowl, **SHORT).plot(ax=own) is own


def test_what_cannot_be_drawn_is_named(tmp_path: Path):
    result = run(bowl, **SHORT)
    with pytest.raises(ConfigError, match=r"against must be evaluations, bytes, seconds, rounds, got 'time'"):
        result.plot(against="time")
    with pytest.raises(ConfigError, match=r"runs must be one run or more, got none"):
        zofedht.plot([])
    with pytest.raises(ConfigError, match=r"a run must be the result of run or load_run, or a result folder, got int"):
        zofedht.plot([1])
    with pytest.raises(DataError, match=r"run 1 has no finished round with a loss to draw"):
        zofedht.plot([{"records": []}])


def test_without_matplotlib_a_sentence_says_so(monkeypatch: pytest.MonkeyPatch):
    result = run(bowl, **SHORT)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'zofedht\[plots\]'"):
        result.plot()
