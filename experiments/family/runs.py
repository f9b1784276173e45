"""Runs of the family study: every method on every panel at every step size, then its best step with more seeds."""

from __future__ import annotations

import math
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev

import numpy as np

from zofedht.common.algorithms import ALGORITHMS
from zofedht.common.config.run_config import RunConfig, dashed
from zofedht.common.machine.files import make_folder, replace_file
from zofedht.common.shards import train_objective
from zofedht.experiments.family.methods import METHODS, STEPS, Method
from zofedht.experiments.family.optimum import least_loss
from zofedht.experiments.report.markdown import table
from zofedht.experiments.study.cell_run import Job, read_result
from zofedht.experiments.study.cells import Panel, label
from zofedht.experiments.study.cluster import Cluster
from zofedht.experiments.study.pool import run_missing
from zofedht.experiments.study.presets import COMMON, EPOCHS, PRESETS, TRAIN_ROWS

__all__ = ["FamilyGrid", "run_family", "write_family"]

_OURS = ("local-steps", "slope", "step-schedule")
"""Keys that the paper's studies fix and a method may bring."""


@dataclass(frozen=True)
class FamilyGrid:
    """What is to be compared."""

    datasets: Sequence[str]
    models: Sequence[str]
    partitions: Sequence[str]
    methods: Sequence[str]
    seeds: int = 3
    epochs: int = EPOCHS  # evaluations for each training row
    data_dir: str = ""
    etas: Sequence[float] = ()  # step sizes to try, in the place of the model's own

    def panels(self) -> list[Panel]:
        """Return the panels, in an order in which neighbours share their data set."""
        return [Panel(d, m, p) for d in self.datasets for p in self.partitions for m in self.models]

    def steps(self, panel: Panel, method: Method) -> tuple[float, ...]:
        """Return the step sizes among which a method is tuned."""
        return tuple(method.scale * step for step in self.etas or STEPS[panel.model])

    def config(self, panel: Panel, method: Method, step: float, seed: int) -> RunConfig:
        """Return the checked run config of one run."""
        rows = TRAIN_ROWS[panel.dataset]
        brought = {dashed(name) for name in ALGORITHMS[str(method.keys["algorithm"])].defaults}
        keys = {key: value for key, value in COMMON.items() if key not in brought.union(_OURS)}
        keys |= {
            "dataset": panel.dataset,
            "data-dir": self.data_dir,
            "train-rows": 0 if panel.dataset in ("digits", "rcv1") else rows,
            "model": panel.model,
            "partition": panel.partition,
            "dirichlet-alpha": 0.1,
            "init": "ones" if panel.model == "svm-squared-hinge" else "auto",
            "sampling": PRESETS["authors"].sampling,
            "budget": self.epochs * rows,
            "step-size": step,
            "evaluate-every": 0,
            "seed": seed,
        }
        return RunConfig.from_mapping(keys | dict(method.keys))


@dataclass(frozen=True)
class _Tuned:
    """How a method ended at its best step: by the loss of the first seed."""

    step: float
    losses: tuple[float, ...]

    @property
    def loss(self) -> float:
        return fmean(self.losses)

    @property
    def shown(self) -> str:
        spread = f" ({stdev(self.losses):.4f})" if len(self.losses) > 1 else ""
        return f"{self.loss:.4f}{spread} at {self.step:g}"


def run_family(grid: FamilyGrid, out: Path, *, workers: int | Cluster) -> Path:
    """Run what is not finished yet and write ``family.md``; return its path. A killed study continues.

    Raises ZofedhtError.
    """
    make_folder(out)
    cells = [
        (panel, METHODS[name], step, 0)
        for panel in grid.panels()
        for name in grid.methods
        for step in grid.steps(panel, METHODS[name])
    ]
    run_missing("steps", [_job(grid, cell, out) for cell in cells], workers)
    best = [
        (panel, METHODS[name], _best_step(grid, panel, METHODS[name], out), seed)
        for panel in grid.panels()
        for name in grid.methods
        for seed in range(1, grid.seeds)
    ]
    run_missing("seeds", [_job(grid, cell, out) for cell in best], workers)
    return write_family(grid, out)


def write_family(grid: FamilyGrid, out: Path) -> Path:
    """Write ``family.md`` from the finished runs in ``out``: losses, and excesses over the least loss."""
    losses, excesses = [], []
    for panel in grid.panels():
        found = [_tuned(grid, panel, METHODS[name], out) for name in grid.methods]
        if not any(found):
            continue
        losses.append([panel.title, *("-" if tuned is None else tuned.shown for tuned in found)])
        config = grid.config(panel, METHODS[grid.methods[0]], 1.0, 0)
        least = least_loss(train_objective(config)) if panel.model != "mlp" else None
        if least is not None:
            shown = ["-" if tuned is None else f"{tuned.loss - least:.4f}" for tuned in found]
            excesses.append([panel.title, f"{least:.4f}", *shown])
    about = (
        f"{grid.epochs} evaluations a training row, {COMMON['num-clients']} clients, {COMMON['clients-per-round']} a"
        f" round; the best step of seed 0, mean and standard deviation over {grid.seeds} seeds."
        f" Python {platform.python_version()}, NumPy {np.__version__}."
    )
    parts = [about, "### Final training loss", table(["panel", *grid.methods], losses)]
    if excesses:
        parts += ["### Excess over the least loss", table(["panel", "least", *grid.methods], excesses)]
    path = out / "family.md"
    replace_file(path, ("\n\n".join(part.strip() for part in parts) + "\n").encode())
    return path


_Cell = tuple[Panel, Method, float, int]


def _name(cell: _Cell) -> str:
    panel, method, step, seed = cell
    return f"{panel.dataset}-{panel.model}-{panel.partition}-{method.folder}-eta{label(step)}-repeat{seed}"


def _job(grid: FamilyGrid, cell: _Cell, out: Path) -> Job:
    return Job(_name(cell), grid.config(*cell), out / _name(cell))


def _loss(cell: _Cell, out: Path) -> float | None:
    found = read_result(out / _name(cell))
    if found is None:
        return None
    loss = found["final_train_loss"]
    return math.inf if loss is None else float(loss)


def _best_step(grid: FamilyGrid, panel: Panel, method: Method, out: Path) -> float:
    losses = {step: _loss((panel, method, step, 0), out) for step in grid.steps(panel, method)}
    known = {step: loss for step, loss in losses.items() if loss is not None}
    return min(known, key=lambda step: known[step], default=math.nan)


def _tuned(grid: FamilyGrid, panel: Panel, method: Method, out: Path) -> _Tuned | None:
    step = _best_step(grid, panel, method, out)
    if math.isnan(step):
        return None
    losses = [_loss((panel, method, step, seed), out) for seed in range(grid.seeds)]
    return _Tuned(step, tuple(loss for loss in losses if loss is not None))
