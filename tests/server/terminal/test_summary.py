"""The end of a run in words: the metrics that there are, and no others."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from tests.helpers import black_box, small
from zofedht.server.inprocess import run_in_process
from zofedht.server.records.history import read_history
from zofedht.server.records.run_folder import RunFolder
from zofedht.server.terminal.summary import comparison_text, summary_text

SCORED = '''
class Scored(Valve):
    """Says more than its loss; its second metric cannot be said of the last x."""
    def evaluate(self, x):
        return super().evaluate(x) | {"macro_f1": 0.25 if len(self) else 0.0, "auc": float("nan")}
'''

BOXED = '''
class Boxed(Valve):
    """Falls towards a corner of its bounds; one parameter has none, and one is fixed."""
    bounds = [(-1.0, 1.0), (None, 0.5), (0.0, None), (None, None), (2.0, 2.0), (0.3, 0.4)]
    def value(self, x, batch):
        return float(x @ [5.0, -3.0, 4.0, 0.0, 1.0, 50.0] + 0.01 * np.sum(x**2))
'''


def finished(folder: RunFolder, **keys: object) -> str:
    config = small(**keys)
    folder.begin(config, "in-process")
    return summary_text(run_in_process(config, folder=folder).summary, folder)


def test_a_black_box_may_have_its_loss_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = black_box(tmp_path, monkeypatch)
    text = finished(RunFolder(tmp_path / "run"), objective=f"{module}:Valve")
    assert text.startswith("training loss ")
    assert "accuracy" not in text
    assert "test rows" not in text


def test_a_black_boxs_own_metrics_are_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = black_box(tmp_path, monkeypatch)
    path = tmp_path / f"{module}.py"
    path.write_text(path.read_text() + SCORED)
    folder = RunFolder(tmp_path / "run")
    lines = finished(folder, objective=f"{module}:Scored").splitlines()
    assert lines[1].split(maxsplit=1) == ["macro_f1", "0.25 as the mean of the clients"]
    assert lines[2].split(maxsplit=1) == ["auc", "nan as the mean of the clients"]
    assert summary_text(folder.summary(), folder).splitlines() == lines  # as `serve --resume` of a finished run
    kept = json.loads(folder.summary_file.read_text())["final_metrics"]
    assert kept == {"train_loss": folder.summary()["final_train_loss"], "train_macro_f1": 0.25, "train_auc": None}


def test_lost_slots_are_shown_with_reason_and_hint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = black_box(tmp_path, monkeypatch)
    keys: dict[str, object] = {
        "objective": f"{module}:Touchy",
        "init": "ones",
        "max_retries": 50,
        "step_schedule": "constant",
    }
    folder = RunFolder(tmp_path / "run")
    lines = finished(folder, **keys).splitlines()
    rows = read_history(folder.history_file)
    lost, replies = sum(len(row["failures"]) for row in rows), sum(row["replies"] for row in rows)
    at = next(index for index, line in enumerate(lines) if line.startswith("lost "))
    sticks = f"the objective raised RuntimeError: the valve sticks ({module}.py"
    assert lines[at].split(maxsplit=1)[1].startswith(f"{lost} of {lost + replies} slots; most often: {sticks}")
    assert "one failed evaluation costs its slot of 4 steps; with on-error=skip-step it costs its step" in lines[at + 1]
    assert summary_text(folder.summary(), folder).splitlines() == lines

    folder = RunFolder(tmp_path / "skipping")
    text = finished(folder, **keys, on_error="skip-step", local_steps=12)
    skipped = sum(line["steps"] for row in read_history(folder.history_file) for line in row["skipped"])
    assert f"lost            {skipped} of {12 * 3 * folder.summary()['rounds']} steps; most often: the obj" in text
    assert "on-error" not in text
    calm = finished(RunFolder(tmp_path / "calm"), objective=f"{module}:Valve")
    assert "lost  " not in calm
    assert "bounds  " not in calm


def test_a_resumed_run_counts_what_all_rounds_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = black_box(tmp_path, monkeypatch)
    keys: dict[str, object] = {
        "objective": f"{module}:Touchy",
        "init": "ones",
        "max_retries": 50,
        "step_schedule": "constant",
    }
    whole, parts = RunFolder(tmp_path / "whole"), RunFolder(tmp_path / "parts")
    finished(whole, **keys, rounds=6)
    finished(parts, **keys, rounds=3)
    half = parts.summary()["lost"]
    config, state, _ = parts.reopen({"rounds": 6})
    run_in_process(config, folder=parts, state=state)
    assert parts.summary()["lost"] == whole.summary()["lost"]
    assert half["slots"] < parts.summary()["lost"]["slots"]


def test_parameters_at_a_bound_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = black_box(tmp_path, monkeypatch)
    path = tmp_path / f"{module}.py"
    path.write_text(path.read_text() + BOXED)
    folder = RunFolder(tmp_path / "run")
    text = finished(folder, objective=f"{module}:Boxed", rounds=10, step_size=0.1, local_steps=50)
    np.testing.assert_array_equal(np.load(folder.vector_file)[[0, 1, 2, 4, 5]], [-1.0, 0.5, 0.0, 2.0, 0.3])
    assert folder.summary()["at_bounds"] == {"parameters": 4, "of": 5}
    assert "bounds          4 of 5 parameters are at a bound\n                if that is unexpected" in text
    some = summary_text(folder.summary() | {"at_bounds": {"parameters": 2, "of": 5}}, folder)
    assert "\nbounds          2 of 5 parameters are at a bound\nx " in some


@pytest.mark.parametrize(("step", "cure"), [(30.0, "a smaller step-size, or step-size=auto"), ("auto", "")])
def test_a_risen_loss_gets_a_hint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: object, cure: str) -> None:
    keys: dict[str, object] = {"model": "quadratic", "step_size": step, "rounds": 8, "local_steps": 5}
    folder = RunFolder(tmp_path / "run")
    text = finished(folder, **keys)
    assert ("it rose" in text) == bool(cure)
    assert cure in text
    summary = folder.summary() | {"last_train_loss": None}  # as NaN is kept
    assert "it rose to - in the end: " in summary_text(summary, folder)


def test_classifiers_have_an_accuracy(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "digits")
    lines = finished(folder).splitlines()
    assert lines[1].startswith("accuracy ")
    assert "on training rows, " in lines[1]
    assert lines[1].endswith("on test rows")
    assert "accuracy" not in finished(RunFolder(tmp_path / "quadratic"), model="quadratic")


def test_accuracy_is_a_column_if_any_run_has_it() -> None:
    row = {"final_train_loss": 0.5, "test_accuracy": None, "evaluations": 1200, "bytes_up": 1e6, "bytes_down": 5e5}
    plain = comparison_text(["zofedht"], [row]).splitlines()
    assert plain[1].split() == ["zofedht", "0.5", "1,200", "1.50"]
    assert "accuracy" not in plain[0]
    mixed = comparison_text(["a", "b"], [row, row | {"test_accuracy": 0.75, "final_train_loss": math.inf}]).splitlines()
    assert "test accuracy" in mixed[0]
    assert [line.split()[2] for line in mixed[1:]] == ["-", "0.75"]
    assert len({len(line) for line in mixed}) == 1
