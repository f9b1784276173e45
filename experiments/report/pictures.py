"""Pictures of a study: the paper's figures, median and range over seeds."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from zofedht.common.errors import MissingExtraError
from zofedht.common.machine.files import replace_file
from zofedht.experiments.study.cells import Panel, full_budget
from zofedht.experiments.study.published import PUBLISHED
from zofedht.experiments.study.results import Chosen, Study
from zofedht.server.records.plots import STYLES, Curve, fit_losses, median_and_band

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw_figure", "new_figure", "save_figure"]

_STYLE_OF = dict(zip(("zofedht", "zofedavg-sgd", "zofed-shrink", "zofedavg-gd"), STYLES, strict=False))
_ROWS = ("mnist", "fashion-mnist", "rcv1")
_MODELS = {"logistic": "LR", "svm-hinge": "SVM (hinge)", "svm-squared-hinge": "SVM (squared hinge)", "mlp": "MLP"}
_DPI = 110
_COLOURS_OF_A_PICTURE = 128


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

    Rows and columns without a finished cell are left out. A line is the median over seeds, in a band from the lowest to
    the highest loss. A diamond at the end of the budget is the loss that the authors published.
    """
    run = [panel for panel in study.panels() if panel.partition == partition]
    rows = [name for name in (*_ROWS, "digits") if any(panel.dataset == name for panel in run)]
    columns = [name for name in _MODELS if any(panel.model == name for panel in run)]
    figure = new_figure((max(5.0 * len(columns), 7.0), 3.7 * len(rows) + 0.6))
    figure.suptitle(f"{title}\n{_who(study, run)}", fontsize="medium")
    grid = figure.subplots(len(rows), len(columns), squeeze=False)
    for row, dataset in enumerate(rows):
        for column, model in enumerate(columns):
            axes, panel = grid[row, column], Panel(dataset, model, partition)
            axes.set_title(f"{_MODELS[model]}, {dataset}", fontsize=10)
            lines = study.chosen(panel) if panel in run else []
            if any(map(_finite, lines)):
                _draw_panel(axes, lines, PUBLISHED.get(panel, {}), full_budget(dataset) / 1e6)
            else:
                text = "all runs diverged" if lines else "not run"
                axes.text(0.5, 0.5, text, ha="center", va="center", transform=axes.transAxes, color="0.5")
                axes.set(xticks=[], yticks=[])
    return figure


def _who(study: Study, run: Sequence[Panel]) -> str:
    """Return clients and seeds of the runs that are drawn."""
    configs = [outcome.result["config"] for panel in run for line in study.chosen(panel) for outcome in line.outcomes]
    clients = {f"{config['num-clients']:g} clients, {config['clients-per-round']:g} a round" for config in configs}
    seeds = sorted({int(config["seed"]) for config in configs})
    return f"median and range over seeds {', '.join(map(str, seeds))}; {' or '.join(sorted(clients))}"


def _finite(chosen: Chosen) -> list[Curve]:
    """Return the curves of the repeats that have not diverged."""
    found = [outcome for outcome in chosen.outcomes if math.isfinite(outcome.loss) and len(outcome.points) > 1]
    return [
        Curve(
            chosen.algorithm,
            [{"evaluations": point.evaluations, "train_loss": point.loss} for point in outcome.points[1:]],
            outcome.points[0].loss,
            {},
        )
        for outcome in found
        if all(math.isfinite(point.loss) for point in outcome.points)
    ]


def _draw_panel(axes: Axes, lines: Sequence[Chosen], published: Mapping[str, float], budget: float) -> None:
    drawn: list[Curve] = []
    for chosen in lines:
        curves = _finite(chosen)
        if not curves:
            continue
        losses, low, high = median_and_band(curves)
        along = curves[0].along(1e6, "evaluations")[: len(losses)]
        colour, style = _STYLE_OF.get(chosen.algorithm, STYLES[-1])
        alpha = "" if chosen.alpha is None else f", alpha {chosen.alpha:g}"
        seeds = f"{len(curves)} seed{'s' * (len(curves) > 1)}"
        linear = ", linear" if chosen.schedule == "linear" else ""
        label = f"{chosen.algorithm}, eta {chosen.eta:g}{alpha}{linear}, {seeds}: {losses[-1]:.4g}"
        axes.plot(along, losses, color=colour, linestyle=style, linewidth=1.4, label=label)
        axes.fill_between(along, low, high, color=colour, alpha=0.2, linewidth=0)
        drawn += curves
    for algorithm, end in published.items():
        colour, label = _STYLE_OF[algorithm][0], f"{algorithm}, published: {end:.4g}"
        axes.plot([budget], [end], "D", color=colour, markersize=5, clip_on=False, zorder=3, label=label)
    axes.set_xlim(left=0)
    fit_losses(axes, drawn, list(published.values()))
    axes.set_xlabel("function evaluations, millions", fontsize=8)
    axes.set_ylabel("training loss", fontsize=8)
    axes.tick_params(labelsize=8, which="both")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=7, loc="upper center", bbox_to_anchor=(0.5, -0.15), ncols=1 + bool(published))
