"""The page of the family study: losses, excesses, what a run sends and takes, and a picture of each panel."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from zofedht.common.machine.files import make_folder, replace_file
from zofedht.common.shards import train_objective
from zofedht.experiments.family.grid import FamilyGrid
from zofedht.experiments.family.optimum import least_loss
from zofedht.experiments.family.runs import Tuned, tuned
from zofedht.experiments.report.markdown import table
from zofedht.experiments.report.pictures import new_figure, save_figure
from zofedht.experiments.study.cells import Panel
from zofedht.experiments.study.presets import COMMON
from zofedht.server.records.plots import STYLES, Curve, draw_losses

__all__ = ["write_family"]

_AGAINST = ("evaluations", "bytes", "seconds")


def write_family(grid: FamilyGrid, out: Path) -> Path:
    """Write ``family.md`` and a picture of each panel from the finished runs in ``out``; return the page's path.

    Raises DataError where a run's files are damaged, and MissingExtraError without matplotlib.
    """
    losses, excesses, costs, pictures = [], [], [], []
    make_folder(out)
    for panel in grid.panels():
        cells = tuned(grid, panel, out)
        found = [cell for cell in cells if cell is not None]
        if not found:
            continue
        losses.append([panel.title, *("-" if cell is None else cell.shown for cell in cells)])
        costs.append([panel.title, *("-" if cell is None else _costs(cell) for cell in cells)])
        least = least_loss(train_objective(grid.config(panel, found[0].method, found[0].step, 0)))
        if least is not None:
            shown = ["-" if cell is None else f"{cell.loss - least:.4f}" for cell in cells]
            excesses.append([panel.title, f"{least:.4f}", *shown])
        if drawn := [list(cell.curves) for cell in found if cell.curves]:
            picture = f"{panel.title.replace(' ', '-')}.png"
            _draw(drawn, panel, out / picture)
            pictures.append(f"![{panel.title}]({picture})")
    about = (
        f"{grid.epochs} evaluations a training row, {COMMON['num-clients']} clients, {COMMON['clients-per-round']} a"
        f" round; the best step of seed 0, mean and standard deviation over {grid.seeds} seeds."
        f" Python {platform.python_version()}, NumPy {np.__version__}."
    )
    parts = [about, "### Final training loss", table(["panel", *grid.methods], losses)]
    if excesses:
        parts += ["### Excess over the least loss", table(["panel", "least", *grid.methods], excesses)]
    parts += ["### Bytes up and down, and processor time", table(["panel", *grid.methods], costs)]
    parts += ["### Loss against evaluations, bytes and seconds", *pictures]
    path = out / "family.md"
    replace_file(path, ("\n\n".join(part.strip() for part in parts) + "\n").encode())
    return path


def _costs(cell: Tuned) -> str:
    sent = [curve.along(1e6, "bytes_up", "bytes_down")[-1] for curve in cell.curves]
    return f"{np.mean(sent):.3g} MB, {cell.seconds:.3g} s" if sent else f"diverged, {cell.seconds:.3g} s"


def _draw(methods: Sequence[Sequence[Curve]], panel: Panel, path: Path) -> None:
    """Draw a row of axes for each few methods: loss against evaluations, and in logarithms against bytes and seconds.

    A line is the median over seeds, in a band from the lowest to the highest loss.
    """
    rows = [methods[first : first + len(STYLES)] for first in range(0, len(methods), len(STYLES))]
    figure = new_figure((15.0, 5.6 * len(rows)))
    figure.suptitle(panel.title)
    for row, axes in zip(rows, figure.subplots(len(rows), len(_AGAINST), squeeze=False, sharey=True), strict=True):
        curves = [curve for method in row for curve in method]
        for against, each in zip(_AGAINST, axes, strict=True):
            draw_losses(each, curves, against)
            if against != "evaluations":  # rows differ by factors of ten and more
                each.set_xscale("log")
                each.autoscale(axis="x")
        axes[0].set_ylabel("training loss")
        named = axes[0].get_legend_handles_labels()
        axes[1].legend(*named, ncols=2, fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.12))
    save_figure(figure, path)
