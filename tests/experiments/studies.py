"""Study folders written by hand, with known histories."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from zofedht.experiments.study.cells import Cell, Panel, full_budget
from zofedht.experiments.study.presets import ALPHAS, ETAS
from zofedht.experiments.study.results import Outcome

DIGITS = Panel("digits", "logistic", "iid")


def begin(folder: Path, preset: str = "authors") -> Path:
    """Write the manifest of an empty study."""
    folder.mkdir(parents=True, exist_ok=True)
    about = {"preset": preset, "rounds": 5, "budget": 0, "train_rows": 0, "commands": ["made by hand"], "machine": "-"}
    (folder / "study.json").write_text(json.dumps(about))
    return folder


def add(folder: Path, cell: Cell, losses: Sequence[float | None], *, share: float = 1.0, **changes: Any) -> None:
    """Write a finished cell whose training loss went from .7 through ``losses``, over a share of the whole budget."""
    place = folder / cell.name
    place.mkdir()
    budget = round(share * full_budget(cell.panel.dataset))
    rows = [
        {
            "round": index,
            "evaluations": budget * (index + 1) // len(losses),
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
        "evaluations": budget,
        "seconds": 1.0,
        "cpu_seconds": 1.1 if cell.alpha else 1.0,
        "kernel": "numpy",
        "config": {"budget": budget, "num-clients": 100, "clients-per-round": 10, "seed": cell.repeat}
        | changes.pop("config", {}),
    }
    (place / "result.json").write_text(json.dumps(result | changes))


def tuned(
    folder: Path,
    algorithm: str,
    ends: Sequence[float],
    panel: Panel = DIGITS,
    *,
    share: float = 1.0,
    early: float = 0.5,
    **changes: Any,
) -> None:
    """Write the paper's whole grid: eta_0 = 1 and alpha .3 end at ``ends``, a number a repeat, the others at .69."""
    for eta in ETAS:
        for alpha in ALPHAS if algorithm == "zofedht" else (None,):
            best = eta == 1.0 and alpha in (None, 0.3)
            for repeat, end in enumerate(ends if best else (0.69,)):
                add(folder, cell(algorithm, eta, repeat, alpha, panel), [early, *[end] * 9], share=share, **changes)


def cell(algorithm: str, eta: float, repeat: int = 0, alpha: float | None = None, panel: Panel = DIGITS) -> Cell:
    """Return a cell; zofedht gets alpha .3 unless it is told another."""
    return Cell(panel, algorithm, eta, 0.3 if algorithm == "zofedht" and alpha is None else alpha, repeat)


def outcome(eta: float, repeat: int, loss: float, algorithm: str = "zofedavg-sgd") -> Outcome:
    """Return a finished cell that has no folder."""
    return Outcome(cell(algorithm, eta, repeat), loss, {})
