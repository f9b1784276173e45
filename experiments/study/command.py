"""The study command: it runs all cells of a grid once, then repeats the tuned cells. A killed study continues."""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from zofedht.common.errors import DataError
from zofedht.experiments.study.cells import Cell, Grid, cell_config
from zofedht.experiments.study.pool import Job, run_missing
from zofedht.experiments.study.results import MANIFEST, read_manifest, read_study
from zofedht.server.records.files import make_folder, replace_file

__all__ = ["run_study"]


def run_study(grid: Grid, out: Path, *, workers: int, repeat_all: bool) -> None:
    """Run what is not finished yet. Without ``repeat_all`` only the tuned cell of an algorithm is repeated.

    Raises ZofedhtError.
    """
    _claim(grid, out)
    panels = grid.panels()
    first = [cell for panel in panels for cell in grid.cells(panel, 0)]
    more = [(panel, repeat) for panel in panels for repeat in range(1, grid.repeats)]
    if repeat_all:
        later = [cell for panel, repeat in more for cell in grid.cells(panel, repeat)]
        _run("grid", grid, [*first, *later], out, workers)
        return
    _run("tuning", grid, first, out, workers)
    study = read_study(out)
    tuned = {panel: study.chosen(panel) for panel in panels}
    later = [
        Cell(panel, chosen.algorithm, chosen.eta, chosen.alpha, repeat)
        for panel, repeat in more
        for chosen in tuned[panel]
        if chosen.algorithm in grid.algorithms
    ]
    _run("repeats", grid, later, out, workers)


def _run(title: str, grid: Grid, cells: Sequence[Cell], out: Path, workers: int) -> None:
    run_missing(title, [Job(cell.name, cell_config(grid, cell), out / cell.name) for cell in cells], workers)


def _claim(grid: Grid, out: Path) -> None:
    """Make the folder and its manifest, or check that it is a study of the same preset and budget."""
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


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.machine()
