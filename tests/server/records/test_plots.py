"""Pictures come from history files, need no display, and say what is missing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

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
    ((name, rows, initial),) = drawn
    assert name == "run"
    assert {row["train_loss_source"] for row in rows} == sources
    assert initial == json.loads((folder / "run.json").read_text())["initial"]["train_loss"]


def test_folders_of_one_name_show_their_parents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    drawn = []
    folders = [finished(tmp_path / parent / "run") for parent in ("a", "b")]
    monkeypatch.setattr(plots, "_draw", lambda figure, lines: drawn.extend(lines))
    plot_runs(folders, tmp_path / "loss.png")
    assert [line[0] for line in drawn] == ["a/run", "b/run"]


def test_without_matplotlib_the_error_names_the_extra(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'zofedht\[plots\]'"):
        plot_runs([folder], tmp_path / "loss.png")
    assert "no picture: plots need matplotlib" in RunFolder(folder).draw()
