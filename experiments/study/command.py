"""The study command: it runs all cells of a grid once, then repeats the tuned cells. A killed study continues."""

from __future__ import annotations

import json
import math
import os
import platform
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from zofedht.common.errors import DataError
from zofedht.common.machine.files import make_folder, replace_file
from zofedht.experiments.study.cell_lines import add_lines, known_cells
from zofedht.experiments.study.cell_run import Job
from zofedht.experiments.study.cells import SETTINGS, Cell, Grid, Panel, cell_config
from zofedht.experiments.study.cluster import Cluster
from zofedht.experiments.study.pool import run_missing
from zofedht.experiments.study.results import MANIFEST, Chosen, Outcome, Study, finished_cells, read_manifest

__all__ = ["run_study"]


def run_study(
    grid: Grid,
    out: Path,
    *,
    workers: int | Cluster,
    repeat_all: bool,
    cells: Path | None = None,
    minutes: float = math.inf,
) -> int:
    """Run what is not finished yet, and return how many cells are left.

    Without ``repeat_all`` only the tuned cell of an algorithm is repeated. Cells that are lines in the folder ``cells``
    are finished, and what finishes becomes lines there. After ``minutes`` no other cell begins.

    Raises ZofedhtError.
    """
    about = _claim(grid, out)
    known = {outcome.cell.name: outcome for outcome in known_cells(cells, about)} if cells else {}
    parts = _Parts(grid, out, workers, known, time.monotonic() + 60.0 * minutes)
    try:
        return _run_parts(parts, repeat_all)
    finally:
        if cells and (finished := finished_cells(out)):
            add_lines(Study(out.name, grid.preset, about, finished), cells)


@dataclass(frozen=True)
class _Parts:
    """A study that runs in parts."""

    grid: Grid
    out: Path
    workers: int | Cluster
    known: Mapping[str, Outcome]  # by name, the cells that are lines
    deadline: float

    def run(self, title: str, cells: Sequence[Cell]) -> int:
        """Run the cells that are not finished, and return how many are left."""
        jobs = []
        for cell in cells:
            config = cell_config(self.grid, cell)
            if cell.name not in self.known:
                jobs.append(Job(cell.name, config, self.out / cell.name))
                continue
            wanted, found = config.to_mapping(), self.known[cell.name].result["config"]
            if different := [key for key in SETTINGS if key in found and found[key] != wanted[key]]:
                raise DataError(
                    f"the lines have {cell.name} with another {', '.join(different)}; remove that line to run it again"
                )
        return run_missing(title, jobs, self.workers, self.deadline)

    def chosen(self, panel: Panel) -> list[Chosen]:
        """Return the tuned cell of each algorithm, among what is finished."""
        outcomes = {**{outcome.cell.name: outcome for outcome in finished_cells(self.out)}, **self.known}
        return Study(self.out.name, self.grid.preset, {}, tuple(outcomes.values())).chosen(panel)


def _run_parts(parts: _Parts, repeat_all: bool) -> int:
    grid, panels = parts.grid, parts.grid.panels()
    first = [cell for panel in panels for cell in grid.cells(panel, 0)]
    more = [(panel, repeat) for panel in panels for repeat in range(1, grid.repeats)]
    if repeat_all:
        return parts.run("grid", [*first, *(cell for panel, repeat in more for cell in grid.cells(panel, repeat))])
    left = parts.run("tuning", first)
    if left:  # what the tuned cells are is not known yet
        return left + len(more) * len(grid.algorithms)
    tuned = {panel: parts.chosen(panel) for panel in panels}
    later = [
        Cell(panel, chosen.algorithm, chosen.eta, chosen.alpha, repeat)
        for panel, repeat in more
        for chosen in tuned[panel]
        if chosen.algorithm in grid.algorithms
    ]
    return parts.run("repeats", later)


def _claim(grid: Grid, out: Path) -> dict[str, Any]:
    """Make the folder and its manifest, or check that it is a study of the preset and budget; return it."""
    settings = {
        "preset": grid.preset.name,
        "rounds": grid.rounds,
        "budget": grid.budget,
        "train_rows": grid.train_rows,
        "epochs": grid.epochs,
    }
    path = out / MANIFEST
    if path.exists():
        about = read_manifest(out)
        different = [key for key, value in settings.items() if about.get(key) != value]
        if different:
            raise DataError(
                f"{out} holds a study with another {', '.join(different)}"
                f" ({', '.join(f'{key} {about.get(key)}' for key in different)}); choose another --out"
            )
    else:
        make_folder(out)
        about = {**settings, "commands": []}
    command = " ".join(["python -m zofedht.experiments", *sys.argv[1:]])
    if command not in about["commands"]:
        about["commands"].append(command)
    about["machine"] = (
        f"{os.cpu_count()} cores, {_processor()}, Python {platform.python_version()}, NumPy {np.__version__}"
    )
    replace_file(path, (json.dumps(about, indent=1) + "\n").encode())
    return about


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.machine()
