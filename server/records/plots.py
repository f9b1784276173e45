"""Pictures from history files; never from a live run."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zofedht.common.errors import DataError, MissingExtraError
from zofedht.server.records.files import make_folder, read_json, replace_file
from zofedht.server.records.history import read_history

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["plot_runs"]

_LINEAR_RANGE = 20.0  # losses that span more than this factor are drawn on a logarithmic axis


def plot_runs(folders: Sequence[Path], out: Path) -> None:
    """Draw the training loss against evaluations and against bytes, one line for each run.

    Only rounds with a full evaluation are drawn, or all rounds of a run with at most one full evaluation.

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
    figure = Figure(figsize=(10, 4), layout="constrained")
    if out.suffix.lstrip(".") not in figure.canvas.get_supported_filetypes():
        known = ", ".join(sorted(figure.canvas.get_supported_filetypes()))
        raise DataError(f"--out must end in a picture format ({known}), got {out}")
    _draw(figure, [(_name(folder, folders), _points(folder), _initial(folder)) for folder in folders])
    picture = io.BytesIO()
    figure.savefig(picture, format=out.suffix.lstrip("."), dpi=150)
    replace_file(make_folder(out.parent) / out.name, picture.getvalue())


def _draw(figure: Figure, lines: Sequence[tuple[str, list[dict[str, Any]], float | None]]) -> None:
    left, right = figure.subplots(1, 2, sharey=True)
    for name, rows, initial in lines:
        first = [] if initial is None else [initial]
        losses = [*first, *(row["train_loss"] for row in rows)]
        zero = [0.0] * len(first)
        left.plot([*zero, *(row["evaluations"] for row in rows)], losses, label=name)
        right.plot([*zero, *((row["bytes_up"] + row["bytes_down"]) / 1e6 for row in rows)], losses, label=name)
    left.set_xlabel("function evaluations")
    right.set_xlabel("megabytes up and down")
    left.set_ylabel("training loss")
    drawn = [loss for _, rows, initial in lines for loss in [initial, *(row["train_loss"] for row in rows)]]
    everything = [loss for loss in drawn if loss is not None]  # a loss of 0 has no place on a logarithmic axis
    if min(everything) > 0.0 and max(everything) > _LINEAR_RANGE * min(everything):
        left.set_yscale("log")  # shared by both axes
    for axes in (left, right):
        axes.grid(alpha=0.3)
        axes.set_xlim(left=0)
    left.legend()


def _points(folder: Path) -> list[dict[str, Any]]:
    rows = [row for row in read_history(folder / "history.jsonl") if row["train_loss"] is not None]
    full = [row for row in rows if row["train_loss_source"] == "full"]
    # One full evaluation is no curve: then the losses of the probes are drawn.
    chosen = full if len(full) > 1 or len(rows) <= 1 else rows
    if not chosen:
        raise DataError(f"{folder} has no finished round with a loss to draw")
    return chosen


def _initial(folder: Path) -> float | None:
    loss: float | None = read_json(folder / "run.json").get("initial", {}).get("train_loss")
    return loss


def _name(folder: Path, all_folders: Sequence[Path]) -> str:
    resolved = folder.resolve()
    twins = sum(other.resolve().name == resolved.name for other in all_folders)
    return resolved.name if twins == 1 else f"{resolved.parent.name}/{resolved.name}"
