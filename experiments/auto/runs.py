"""Runs that judge ``auto``: panels with step sizes from a grid, with step-size auto and with subspace-weight auto."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from zofedht.common.algorithms import ALGORITHMS
from zofedht.common.choices import AUTO
from zofedht.common.config.derived_keys import START_WEIGHT
from zofedht.common.config.run_config import RunConfig
from zofedht.common.machine.files import make_folder, replace_file
from zofedht.experiments.auto.tables import AutoResult, page
from zofedht.experiments.study.cell_run import Job, read_result
from zofedht.experiments.study.cells import Cell, Grid, Panel, cell_config, label
from zofedht.experiments.study.cluster import Cluster
from zofedht.experiments.study.pool import run_missing
from zofedht.experiments.study.presets import PRESETS
from zofedht.server.auto import count_interventions

__all__ = ["STEPS", "AutoGrid", "run_auto"]

_MIDDLE = {"logistic": 4.0, "svm-squared-hinge": 0.4, "svm-hinge": 1.0, "mlp": 0.4}
STEPS = {model: tuple(middle * 2.0**power for power in range(-4, 5)) for model, middle in _MIDDLE.items()}
"""The grid of step sizes that auto is compared with, by model."""

_ISOTROPIC, _TRAJECTORY = "zofedavg-sgd", "zofedht"


@dataclass(frozen=True)
class AutoGrid:
    """What is to be compared."""

    datasets: Sequence[str]
    models: Sequence[str]
    partitions: Sequence[str]
    rounds: int
    seeds: int = 1
    train_rows: int = 0
    data_dir: str = ""

    def panels(self) -> list[Panel]:
        """Return the panels, in an order in which neighbours share their data set."""
        return [Panel(d, m, p) for d in self.datasets for p in self.partitions for m in self.models]


def run_auto(grid: AutoGrid, out: Path, *, workers: int | Cluster) -> Path:
    """Run what is not finished yet and write ``auto.md``; return its path.

    Raises ZofedhtError.
    """
    make_folder(out)
    cells = [
        (panel, algorithm, step, weight, seed)
        for panel in grid.panels()
        for seed in range(grid.seeds)
        for algorithm, step, weight in _variants(panel.model)
    ]
    run_missing("auto", [Job(_name(*cell), _config(grid, *cell), out / _name(*cell)) for cell in cells], workers)
    return write_page(grid, out)


def write_page(grid: AutoGrid, out: Path) -> Path:
    """Write ``auto.md`` from the finished runs in ``out``; panels without a finished run are left out."""
    results = []
    for panel in grid.panels():
        for seed in range(grid.seeds):
            for variant in _variants(panel.model):
                found = _result(panel, *variant, seed, out)
                if found is not None:
                    results.append(found)
    versions = f"Python {platform.python_version()}, NumPy {np.__version__}"
    about = f"{grid.rounds} rounds, seeds 0 to {grid.seeds - 1}; {versions}."
    path = out / "auto.md"
    replace_file(path, page(results, about).encode())
    return path


def _variants(model: str) -> list[tuple[str, float | str, float | str]]:
    """The (algorithm, step, weight) of a panel."""
    steps: tuple[float | str, ...] = (*STEPS[model], AUTO)
    weights: tuple[float | str, ...] = (START_WEIGHT, AUTO)
    return [*((_ISOTROPIC, step, 0.0) for step in steps), *((_TRAJECTORY, AUTO, weight) for weight in weights)]


def _shown(value: float | str) -> str:
    return value if isinstance(value, str) else label(value)


def _name(panel: Panel, algorithm: str, step: float | str, weight: float | str, seed: int) -> str:
    alpha = _shown(weight) if ALGORITHMS[algorithm].follows_trajectory else "none"
    place = f"{panel.dataset}-{panel.model}-{panel.partition}"
    return f"{place}-{algorithm}-eta{_shown(step)}-alpha{alpha}-repeat{seed}"


def _config(
    grid: AutoGrid, panel: Panel, algorithm: str, step: float | str, weight: float | str, seed: int
) -> RunConfig:
    follows = ALGORITHMS[algorithm].follows_trajectory
    study = Grid(
        PRESETS["authors"], [panel.dataset], [panel.model], [panel.partition], [algorithm], [1.0], [START_WEIGHT],
        1, rounds=grid.rounds, train_rows=grid.train_rows, data_dir=grid.data_dir,
    )  # fmt: skip
    config = cell_config(study, Cell(panel, algorithm, 1.0, START_WEIGHT if follows else None, seed))
    if panel.model == "mlp":
        config = config.replace(init="auto")  # the paper's start, zero, is a saddle
    if follows:
        config = config.replace(subspace_weight=weight)
    if step != AUTO:
        return config.replace(step_size=step, step_schedule="linear")
    # What auto measures is charged: it has as many evaluations as the grid, not as many rounds.
    slot = config.step_spec(step_size=1.0).evaluations(config.batch_size)
    budget = grid.rounds * config.clients_per_round * slot
    return config.replace(step_size=AUTO, step_schedule="linear", rounds=0, budget=budget)


def _result(
    panel: Panel, algorithm: str, step: float | str, weight: float | str, seed: int, out: Path
) -> AutoResult | None:
    found = read_result(out / _name(panel, algorithm, step, weight, seed))
    if found is None:
        return None
    loss = found["final_train_loss"]
    counts = count_interventions([found])
    return AutoResult(panel, algorithm, step, weight, seed, float("inf") if loss is None else float(loss), counts)
