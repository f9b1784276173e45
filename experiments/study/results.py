"""The cells in a study folder, and the choice of the tuned cell of each algorithm."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from zofedht.common.errors import DataError
from zofedht.common.machine.files import read_json
from zofedht.experiments.study.cell_run import HISTORY, read_result
from zofedht.experiments.study.cells import Cell, Panel
from zofedht.experiments.study.presets import PRESETS, Preset, Selection
from zofedht.server.records.history import read_history

__all__ = [
    "MANIFEST",
    "Chosen",
    "Outcome",
    "Point",
    "Study",
    "cell_of",
    "choose",
    "curve",
    "finished_cells",
    "lowest",
    "read_manifest",
    "read_study",
]

MANIFEST = "study.json"

_NAME = re.compile(
    r"(?P<dataset>digits|mnist|fashion-mnist|rcv1)-(?P<model>logistic|svm-hinge|svm-squared-hinge|mlp)-"
    r"(?P<partition>iid|sorted|sorted-binary|thirds|dirichlet)-(?P<algorithm>[a-z-]+)-"
    r"eta(?P<eta>[0-9.e+-]+)-alpha(?P<alpha>none|[0-9.e+-]+)-repeat(?P<repeat>[0-9]+)"
)


class Point(NamedTuple):
    """A full evaluation along a run; the loss is NaN where it was not finite."""

    evaluations: int
    loss: float


@dataclass(frozen=True)
class Outcome:
    """A finished cell. ``loss`` is the final training loss, inf where the run diverged."""

    cell: Cell
    loss: float
    result: Mapping[str, Any]  # what result.json says
    points: tuple[Point, ...] = ()  # from x_0 on
    traffic: tuple[float, float] | None = None  # bytes up and down a round


@dataclass(frozen=True)
class Chosen:
    """The tuned cell of one algorithm in one panel, with all its repeats in order."""

    algorithm: str
    eta: float
    alpha: float | None
    outcomes: tuple[Outcome, ...]

    @property
    def schedule(self) -> str:
        """The schedule of the step, the paper's where the cell does not say."""
        return str(self.outcomes[0].result["config"].get("step-schedule", "inverse-sqrt"))

    @property
    def losses(self) -> list[float]:
        return [outcome.loss for outcome in self.outcomes]

    @property
    def best(self) -> float:
        return min(self.losses)

    @property
    def mean(self) -> float:
        return float(np.mean(self.losses))

    @property
    def sd(self) -> float:
        """The standard deviation over repeats (n - 1), NaN for a single one."""
        return float(np.std(self.losses, ddof=1)) if len(self.losses) > 1 else math.nan

    def value(self, selection: Selection) -> float:
        """Return the number by which the preset compares cells."""
        return self.best if selection == "best" else self.mean


@dataclass(frozen=True)
class Study:
    """The finished cells of one preset and budget, of a folder or of lines."""

    name: str
    preset: Preset
    about: Mapping[str, Any]
    outcomes: tuple[Outcome, ...]

    def panels(self) -> list[Panel]:
        """Return the panels that have a finished cell."""
        return sorted({outcome.cell.panel for outcome in self.outcomes})

    def chosen(self, panel: Panel) -> list[Chosen]:
        """Return the tuned cell of each algorithm that has a finished one, in the order of their names."""
        here = [outcome for outcome in self.outcomes if outcome.cell.panel == panel]
        algorithms = sorted({outcome.cell.algorithm for outcome in here}, reverse=True)
        return [
            choose([outcome for outcome in here if outcome.cell.algorithm == name], self.preset.selection)
            for name in algorithms
        ]


def choose(outcomes: Iterable[Outcome], selection: Selection) -> Chosen:
    """Return the best candidate (eta_0, alpha) of one algorithm in one panel.

    Candidates are compared on the repeats that all of them have, by the least loss (``best``) or by the
    mean (``mean``): one that was repeated more often has no better chance. Ties go to the smaller eta_0.
    """
    candidates: dict[tuple[float, float | None], dict[int, Outcome]] = {}
    for outcome in outcomes:
        cell = outcome.cell
        candidates.setdefault((cell.eta, cell.alpha), {})[cell.repeat] = outcome
    common = set.intersection(*(set(repeats) for repeats in candidates.values()))

    def score(key: tuple[float, float | None]) -> tuple[float, float, float]:
        repeats = candidates[key]
        losses = [repeats[index].loss for index in sorted(common or repeats)]
        loss = min(losses) if selection == "best" else float(np.mean(losses))
        return loss, key[0], key[1] or 0.0

    eta, alpha = min(candidates, key=score)
    repeats = candidates[eta, alpha]
    ordered = tuple(repeats[index] for index in sorted(repeats))
    return Chosen(ordered[0].cell.algorithm, eta, alpha, ordered)


def curve(outcomes: Sequence[Outcome]) -> tuple[list[int], np.ndarray[Any, np.dtype[np.float64]]]:
    """Return evaluations (points,) and losses (repeats, points) of the repeats of one cell, from x_0 on.

    A loss that was not finite is NaN; where repeats are of different lengths the shortest decides.
    """
    points = min(len(outcome.points) for outcome in outcomes)
    evaluations = [point.evaluations for point in outcomes[-1].points[:points]]
    losses = [[point.loss for point in outcome.points[:points]] for outcome in outcomes]
    return evaluations, np.array(losses, dtype=np.float64)


def lowest(outcomes: Sequence[Outcome]) -> float:
    """Return the least training loss along the runs, at the points where all rows were evaluated; NaN for none."""
    losses = curve(outcomes)[1]
    return float(np.min(losses, where=np.isfinite(losses), initial=math.inf)) if losses.size else math.nan


def read_study(folder: Path) -> Study:
    """Return the study in a folder.

    Raises DataError when there is none, or no cell of it is finished.
    """
    about = read_manifest(folder)
    outcomes = finished_cells(folder)
    if not outcomes:
        command = f"python -m zofedht.experiments study --out {folder}"
        raise DataError(f"{folder} has no finished cell yet; run `{command}` first")
    return Study(folder.name, PRESETS[about["preset"]], about, outcomes)


def finished_cells(folder: Path) -> tuple[Outcome, ...]:
    """Return the finished cells in a study folder, in the order of their names."""
    return tuple(found for found in map(_outcome, sorted(folder.iterdir())) if found is not None)


def read_manifest(folder: Path) -> dict[str, Any]:
    """Return what a study says of itself. Raises DataError when the folder holds no study."""
    about = read_json(folder / MANIFEST)
    if about.get("preset") not in tuple(PRESETS):
        raise DataError(f"{folder} holds no study: {MANIFEST} must name a preset, got {about.get('preset')!r}")
    return about


def cell_of(name: str) -> Cell | None:
    """Return the cell of this name, None where it is no cell's name."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    alpha = None if match["alpha"] == "none" else float(match["alpha"])
    panel = Panel(match["dataset"], match["model"], match["partition"])
    return Cell(panel, match["algorithm"], float(match["eta"]), alpha, int(match["repeat"]))


def _outcome(folder: Path) -> Outcome | None:
    cell = cell_of(folder.name)
    result = read_result(folder) if cell and folder.is_dir() else None
    if cell is None or result is None:
        return None
    rows = [row for row in read_history(folder / HISTORY) if row["train_loss_source"] == "full"]
    initial = result["initial_train_loss"]
    points = [Point(0, _number(initial)), *(Point(int(row["evaluations"]), _number(row["train_loss"])) for row in rows)]
    rounds = rows[-1]["round"] + 1 if rows else 0
    traffic = (rows[-1]["bytes_up"] / rounds, rows[-1]["bytes_down"] / rounds) if rows else None
    loss = result["final_train_loss"]
    return Outcome(cell, math.inf if loss is None else float(loss), result, tuple(points), traffic)


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)
