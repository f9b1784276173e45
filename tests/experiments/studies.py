"""Study folders written by hand, with known histories."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from zofedht.experiments.study.cells import Cell, Panel
from zofedht.experiments.study.results import Outcome

DIGITS = Panel("digits", "logistic", "iid")


def begin(folder: Path, preset: str = "authors") -> Path:
    """Write the manifest of an empty study."""
    folder.mkdir(parents=True, exist_ok=True)
    about = {"preset": preset, "rounds": 5, "budget": 0, "train_rows": 0, "commands": ["made by hand"], "machine": "-"}
    (folder / "study.json").write_text(json.dumps(about))
    return folder


def add(folder: Path, cell: Cell, losses: Sequence[float | None], **changes: Any) -> None:
    """Write a finished cell whose training loss went from .7 through ``losses``, 100 evaluations a round."""
    place = folder / cell.name
    place.mkdir()
    rows = [
        {
            "round": index,
            "evaluations": 100 * (index + 1),
            "train_loss": loss,
            "train_loss_source": "full",
            "bytes_up": 10 * (index + 1),
            "bytes_down": (40 if cell.alpha else 10) * (index + 1),
        }
        for index, loss in enumerate(losses)
    ]
    (place / "history.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    result = {
        "final_train_loss": losses[-1],
        "initial_train_loss": 0.7,
        "test_accuracy": 0.9,
        "failed": "",
        "rounds": len(losses),
        "evaluations": 100 * len(losses),
        "seconds": 1.0,
        "cpu_seconds": 1.1 if cell.alpha else 1.0,
        "kernel": "numpy",
        "config": {},
    }
    (place / "result.json").write_text(json.dumps(result | changes))


def cell(algorithm: str, eta: float, repeat: int = 0, alpha: float | None = None, panel: Panel = DIGITS) -> Cell:
    """Return a cell; zofedht gets alpha .3 unless it is told another."""
    return Cell(panel, algorithm, eta, 0.3 if algorithm == "zofedht" and alpha is None else alpha, repeat)


def outcome(eta: float, repeat: int, loss: float, algorithm: str = "zofedavg-sgd") -> Outcome:
    """Return a finished cell that has no folder."""
    return Outcome(cell(algorithm, eta, repeat), loss, Path("nowhere"), {})
