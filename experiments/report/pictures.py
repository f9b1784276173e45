"""Pictures of a study: the paper's figures of 3 x 3 panels, mean and band over repeats."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from zofedht.common.errors import MissingExtraError
from zofedht.experiments.study.cells import Panel, full_budget
from zofedht.experiments.study.published import PUBLISHED
from zofedht.experiments.study.results import Chosen, Study, curve
from zofedht.server.records.files import replace_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["COLOURS", "draw_figure", "new_figure", "save_figure"]

COLOURS = {"zofedht": "C3", "zofedavg-sgd": "C0", "zofedavg-gd": "C2", "zofed-shrink": "C1"}
_ROWS = ("mnist", "fashion-mnist", "rcv1")
_MODELS = {"logistic": "LR", "svm-hinge": "SVM (hinge)", "svm-squared-hinge": "SVM (squared hinge)", "mlp": "MLP"}
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


def draw_figure(study: Study, partition: str, title: str) -> Figure:
    """Draw one partition as the paper does: a row a data set, a column a model, loss against evaluations.

    A panel without finished cells says so. The other kind of SVM gets a column where the study has it. A diamond at the
    end of the budget is the loss that the authors published.
    """
    run = [panel for panel in study.panels() if panel.partition == partition]
    rows = _ROWS if not run or any(panel.dataset in _ROWS for panel in run) else ("digits",)
    other_svm = "svm-hinge" if study.preset.svm == "svm-squared-hinge" else "svm-squared-hinge"
    columns = ["logistic", study.preset.svm, "mlp"]
    if any(panel.model == other_svm for panel in run):
        columns.insert(2, other_svm)
    figure = new_figure((4.0 * len(columns), 3.0 * len(rows)))
    figure.suptitle(title)
    grid = figure.subplots(len(rows), len(columns), squeeze=False)
    for row, dataset in enumerate(rows):
        for column, model in enumerate(columns):
            axes, panel = grid[row, column], Panel(dataset, model, partition)
            axes.set_title(f"{_MODELS[model]}, {dataset}", fontsize=10)
            if panel not in run:
                axes.text(0.5, 0.5, "not run", ha="center", va="center", transform=axes.transAxes, color="0.5")
                if panel not in PUBLISHED:
                    axes.set(xticks=[], yticks=[])
            if panel in run or panel in PUBLISHED:
                _draw_panel(axes, study.chosen(panel), PUBLISHED.get(panel, {}), full_budget(dataset) / 1e6)
    return figure


def _draw_panel(axes: Axes, lines: Sequence[Chosen], published: Mapping[str, float], budget: float) -> None:
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
        linear = ", linear" if chosen.schedule == "linear" else ""
        label = f"{chosen.algorithm} (eta {chosen.eta:g}{alpha}{linear}{runs})"
        axes.plot(x, mean, color=colour, linewidth=1.2, label=label)
        axes.fill_between(x, mean - sd, mean + sd, color=colour, alpha=0.2, linewidth=0)
        heights.append(mean[len(mean) // 10 :])  # the first steps from far away would flatten the rest
    for algorithm, end in published.items():
        label = f"{algorithm}, published"
        axes.plot([budget], [end], "D", color=COLOURS[algorithm], markersize=5, clip_on=False, zorder=3, label=label)
        heights.append(np.array([end]))
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
    if lines:  # one diamond stands for all: their colours are those of the curves, and a large legend would hide them
        shown = [line for line in axes.lines if line.get_marker() != "D"]
        diamonds = axes.plot([], [], "D", color="0.5", markersize=4, label="published ends") if published else []
        axes.legend(handles=[*shown, *diamonds], fontsize=6.5)
    elif published:
        axes.legend(fontsize=7)
