"""Pictures of a study: 3 x 3 panels, loss against evaluations, mean and band over repeats."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from zofedht.common.errors import MissingExtraError
from zofedht.experiments.study.cells import Panel
from zofedht.experiments.study.results import Chosen, Study, curve
from zofedht.server.records.files import replace_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["COLOURS", "draw_panels", "new_figure", "save_figure"]

COLOURS = {"zofedht": "C3", "zofedavg-sgd": "C0", "zofedavg-gd": "C2"}
_COLUMNS = ("mnist", "fashion-mnist", "rcv1")
_DPI = 110
_COLOURS_OF_A_PICTURE = 128
_LINEAR_RANGE = 2.0  # losses that span more than this factor are drawn on a logarithmic axis


def new_figure(size: tuple[float, float]) -> Figure:
    """Return a bare Figure, which draws to files and never looks for a display.

    Raises MissingExtraError without matplotlib.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError("pictures need matplotlib; install it with `pip install 'zofedht[plots]'`") from error
    return Figure(figsize=size, layout="constrained")


def save_figure(figure: Figure, path: Path) -> None:
    """Write a figure in the format of the path's suffix; a png with few colours, for a third of the size."""
    picture = io.BytesIO()
    figure.savefig(picture, format=path.suffix.lstrip("."), dpi=_DPI)
    if path.suffix == ".png":
        from PIL import Image  # comes with matplotlib

        few = (
            Image.open(picture)
            .convert("RGB")
            .quantize(_COLOURS_OF_A_PICTURE, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
        )
        picture = io.BytesIO()
        few.save(picture, "png", optimize=True)
    replace_file(path, picture.getvalue())


def draw_panels(study: Study, panels: Sequence[Panel], title: str) -> Figure:
    """Draw one partition: models down, data sets across; a panel without finished cells says so.

    ``panels`` are those of one partition. Models of which the whole study has no finished cell get no row.
    """
    columns = _COLUMNS if any(panel.dataset in _COLUMNS for panel in panels) else ("digits",)
    other_svm = "svm-hinge" if study.preset.svm == "svm-squared-hinge" else "svm-squared-hinge"
    run = {panel.model for panel in study.panels()}
    rows = [model for model in ("logistic", study.preset.svm, other_svm, "mlp") if model in run]
    figure = new_figure((4.0 * len(columns), 3.0 * len(rows)))
    figure.suptitle(title)
    grid = figure.subplots(len(rows), len(columns), squeeze=False)
    for row, model in enumerate(rows):
        for column, dataset in enumerate(columns):
            axes = grid[row, column]
            found = [panel for panel in panels if (panel.dataset, panel.model) == (dataset, model)]
            axes.set_title(f"{dataset}, {model}", fontsize=10)
            if not found:
                axes.text(0.5, 0.5, "not run", ha="center", va="center", transform=axes.transAxes, color="0.5")
                axes.set(xticks=[], yticks=[])
                continue
            _draw_panel(axes, study.chosen(found[0]))
    return figure


def _draw_panel(axes: Axes, lines: Sequence[Chosen]) -> None:
    heights = []
    for chosen in lines:
        finite = [outcome for outcome in chosen.outcomes if np.isfinite(outcome.loss)]
        if not finite:
            continue
        evaluations, losses = curve(finite)
        mean, sd = losses.mean(axis=0), losses.std(axis=0, ddof=1 if len(losses) > 1 else 0)
        x = np.asarray(evaluations) / 1e6
        alpha = "" if chosen.alpha is None else f", alpha {chosen.alpha:g}"
        colour = COLOURS.get(chosen.algorithm, "C4")
        runs = f", {len(finite)} runs" if len(finite) > 1 else ", 1 run"
        label = f"{chosen.algorithm} (eta {chosen.eta:g}{alpha}{runs})"
        axes.plot(x, mean, color=colour, linewidth=1.2, label=label)
        axes.fill_between(x, mean - sd, mean + sd, color=colour, alpha=0.2, linewidth=0)
        heights.append(mean[len(mean) // 10 :])  # the first steps from far away would flatten the rest
    if heights:
        drawn = np.concatenate(heights)
        low, high = float(np.nanmin(drawn)), float(np.nanmax(drawn))
        axes.set_ylim(low - 0.05 * (high - low) - 1e-9, high + 0.05 * (high - low) + 1e-9)
        if low > 0.0 and high > _LINEAR_RANGE * low:
            axes.set_yscale("log")
            axes.yaxis.set_major_formatter("{x:g}")
            axes.yaxis.set_minor_formatter("{x:g}")
            axes.set_ylim(0.95 * low, 1.05 * high)
    axes.set_xlim(left=0)
    axes.set_xlabel("million evaluations", fontsize=8)
    axes.set_ylabel("training loss", fontsize=8)
    axes.tick_params(labelsize=8, which="both")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=7)
