"""A run read from its folder, ``load_run(DIR).x``, and x as a file for other programs."""

from __future__ import annotations

import csv
import functools
import io
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from zofedht.common.config.run_config import RunConfig
from zofedht.common.config.texts import load_toml
from zofedht.common.errors import DataError
from zofedht.common.machine.files import is_path, replace_file
from zofedht.common.space.kinds import Settings
from zofedht.common.tensors.agreement import Tensors
from zofedht.common.typing import Vector
from zofedht.server.records.checkpoint import load_newest
from zofedht.server.records.history import read_history
from zofedht.server.records.run_folder import RunFolder, sha256_of_x

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from zofedht.common.tensors.objective import InPlaceObjective

__all__ = ["EXPORTS", "FinishedRun", "export", "load_run"]


@dataclass(frozen=True)
class FinishedRun:
    """The results in a run's folder.

    Attributes
    ----------
    path : Path
    config : RunConfig
    x : (n,)
        The x that the run returns, in the user's units: the best that was evaluated in full. For an interrupted run,
        the best until its newest checkpoint.
    last : (n,)
        The x of the last round.
    settings : dict
        The values of named parameters at x; empty where they have no names.
    last_settings : dict
        Those at the last x.
    summary : dict
        summary.json; empty for an interrupted run.

    Of a run in place, x is the trail: ``rebuild`` leads an objective along it.
    """

    path: Path
    config: RunConfig
    x: Vector
    last: Vector
    settings: Settings
    last_settings: Settings
    summary: dict[str, Any]
    tensors: Tensors | None = None  # of a run in place, whose x is the trail that leads to the parameters

    @functools.cached_property
    def history(self) -> list[dict[str, Any]]:
        """The record of each round, as in history.jsonl. Raises DataError when the file cannot be read."""
        return read_history(RunFolder(self.path).history_file)

    def rebuild(self, objective: InPlaceObjective, *, last: bool = False) -> None:
        """Lead an objective that holds the start to the x of this run in place, or to its last x, bit for bit.

        Raises DataError where the run was not in place, or the objective does not hold its start.
        """
        from zofedht.server.records.rebuild_in_place import rebuild

        rebuild(self, objective, last=last)

    def plot(self, *, against: str = "evaluations", ax: Any = None) -> Axes:
        """Draw the losses, as ``zofedht.plot`` does."""
        from zofedht.server.records.axes import plot

        return plot(self, against=against, ax=ax)


def load_run(path: str | Path) -> FinishedRun:
    """Read a result folder.

    Parameters
    ----------
    path : str or Path

    Returns
    -------
    FinishedRun

    Raises
    ------
    DataError
        When the folder holds no run, or its files cannot be read.
    CheckpointError
        When an interrupted run has no usable checkpoint.

    Examples
    --------
    >>> import tempfile
    >>> from zofedht.server.minimise.run import run
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = run(lambda x: float(x @ x), x0=[1.0, 2.0], rounds=5, out=folder)
    ...     finished = load_run(folder)
    ...     print(finished.x.shape, len(finished.history))
    (2,) 5
    """
    if not is_path(path):
        raise DataError(f"load_run must get the folder of a run, got {path!r}")
    folder = RunFolder(Path(path).expanduser())
    if not folder.config_file.exists() or not folder.exists():
        raise DataError(f"{folder.path} holds no run: a result folder has config.toml and history.jsonl in it")
    config = RunConfig.from_mapping(load_toml(folder.config_file))
    summary = folder.summary() if folder.summary_file.exists() else {}
    if not folder.checkpoints.is_dir():  # a copy without checkpoints
        x, last = _vector(folder.vector_file), folder.last_file
        last_x = _vector(last) if last.exists() else x
        settings = [summary.get(which) or {} for which in ("settings", "last_settings")]
        tensors = Tensors(**summary["tensors"]) if summary.get("tensors") else None
        return FinishedRun(folder.path, config, x, last_x, settings[0], settings[1], summary, tensors)
    state = load_newest(folder.checkpoints, config)
    done = summary.get("rounds") == state.round  # else the run was resumed and interrupted
    kept = {"start": state.start, "best": state.best}.get(summary["x_is"] if done else "best")
    x = state.x if kept is None else kept.x
    return FinishedRun(
        path=folder.path,
        config=config,
        x=state.in_user_units(x),
        last=state.user_x,
        settings=state.settings_at(x),
        last_settings=state.settings,
        summary=summary if done else {},
        tensors=state.tensors,
    )


def _vector(path: Path) -> Vector:
    try:
        with path.open("rb") as file:
            x = np.lib.format.read_array(file, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise DataError(f"{path} cannot be read ({error})") from error
    if x.ndim != 1 or x.dtype != np.float64:
        raise DataError(f"{path} must hold one float64 vector, got shape {x.shape} of {x.dtype}")
    return x


def _npz(run: FinishedRun) -> bytes:
    packed = io.BytesIO()
    np.savez(packed, x=run.x)
    return packed.getvalue()


def _csv(run: FinishedRun) -> bytes:
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(["parameter", "value"] if run.settings else ["x"])
    rows.writerows(run.settings.items())
    if not run.settings:
        rows.writerows([value] for value in run.x.tolist())  # the shortest text of each float64
    return text.getvalue().encode()


def _json(run: FinishedRun) -> bytes:
    scores = {key: run.summary.get(key) for key in ("final_train_loss", "rounds", "evaluations", "x_sha256")}
    settings = {"settings": run.settings} if run.settings else {}
    return (json.dumps({"x": run.x.tolist()} | settings | scores, allow_nan=False) + "\n").encode()


EXPORTS: dict[str, Callable[[FinishedRun], bytes]] = {".npz": _npz, ".csv": _csv, ".json": _json}
"""Ending of the file -> content: the array ``x``; a column ``x``, or the names of parameters and their values; an
object with ``x``, the settings and scores."""


def export(run: FinishedRun, out: Path, *, last: bool = False) -> None:
    """Write x, or the last x, in the format of the file's ending; every number reads back as the same float64.

    Raises DataError for an unknown ending, or when the file cannot be written.
    """
    write = EXPORTS.get(out.suffix.lower())
    if write is None:
        raise DataError(f"--out must end in {', '.join(EXPORTS)}, got {out.name!r}")
    if not out.parent.is_dir():
        raise DataError(f"{out} cannot be written: there is no folder {out.parent}")
    replace_file(out, write(_of_last(run) if last else run))


def _of_last(run: FinishedRun) -> FinishedRun:
    of_last = {"final_train_loss": run.summary.get("last_train_loss"), "x_sha256": sha256_of_x(run.last)}
    return replace(run, x=run.last, settings=run.last_settings, summary=run.summary | of_last)
