"""The page of the family study: losses, excesses, what a run sends and takes, and a picture of each panel."""

from __future__ import annotations

import math
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
    make_folder(out)
    parts = [
        f"{grid.epochs} evaluations a training row, {COMMON['num-clients']} clients, {COMMON['clients-per-round']} a"
        f" round; the best step of seed 0, mean and standard deviation over {grid.seeds} seeds. Bytes are those up and"
        f" down. Python {platform.python_version()}, NumPy {np.__version__}."
    ]
    for panel in grid.panels():
        if found := tuned(grid, panel, out):
            parts += [f"### {panel.title}", *_panel(grid, panel, found, out)]
    path = out / "family.md"
    replace_file(path, ("\n\n".join(part.strip() for part in parts) + "\n").encode())
    return path


def _panel(grid: FamilyGrid, panel: Panel, found: Sequence[Tuned], out: Path) -> list[str]:
    """Return the parts of the page for one panel, and draw its picture."""
    least = None
    if panel.model != "mlp":  # whose least loss nobody knows, so its rows need not be read
        least = least_loss(train_objective(grid.config(panel, found[0].method, found[0].step, 0)))
    rows = []
    for cell in found:
        excess = [] if least is None else [f"{cell.loss - least:.4f}"]
        rows.append([cell.method.name, cell.shown, *excess, f"{cell.megabytes:.3g}", f"{cell.seconds:.3g}"])
    above = [] if least is None else [f"above {least:.4f}, the least"]
    parts = [table(["method", "final training loss", *above, "MB", "seconds of CPU"], rows)]
    if drawn := [cell.curves for cell in found if cell.curves]:
        picture = f"{panel.title.replace(' ', '-')}.png"
        _draw(drawn, panel, out / picture)
        parts.append(f"![{panel.title}]({picture})")
    return parts


def _draw(methods: Sequence[Sequence[Curve]], panel: Panel, path: Path) -> None:
    """Draw a row of axes for each few methods: loss against evaluations, and in logarithms against bytes and seconds.

    A line is the median over seeds, in a band from the lowest to the highest loss.
    """
    figure = new_figure((15.0, 5.6 * math.ceil(len(methods) / len(STYLES))))  # tells what is missing
    from matplotlib.ticker import LogLocator, NullFormatter

    rows = [methods[first : first + len(STYLES)] for first in range(0, len(methods), len(STYLES))]
    figure.suptitle(panel.title)
    for row, axes in zip(rows, figure.subplots(len(rows), len(_AGAINST), squeeze=False, sharey="row"), strict=True):
        curves = [curve for method in row for curve in method]
        for against, each in zip(_AGAINST, axes, strict=True):
            draw_losses(each, curves, against)
            if against != "evaluations":  # rows differ by factors of ten and more
                each.set_xscale("log")
                each.autoscale(axis="x")
                each.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
                each.xaxis.set_major_formatter("{x:g}")
                each.xaxis.set_minor_formatter(NullFormatter())
        axes[0].set_ylabel("training loss")
        named = axes[0].get_legend_handles_labels()
        axes[1].legend(*named, fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.12))
    save_figure(figure, path)
