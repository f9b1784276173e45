"""Pictures from history files; never from a live run."""

from __future__ import annotations

import io
import itertools
import math
import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zofedht.common.config.texts import load_toml
from zofedht.common.errors import ConfigError, DataError, MissingExtraError
from zofedht.common.machine.files import make_folder, read_json, replace_file
from zofedht.server.records.history import read_history

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "AGAINST",
    "STYLES",
    "Curve",
    "curve_of",
    "draw_losses",
    "fit_losses",
    "median_and_band",
    "plot_runs",
    "rows_with_losses",
    "title_of",
]

_LINEAR_RANGE = 20.0  # losses that span more than this factor are drawn on a logarithmic axis
_BEGINNING = 0.1  # of a run; what lies above all later losses then is cut off
STYLES = [
    ("#0072b2", "-"),
    ("#d55e00", "--"),
    ("#009e73", "-."),
    ("#cc79a7", ":"),
    ("#e69f00", (0, (6, 1, 1, 1, 1, 1))),
    ("#56b4e9", (0, (1, 1))),
    ("#000000", (0, (8, 2))),
]
"""Okabe and Ito's colours, which the colour-blind can tell apart, each with a line style of its own."""

AGAINST: dict[str, tuple[str, tuple[str, ...]]] = {
    "evaluations": ("function evaluations", ("evaluations",)),
    "bytes": ("bytes up and down", ("bytes_up", "bytes_down")),
    "seconds": ("seconds", ("seconds",)),
    "rounds": ("rounds", ("round",)),
}
"""What a loss is drawn against: the name of the axis, and the fields of a round that are summed."""

_COUNTS = [(1e6, 1e6, ", millions"), (1e4, 1e3, ", thousands"), (0.0, 1.0, "")]  # from, scale and text of a unit
_UNITS = {what: _COUNTS for what, _ in AGAINST.values()}
_UNITS["bytes up and down"] = [(1e6, 1e6, ", MB"), (1e4, 1e3, ", kB"), (0.0, 1.0, "")]
_PROBLEM = ("dataset", "model", "objective", "partition", "num-clients", "clients-per-round")


@dataclass(frozen=True)
class Curve:
    """The losses of one run."""

    name: str
    rows: Sequence[Mapping[str, Any]]
    initial: float | None
    config: Mapping[str, Any]

    @property
    def losses(self) -> list[float]:
        first = [] if self.initial is None else [self.initial]
        return [*first, *(row["train_loss"] for row in self.rows)]

    def along(self, scale: float, *counts: str) -> list[float]:
        """Return the sums of these counts, in units of ``scale``."""
        first = [] if self.initial is None else [0.0]
        return [*first, *((sum(row[count] for count in counts) + ("round" in counts)) / scale for row in self.rows)]

    @property
    def but_for_the_seed(self) -> str:
        return str(sorted((key, value) for key, value in self.config.items() if key not in ("seed", "out")))


def plot_runs(folders: Sequence[Path], out: Path) -> None:
    """Draw the training loss against evaluations and against bytes, one line for each run.

    Only rounds with a full evaluation are drawn, or all rounds of a run with at most one full evaluation. Neighbouring
    folders that differ in their seed alone are one line, their median, in a band from the lowest to the highest. A tick
    below marks a round in which an automatic rule changed something.

    Parameters
    ----------
    folders : sequence of Path
        The result folders.
    out : Path
        The picture; its suffix decides the format.

    Raises
    ------
    DataError
        When a folder has no loss to draw, the suffix is no picture format, or ``out`` cannot be written.
    MissingExtraError
        Without matplotlib.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError("plots need matplotlib; install it with `pip install 'zofedht[plots]'`") from error
    # A bare Figure draws to a file and never looks for a display.
    figure = Figure(figsize=(10, 4.8), layout="constrained")
    if out.suffix.lstrip(".") not in figure.canvas.get_supported_filetypes():
        known = ", ".join(sorted(figure.canvas.get_supported_filetypes()))
        raise DataError(f"--out must end in a picture format ({known}), got {out}")
    _draw(figure, [curve_of(folder, folders) for folder in folders])
    picture = io.BytesIO()
    figure.savefig(picture, format=out.suffix.lstrip("."), dpi=150)
    replace_file(make_folder(out.parent) / out.name, picture.getvalue())


def draw_losses(axes: Axes, curves: Sequence[Curve], against: str = "evaluations") -> None:
    """Draw the losses of runs against ``against``, one of AGAINST, with a label for each line."""
    what, counts = AGAINST[against]
    largest = max(max(curve.along(1.0, *counts)) for curve in curves)
    scale, unit = next((scale, unit) for least, scale, unit in _UNITS[what] if largest >= least)
    groups = [list(group) for _, group in itertools.groupby(curves, key=lambda curve: curve.but_for_the_seed)]
    for group, (colour, style) in zip(groups, itertools.cycle(STYLES), strict=False):
        name = group[0].name.replace(",", ", ")  # ``compare`` has the keys of a method in its folder's name
        if len(group) > 1:
            name = re.sub(r"-?seed\d+$", "", name) or name
            name = f"{name}, median and range of {len(group)} seeds"
        losses, low, high = median_and_band(group)
        along = group[0].along(scale, *counts)[: len(losses)]
        axes.plot(along, losses, color=colour, linestyle=style, label=f"{name}, ends at {losses[-1]:.4g}")
        if len(group) > 1:
            axes.fill_between(along, low, high, color=colour, alpha=0.2, linewidth=0)
        changed = [
            place
            for place, row in zip(along[-len(group[0].rows) :], group[0].rows, strict=False)
            if row.get("interventions")
        ]
        axes.plot(changed, [0.015] * len(changed), "|", color=colour, transform=axes.get_xaxis_transform())
    axes.set_xlabel(f"{what}{unit}")
    axes.grid(alpha=0.3)
    axes.set_xlim(left=0)
    fit_losses(axes, curves)


def _draw(figure: Figure, curves: Sequence[Curve]) -> None:
    left, right = figure.subplots(1, 2, sharey=True)
    draw_losses(right, curves, "bytes")
    draw_losses(left, curves, "evaluations")
    left.set_ylabel("training loss")
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", fontsize="medium")
    figure.suptitle(title_of(curves), fontsize="medium")


def median_and_band(group: Sequence[Curve]) -> tuple[list[float], list[float], list[float]]:
    """Return median, lowest and highest loss over seeds, as far as all of them have come."""
    columns = list(zip(*(curve.losses for curve in group), strict=False))
    return [statistics.median(column) for column in columns], [min(c) for c in columns], [max(c) for c in columns]


def fit_losses(axes: Axes, curves: Sequence[Curve], marks: Sequence[float] = ()) -> None:
    """Show ``marks`` and the losses after the beginning of the runs.

    Where these losses still span decades the axis is logarithmic; else what lies above them is cut off, and told.
    """
    later = [loss for curve in curves for loss in curve.losses[math.ceil(_BEGINNING * len(curve.losses)) :]]
    low, high = min([*later, *marks]), max([*later, *marks])
    above = max(loss for curve in curves for loss in curve.losses)
    if low > 0.0 and high > _LINEAR_RANGE * low:
        axes.set_yscale("log")  # shared by both axes
        return
    if above > high + 0.2 * (high - low):
        room = 0.05 * (high - low) or abs(high) or 1.0
        axes.set_ylim(low - room, high + room)
        starts = {curve.losses[0] for curve in curves}
        text = f"begins at {above:.4g}" if starts == {above} else f"cut off: losses up to {above:.4g}"
        # Where falling curves are not.
        axes.annotate(text, (0.98, 0.93), xycoords="axes fraction", fontsize="small", horizontalalignment="right")


def title_of(curves: Sequence[Curve]) -> str:
    """Return what the runs have in common, or a warning where they solve different problems."""
    problems = {tuple(curve.config.get(key, "") for key in _PROBLEM) for curve in curves}
    if len(problems) > 1:
        return "These runs solve different problems: their losses cannot be compared"
    data, model, objective, partition, clients, slots = next(iter(problems))
    seeds = sorted({curve.config.get("seed", 0) for curve in curves})
    what = objective or f"{Path(str(data)).name}, {model}, {partition}"
    whose = "1 client" if clients == 1 else f"{clients} clients, {slots} a round"
    return f"{what}, {whose}, seed{'s' * (len(seeds) > 1)} {', '.join(map(str, seeds))}"


def rows_with_losses(rows: Sequence[Mapping[str, Any]], whose: str) -> list[Mapping[str, Any]]:
    """Return the rounds that are drawn. Raises DataError, which says ``whose`` they are, when there is none."""
    rows = [row for row in rows if row["train_loss"] is not None and math.isfinite(row["train_loss"])]
    full = [row for row in rows if row["train_loss_source"] == "full"]
    # One full evaluation is no curve: then the losses of the probes are drawn.
    chosen = full if len(full) > 1 or len(rows) <= 1 else rows
    if not chosen:
        raise DataError(f"{whose} has no finished round with a loss to draw")
    return list(chosen)


def _initial(folder: Path) -> float | None:
    loss: float | None = read_json(folder / "run.json").get("initial", {}).get("train_loss")
    return loss


def curve_of(folder: Path, folders: Sequence[Path]) -> Curve:
    """Return the curve of a result folder, named as no other one. Raises DataError where it has none."""
    rows = rows_with_losses(read_history(folder / "history.jsonl"), str(folder))
    return Curve(_name(folder, folders), rows, _initial(folder), _config(folder))


def _config(folder: Path) -> dict[str, Any]:
    try:
        config = load_toml(folder / "config.toml")
    except ConfigError as error:
        raise DataError(f"{folder} is no result folder: {error}") from error
    lives_in_python = read_json(folder / "run.json").get("objective", "")
    return config | {"objective": config.get("objective") or lives_in_python}


def _name(folder: Path, all_folders: Sequence[Path]) -> str:
    resolved = folder.resolve()
    twins = sum(other.resolve().name == resolved.name for other in all_folders)
    return resolved.name if twins == 1 else f"{resolved.parent.name}/{resolved.name}"
