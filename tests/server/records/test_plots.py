"""Pictures come from history files, need no display, and say what is missing."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import quadratics, small
from zofedht.common.errors import DataError, MissingExtraError
from zofedht.server.inprocess import run_in_process
from zofedht.server.records import plots
from zofedht.server.records.plots import plot_runs
from zofedht.server.records.run_folder import RunFolder

pytest.importorskip("matplotlib")

ROOT = Path(__file__).resolve().parents[3]
PNG = b"\x89PNG\r\n"


def finished(path: Path, **changes: object) -> Path:
    folder, config = RunFolder(path), small(**changes)
    folder.begin(config, "in-process")
    run_in_process(config, quadratics(), folder=folder)
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return finished(tmp_path / "run")


def test_a_picture_needs_no_display(folder: Path):
    """In a fresh process that has none, and a backend that would ask for one."""
    script = (
        "from pathlib import Path; from zofedht.server.records import plots; "
        f"plots.plot_runs([Path('{folder}')], Path('p.png'))"
    )
    environment = {"PATH": "", "MPLBACKEND": "TkAgg", "MPLCONFIGDIR": str(folder), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert (folder / "p.png").read_bytes().startswith(PNG)


@pytest.mark.parametrize(("suffix", "start"), [("png", PNG), ("pdf", b"%PDF"), ("svg", b"<?xml")])
def test_the_suffix_decides_the_format(folder: Path, tmp_path: Path, suffix: str, start: bytes):
    out = tmp_path / "new" / f"loss.{suffix}"
    plot_runs([folder], out)
    assert out.read_bytes().startswith(start)
    assert list(out.parent.iterdir()) == [out]


@pytest.mark.parametrize("name", ["loss.bmpx", "loss", "loss.txt"])
def test_another_suffix_is_refused_with_all_formats(folder: Path, tmp_path: Path, name: str):
    with pytest.raises(DataError, match=rf"must end in a picture format \(.*pdf, .*png.*\), got .*{name}"):
        plot_runs([folder], tmp_path / name)


def test_a_folder_without_history_is_named(folder: Path, tmp_path: Path):
    with pytest.raises(DataError, match=r"no history can be read from .*elsewhere"):
        plot_runs([folder, tmp_path / "elsewhere"], tmp_path / "loss.png")
    assert not (tmp_path / "loss.png").exists()


def test_a_history_without_rows_is_named(folder: Path, tmp_path: Path):
    (folder / "history.jsonl").write_text("")
    with pytest.raises(DataError, match=r"run has no finished round with a loss to draw"):
        plot_runs([folder], tmp_path / "loss.png")


def test_an_unreadable_run_json_is_named(folder: Path, tmp_path: Path):
    (folder / "run.json").write_text("{")
    with pytest.raises(DataError, match=r"run\.json cannot be read"):
        plot_runs([folder], tmp_path / "loss.png")


def test_an_unwritable_picture_is_a_data_error(folder: Path):
    with pytest.raises(DataError, match="cannot be written"):
        plot_runs([folder], folder / "config.toml" / "loss.png")


@pytest.mark.parametrize("losses", [[0.0] * 7, [1e9, 1e3, 1.0, 1e-3, 0.0, 0.0, 0.0], [1e9] + [1e-9] * 6])
def test_losses_of_any_size_and_zeros_can_be_drawn(folder: Path, tmp_path: Path, losses: list[float]):
    lines = (folder / "history.jsonl").read_text().splitlines()
    rows = [json.loads(line) | {"train_loss": loss} for line, loss in zip(lines, losses, strict=True)]
    (folder / "history.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "run.json").write_text('{"initial": {"train_loss": 0.0}}')
    plot_runs([folder], tmp_path / "loss.png")


def test_rounds_without_a_finite_loss_are_left_out(folder: Path, tmp_path: Path):
    lines = (folder / "history.jsonl").read_text().splitlines()
    lines[3] = json.dumps(json.loads(lines[3]) | {"train_loss": None})
    (folder / "history.jsonl").write_text("\n".join(lines) + "\n")
    plot_runs([folder], tmp_path / "loss.png")


@pytest.mark.parametrize(
    ("evaluate_every", "sources"), [(2, {"full"}), (0, {"probes", "full"})], ids=["full ones alone", "probes instead"]
)
def test_full_evaluations_are_drawn_if_there_are_two(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, evaluate_every: int, sources: set[str]
):
    drawn = []
    folder = finished(tmp_path / "run", evaluate_every=evaluate_every)
    monkeypatch.setattr(plots, "_draw", lambda figure, lines: drawn.extend(lines))
    plot_runs([folder], tmp_path / "loss.png")
    (curve,) = drawn
    assert curve.name == "run"
    assert {row["train_loss_source"] for row in curve.rows} == sources
    assert curve.initial == json.loads((folder / "run.json").read_text())["initial"]["train_loss"]


def test_folders_of_one_name_show_their_parents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    drawn = []
    folders = [finished(tmp_path / parent / "run") for parent in ("a", "b")]
    monkeypatch.setattr(plots, "_draw", lambda figure, lines: drawn.extend(lines))
    plot_runs(folders, tmp_path / "loss.png")
    assert [curve.name for curve in drawn] == ["a/run", "b/run"]


def test_without_matplotlib_the_error_names_the_extra(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'zofedht\[plots\]'"):
        plot_runs([folder], tmp_path / "loss.png")
    assert "no picture: plots need matplotlib" in RunFolder(folder).draw()


def figure_of(folders: list[Path], monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the figure that was drawn."""
    kept: list[Any] = []
    real = plots._draw
    monkeypatch.setattr(plots, "_draw", lambda figure, curves: (real(figure, curves), kept.append(figure)))
    plot_runs(folders, folders[0] / "loss.png")
    return kept[0]


def test_the_title_says_problem_clients_and_seed(folder: Path, monkeypatch: pytest.MonkeyPatch):
    title = figure_of([folder], monkeypatch).get_suptitle()
    assert "4 clients" in title
    assert title.endswith("seed 1") or "seed" in title


def test_runs_of_different_problems_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folders = [finished(tmp_path / name, model=name) for name in ("logistic", "svm-hinge")]
    assert figure_of(folders, monkeypatch).get_suptitle().startswith("These runs solve different problems")


def test_seeds_are_one_line_in_a_band(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folders = [finished(tmp_path / f"run{seed}", seed=seed) for seed in (1, 2, 3)]
    axes = figure_of(folders, monkeypatch).axes[0]
    losses = [
        [json.loads(line)["train_loss"] for line in (folder / "history.jsonl").read_text().splitlines()]
        for folder in folders
    ]
    drawn = [line for line in axes.lines if len(line.get_xdata()) > 1]
    assert len(drawn) == 1
    assert list(drawn[0].get_ydata()[1:]) == [statistics.median(column) for column in zip(*losses, strict=True)]
    assert len(axes.collections) == 1


def test_a_high_beginning_does_not_hide_what_follows(folder: Path, monkeypatch: pytest.MonkeyPatch):
    rows = [json.loads(line) for line in (folder / "history.jsonl").read_text().splitlines()]
    losses = [0.5, 0.4, 0.35, 0.32, 0.31, 0.305, 0.3]
    changed = [row | {"train_loss": loss} for row, loss in zip(rows, losses, strict=True)]
    (folder / "history.jsonl").write_text("".join(json.dumps(row) + "\n" for row in changed))
    (folder / "run.json").write_text('{"initial": {"train_loss": 36.5}}')
    axes = figure_of([folder], monkeypatch).axes[0]
    low, high = axes.get_ylim()
    assert low < 0.3
    assert 0.5 < high < 0.6
    assert any("begins at 36.5" in text.get_text() for text in axes.texts)
