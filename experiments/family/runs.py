"""Runs of the family study: every method on every panel at every step size, then its best step with more seeds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from zofedht.common.machine.files import make_folder
from zofedht.experiments.family.grid import Cell, FamilyGrid
from zofedht.experiments.family.methods import METHODS, Method
from zofedht.experiments.study.cell_run import HISTORY, read_result
from zofedht.experiments.study.cells import Panel
from zofedht.experiments.study.cluster import Cluster
from zofedht.experiments.study.pool import run_missing
from zofedht.server.records.history import read_history
from zofedht.server.records.plots import Curve

__all__ = ["Tuned", "run_family", "tuned"]


@dataclass(frozen=True)
class Tuned:
    """How a method ended at its best step, which is that of the first seed."""

    method: Method
    step: float
    losses: tuple[float, ...]
    curves: tuple[Curve, ...]  # of the seeds whose losses are all finite
    megabytes: float  # up and down, in the mean
    seconds: float  # of processor time, in the mean

    @property
    def loss(self) -> float:
        return fmean(self.losses)

    @property
    def shown(self) -> str:
        if diverged := sum(math.isinf(loss) for loss in self.losses):
            return f"diverged in {diverged} of {len(self.losses)} runs at {self.step:g}"
        spread = f" ({stdev(self.losses):.4f})" if len(self.losses) > 1 else ""
        return f"{self.loss:.4f}{spread} at {self.step:g}"


def run_family(grid: FamilyGrid, out: Path, *, workers: int | Cluster) -> None:
    """Run what is not finished yet. A killed study continues. Raises ZofedhtError."""
    make_folder(out)
    methods = [METHODS[name] for name in grid.methods]
    tried = [
        Cell(panel, method, step, 0)
        for panel in grid.panels()
        for method in methods
        for step in grid.steps(panel, method)
    ]
    run_missing("steps", [cell.job(grid, out) for cell in tried], workers)
    best = [
        Cell(panel, method, _best_step(grid, panel, method, out), seed)
        for panel in grid.panels()
        for method in methods
        for seed in range(1, grid.seeds)
    ]
    run_missing("seeds", [cell.job(grid, out) for cell in best], workers)


def tuned(grid: FamilyGrid, panel: Panel, out: Path) -> list[Tuned]:
    """Return the methods of a panel that have a finished run, in their order. Raises DataError."""
    found = [_tuned(grid, panel, METHODS[name], out) for name in grid.methods]
    return [each for each in found if each is not None]


def _loss(found: dict[str, Any]) -> float:
    loss = found["final_train_loss"]
    return math.inf if loss is None else float(loss)


def _best_step(grid: FamilyGrid, panel: Panel, method: Method, out: Path) -> float:
    found = {step: read_result(out / Cell(panel, method, step, 0).name) for step in grid.steps(panel, method)}
    known = {step: _loss(result) for step, result in found.items() if result is not None}
    return min(known, key=lambda step: known[step], default=math.nan)


def _tuned(grid: FamilyGrid, panel: Panel, method: Method, out: Path) -> Tuned | None:
    step = _best_step(grid, panel, method, out)
    if math.isnan(step):
        return None
    losses, curves, megabytes, seconds = [], [], [], []
    for seed in range(grid.seeds):
        folder = out / Cell(panel, method, step, seed).name
        result = read_result(folder)
        if result is None:
            continue
        losses.append(_loss(result))
        seconds.append(float(result["cpu_seconds"]))
        curve = Curve(method.name, read_history(folder / HISTORY), result["initial_train_loss"], result["config"])
        megabytes.append(curve.along(1e6, "bytes_up", "bytes_down")[-1] if curve.rows else 0.0)
        if all(loss is not None and math.isfinite(loss) for loss in [losses[-1], *curve.losses]):
            curves.append(curve)
    return Tuned(method, step, tuple(losses), tuple(curves), fmean(megabytes), fmean(seconds))
