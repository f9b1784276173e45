"""The losses of runs as Axes of matplotlib: ``zofedht.plot([...])``, and ``.plot()`` of a result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zofedht.common.errors import ConfigError, MissingExtraError
from zofedht.server.records.finished_run import FinishedRun
from zofedht.server.records.plots import AGAINST, Curve, curve_of, draw_losses, rows_with_losses, title_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot"]

Run = str | Path | FinishedRun | Mapping[str, Any]


def plot(
    runs: Run | Sequence[Run] | Mapping[str, Run],
    *,
    against: str = "evaluations",
    ax: Axes | None = None,
) -> Axes:
    """Draw the training losses of runs into one picture, a line for each run.

    Only rounds with a full evaluation are drawn, or all rounds of a run with at most one full evaluation. Neighbouring
    folders that differ in their seed alone are one line, their median, in a band from the lowest to the highest. A tick
    below marks a round in which an automatic rule changed something.

    Parameters
    ----------
    runs : run, sequence of runs, or mapping of names to runs
        A run is the result of ``run``, that of ``load_run``, or a result folder.
    against : "evaluations", "bytes", "seconds" or "rounds"
    ax : matplotlib Axes, optional
        Where to draw; new ones unless given.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    ConfigError
        For no run, or another ``against``.
    DataError
        When a run has no loss to draw.
    MissingExtraError
        Without matplotlib.

    Examples
    --------
    >>> import zofedht
    >>> short = {"x0": [3.0, 1.0], "rounds": 20, "seed": 1}
    >>> runs = {name: zofedht.run(lambda x: float(x @ x), algorithm=name, **short) for name in ("zofedht", "mezo")}
    >>> axes = zofedht.plot(runs)                                         # doctest: +SKIP
    >>> axes.figure.savefig("runs.png")                                   # doctest: +SKIP
    """
    if against not in AGAINST:
        raise ConfigError([f"against must be {', '.join(AGAINST)}, got {against!r}"])
    curves = _curves(runs)
    if not curves:
        raise ConfigError(["runs must be one run or more, got none"])
    if ax is None:
        try:
            from matplotlib import pyplot
        except ImportError as error:
            raise MissingExtraError("plots need matplotlib; install it with `pip install 'zofedht[plots]'`") from error
        ax = pyplot.subplots(layout="constrained")[1]
    draw_losses(ax, curves, against)
    ax.set_ylabel("training loss")
    if all("num-clients" in curve.config for curve in curves):
        ax.set_title(title_of(curves), fontsize="medium")
    ax.legend(fontsize="small")
    return ax


def _curves(runs: Any) -> list[Curve]:
    if isinstance(runs, Mapping) and "records" not in runs:
        named = dict(runs)
    else:
        one = isinstance(runs, str | Path | FinishedRun | Mapping)
        named = dict(enumerate([runs] if one else list(runs)))
    folders = {key: Path(run).expanduser() for key, run in named.items() if isinstance(run, str | Path)}
    folders |= {key: run.path for key, run in named.items() if isinstance(run, FinishedRun)}
    return [_curve(key, run, folders) for key, run in named.items()]


def _curve(key: Any, run: Any, folders: Mapping[Any, Path]) -> Curve:
    name = key if isinstance(key, str) else ""
    if key in folders:
        made = curve_of(folders[key], list(folders.values()))
        return Curve(name or made.name, made.rows, made.initial, made.config)
    if not isinstance(run, Mapping) or "records" not in run:
        raise ConfigError(
            [f"a run must be the result of run or load_run, or a result folder, got {type(run).__name__}"]
        )
    name = name or f"run {key + 1}"
    return Curve(name, rows_with_losses(run["records"], name), None, run.get("config", {}) | {"run": key})
