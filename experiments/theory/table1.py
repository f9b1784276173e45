"""Table I: how often the larger component of a step is the insensitive one.

Gradient descent x <- x - eta (grad f(x) + eps u), u ~ N(0, I_2), on a badly scaled quadratic of two
variables. gamma(eps) is the share of steps with |Delta_2| > |Delta_1|, x_2 being the insensitive one.
With little noise nearly all steps lie along x_2, so the trajectory shows where to look. With much noise half of them
do.

The step size (1e-4), the start (1000, 1000) and the noise N(0, eps^2 I) are the text's. Its f and T do not give its
row: the limits fix eta L, since without noise |Delta_1| exceeds |Delta_2| for ln(1000)/-ln(1 - eta L) steps, and with
much noise gamma = (2/pi) atan(sqrt((2 - eta L)/2)).
"""

from __future__ import annotations

import csv
import io
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from zofedht.common.machine.files import make_folder, replace_file
from zofedht.common.typing import Vector
from zofedht.experiments.report.pictures import save_figure
from zofedht.server.records.plots import STYLES

__all__ = ["AS_PRINTED", "CORRECTED", "EPSILONS", "PRINTED_ROW", "Setting", "gamma", "table1", "trajectories"]

EPSILONS: Vector = 10.0 ** np.arange(-2.0, 6.0)
PRINTED_ROW: Vector = np.array([0.9993, 0.9423, 0.8268, 0.7096, 0.5931, 0.4979, 0.4924, 0.4919])
"""The row as the paper prints it, for eps = 1e-2 ... 1e5."""

_ETA, _START = 1e-4, 1000.0
_BLOCK = 1000  # steps whose deviates are drawn at once


@dataclass(frozen=True)
class Setting:
    """f = (h_1 x_1^2 + h_2 x_2^2)/2 for T steps."""

    name: str
    curvature: tuple[float, float]
    steps: int


AS_PRINTED = Setting("f = 10^3 x1^2 + x2^2, T = 10^4", (2e3, 2.0), 10_000)
CORRECTED = Setting("f = (10^3 x1^2 + x2^2)/2, T = 10^5", (1e3, 1.0), 100_000)


def gamma(setting: Setting, runs: int = 10, seed: int = 0) -> Vector:
    """Return gamma(eps), (len(EPSILONS),), the mean over runs; all runs and eps advance together.

    The same deviates serve all eps.
    """
    rng = np.random.default_rng(seed)
    h, noise = np.array(setting.curvature), EPSILONS[:, None]
    x = np.full((runs, len(EPSILONS), 2), _START)
    insensitive = np.zeros((runs, len(EPSILONS)))
    for start in range(0, setting.steps, _BLOCK):
        for u in rng.standard_normal((min(_BLOCK, setting.steps - start), runs, 1, 2)):
            move = -_ETA * (h * x + noise * u)
            sizes = np.abs(move)
            insensitive += sizes[..., 1] > sizes[..., 0]
            x += move
    mean: Vector = insensitive.mean(axis=0) / setting.steps
    return mean


def trajectories(setting: Setting, steps: int, seed: int = 0) -> Vector:
    """Return the first ``steps`` points of one run for each eps, (len(EPSILONS), steps + 1, 2)."""
    rng = np.random.default_rng(seed)
    h, noise = np.array(setting.curvature), EPSILONS[:, None]
    x = np.full((len(EPSILONS), 2), _START)
    path = [x]
    for u in rng.standard_normal((steps, 1, 2)):
        x = x - _ETA * (h * x + noise * u)
        path.append(x)
    return np.stack(path, axis=1)


def table1(out: Path | None, *, runs: int = 10, seed: int = 0) -> None:
    """Print the table and write table1.csv and table1.png into ``out``.

    Raises DataError when ``out`` cannot be written, MissingExtraError when it is given without matplotlib.
    """
    started = time.perf_counter()
    printed, corrected = gamma(AS_PRINTED, runs, seed), gamma(CORRECTED, runs, seed)
    seconds = time.perf_counter() - started
    print(f"gamma(eps), mean of {runs} runs, seed {seed} ({seconds:.1f} s)")
    print(f"  as printed: {AS_PRINTED.name}\n  corrected:  {CORRECTED.name}")
    print(f"{'epsilon':>8}  {'printed row':>11}  {'as printed':>10}  {'corrected':>9}  {'difference':>10}")
    for row in zip(EPSILONS, PRINTED_ROW, printed, corrected, strict=True):
        print(f"{row[0]:8g}  {row[1]:11.4f}  {row[2]:10.4f}  {row[3]:9.4f}  {row[3] - row[1]:+10.4f}")
    print(f"largest difference of the corrected settings: {np.max(np.abs(corrected - PRINTED_ROW)):.4f}")
    if out is None:
        return
    make_folder(out)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["epsilon", "printed", "as_printed_settings", "corrected_settings"])
    for eps, *values in zip(EPSILONS, PRINTED_ROW, printed, corrected, strict=True):
        writer.writerow([f"{eps:g}", *(f"{value:.4f}" for value in values)])
    replace_file(out / "table1.csv", text.getvalue().encode())
    _draw(out / "table1.png", printed, corrected, runs, seed)
    print(f"wrote {out / 'table1.csv'} and {out / 'table1.png'}")


def _draw(path: Path, printed: Vector, corrected: Vector, runs: int, seed: int) -> None:
    from zofedht.experiments.report.pictures import new_figure

    figure = new_figure((10.0, 4.4))
    figure.suptitle(f"Table I: gradient descent on a badly scaled quadratic with noise eps N(0, I), seed {seed}")
    left, right = figure.subplots(1, 2)
    paths = trajectories(CORRECTED, 20_000, seed)
    widths = ((7, 0.7), (6, 4.0), (5, 2.0), (0, 0.7))  # one upon the other, so that all can be seen
    for (index, width), (colour, _) in zip(widths, STYLES, strict=False):
        points = paths[index, ::10]
        left.plot(points[:, 0], points[:, 1], color=colour, linewidth=width, label=f"eps = {EPSILONS[index]:g}")
    left.set(xlabel="x1 (sensitive)", ylabel="x2 (insensitive)", title=f"20,000 steps of {CORRECTED.name}")
    left.legend(fontsize=8)
    right.semilogx(EPSILONS, PRINTED_ROW, "k_", markersize=14, label="printed row")
    for (colour, style), marker, row, setting in zip(
        STYLES, "os", (corrected, printed), (CORRECTED, AS_PRINTED), strict=False
    ):
        right.semilogx(EPSILONS, row, color=colour, linestyle=style, marker=marker, markersize=4, label=setting.name)
    right.set(xlabel="eps", ylabel="gamma(eps): steps longer along x2", title=f"mean of {runs} runs")
    right.legend(fontsize=8)
    for axes in (left, right):
        axes.grid(alpha=0.3)
    save_figure(figure, path)
