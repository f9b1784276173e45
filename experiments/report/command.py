"""The report on studies: pictures, tables and claims, as Markdown."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Sequence
from pathlib import Path

from zofedht.common.errors import DataError
from zofedht.common.machine.files import make_folder, replace_file
from zofedht.experiments.report.best import best_blocks, is_linear
from zofedht.experiments.report.claims import FEWEST, NOT_ENOUGH, NOT_RUN, judge, winner
from zofedht.experiments.report.evidence import RUNS, TIE, place
from zofedht.experiments.report.markdown import table
from zofedht.experiments.report.pictures import draw_figure, save_figure
from zofedht.experiments.study.cell_lines import read_lines
from zofedht.experiments.study.cells import Panel
from zofedht.experiments.study.presets import ALPHAS, ETAS
from zofedht.experiments.study.published import PUBLISHED, PUBLISHED_ROWS
from zofedht.experiments.study.results import Chosen, Study, lowest, read_study

__all__ = ["write_report"]

_OTHER_FILES = ("table1.csv", "table1.png", "theory.md")
_OPEN = (NOT_ENOUGH, NOT_RUN)
_PLACES = {"inside": "", "edge": " (edge)", "only": " (only)"}
_DIVERGED = 1e3  # no starting point scores as much: what ends above it was on its way out


def write_report(folders: Sequence[Path], out: Path, cells: Path | None = None) -> list[Path]:
    """Write report.md and the pictures into ``out``; return the paths of all files.

    The report includes the files that ``table1 --out`` and ``theory --out`` have left in ``out`` or in ``cells``, the
    folder of cells as lines.

    Raises DataError when a folder holds no study or ``out`` cannot be written, MissingExtraError without
    matplotlib.
    """
    studies = [*(read_study(folder) for folder in folders), *(read_lines(cells) if cells else [])]
    if not studies:
        where = f"{cells} has no cells as lines" if cells else "no study folder is named"
        raise DataError(f"{where}; run `python -m zofedht.experiments study` first")
    make_folder(out)
    for name in _OTHER_FILES:
        if cells and (cells / name).exists() and not (out / name).exists():
            replace_file(out / name, (cells / name).read_bytes())
    written: list[Path] = []
    own = [study for study in studies if not is_linear(study)]
    blocks = ["# ZOFedHT: reproduction of the paper's section IV", "## Claims", _claims(own)]
    for study in own:
        blocks += _study_blocks(study, out, written)
    for study in studies:
        if is_linear(study):
            blocks += best_blocks(study, own, out, written)
    blocks += _other_commands(out)
    text = "\n\n".join(block.strip() for block in blocks) + "\n"
    replace_file(out / "report.md", text.encode())
    return [*written, out / "report.md"]


def _study_blocks(study: Study, out: Path, written: list[Path]) -> list[str]:
    name, preset = study.name, study.preset
    panels = study.panels()
    seconds = sum(float(outcome.result["seconds"]) for outcome in study.outcomes)
    cpu = sum(float(outcome.result["cpu_seconds"]) for outcome in study.outcomes)
    failed = sum(not outcome.loss < _DIVERGED for outcome in study.outcomes)
    blocks = [
        f"## Study `{name}`: preset {preset.name}",
        f"Covariance {preset.covariance}; {preset.svm} from {preset.svm_init}; non-iid rows: {preset.non_iid};"
        f" clients drawn {preset.sampling}; a cell counts by the {preset.selection} of its repeats."
        f" {len(study.outcomes)} runs, {seconds / 3600:.2f} hours of worker time"
        f" ({cpu / 3600:.3f} of CPU), {failed} diverged."
        f" Machine: {study.about['machine']}. {_kernels(study)}",
    ]
    if study.about["commands"]:
        blocks.append("\n".join(f"- `{_anywhere(command)}`" for command in study.about["commands"]))
    figures = {"iid": "figure 1", preset.non_iid: "figure 2"}
    partitions = {panel.partition for panel in panels}
    for partition in [name for name in dict.fromkeys([*figures, *sorted(partitions)]) if name in partitions]:
        shown = figures.get(partition, "not in the paper")
        figure = draw_figure(study, partition, f"{preset.name} preset, {partition} rows ({shown})")
        path = out / f"{name}-{partition}.png"
        save_figure(figure, path)
        written.append(path)
        text = f"{name}, {partition}: {shown} of the paper" if partition in figures else f"{name}, {partition}"
        blocks.append(f"![{text}]({path.name})")
    blocks += ["### Tuned cells", _tuned(study, panels), "### Who wins where", _winners(study, panels)]
    weights = _weights(study, panels)
    if weights:
        blocks += ["### ZOFedHT by alpha", weights]
    compared = _published(study, panels)
    if compared:
        blocks += ["### Against the authors' published best losses", compared]
    return [*blocks, "### What is missing", _missing(study, panels)]


def _kernels(study: Study) -> str:
    """Return which kernel ran in which panels: the last bits of x depend on the kernel."""
    kernels = [outcome.result["kernel"] for outcome in study.outcomes]
    compiled = sorted({o.cell.panel for o, kernel in zip(study.outcomes, kernels, strict=True) if kernel == "compiled"})
    if len(set(kernels)) == 1:
        return f"Kernel: {kernels[0]}."
    names = ", ".join(panel.title for panel in compiled)
    return f"Kernel: compiled in {kernels.count('compiled')} runs ({names}), numpy in the others."


def _anywhere(command: str) -> str:
    """Return a command without the folders of the machine that it ran on."""
    command = re.sub(r"--data-dir \S+", "--data-dir DIR", command)
    return re.sub(r"--out \S*?([^/\s]+)(?=\s|$)", r"--out runs/\1", command)


def _other_commands(out: Path) -> list[str]:
    blocks = []
    if (out / "table1.csv").exists() and (out / "table1.png").exists():
        head, *rows = csv.reader((out / "table1.csv").read_text(encoding="utf-8").splitlines())
        blocks += ["## Table I", table(head, rows), "![Table I](table1.png)"]
    if (out / "theory.md").exists():
        blocks += ["## Theory", (out / "theory.md").read_text(encoding="utf-8")]
    return blocks


def _claims(studies: Sequence[Study]) -> str:
    rows = [
        [verdict.claim, verdict.verdict if verdict.verdict in _OPEN else f"**{verdict.verdict}**", verdict.evidence]
        for verdict in judge(studies)
    ]
    return (
        table(["claim", "verdict", "evidence"], rows)
        + "\nBetter, tie and worse count panels. +5% means that the loss is 5% lower than the rival's. A tie is a"
        f" difference of less than {TIE:.0%}. A claim holds under a reading in which some panel is better and no panel"
        f" is worse, of {FEWEST} at least; fewer can only show that it does not hold. A panel is evidence with"
        f" {RUNS} runs of each tuned cell at the whole budget, if the algorithm that ends higher was tuned: its best"
        " step size lies within those tried, or all of the paper's were tried, and for ZOFedHT its weights, too."
        " Other panels are named with what they lack, and decide nothing."
    )


def _tuned(study: Study, panels: Sequence[Panel]) -> str:
    rows = []
    for panel in panels:
        for chosen in study.chosen(panel):
            etas = {
                outcome.cell.eta
                for outcome in study.outcomes
                if (outcome.cell.panel, outcome.cell.algorithm) == (panel, chosen.algorithm)
            }
            rows.append(
                [
                    panel.title,
                    chosen.algorithm,
                    f"{chosen.eta:g}{_PLACES[place(chosen.eta, etas)]}",
                    "-" if chosen.alpha is None else f"{chosen.alpha:g}",
                    _loss(chosen.best),
                    _loss(chosen.mean),
                    _loss(chosen.sd),
                    _loss(lowest(chosen.outcomes)),
                    str(len(chosen.losses)),
                    _accuracy(chosen),
                ]
            )
    head = ["panel", "algorithm", "eta_0", "alpha", "best", "mean", "sd", "lowest", "repeats", "test accuracy"]
    return (
        table(head, rows)
        + "\nLosses are final training losses. Lowest is the least loss along all repeats, since a final loss may sit"
        " on a spike. Candidates are compared on the repeats that all candidates have. So where only the tuned cell was"
        " repeated, its first repeat is favoured. (edge): the best step size is the smallest or the largest tried."
        " (only): no other step size was tried, so the cell is not tuned."
    )


def _winners(study: Study, panels: Sequence[Panel]) -> str:
    rows = []
    for panel in panels:
        found = winner(study, panel)
        if found is None:
            continue
        rows.append(
            [
                panel.title,
                f"**{found.first.algorithm}**",
                _loss(found.first.value(study.preset.selection)),
                found.second.algorithm,
                f"{found.margin:+.4f}",
                {True: "yes", False: "no", None: "one run"}[found.clear],
            ]
        )
    return table(["panel", "first", study.preset.selection, "second", "margin", "means differ by > 2 se"], rows)


def _weights(study: Study, panels: Sequence[Panel]) -> str:
    """The first repeat's loss at each alpha, with the best eta_0 for that alpha."""
    first = [found for found in study.outcomes if found.cell.repeat == 0]
    alphas = sorted({found.cell.alpha for found in first if found.cell.alpha is not None})
    if len(alphas) < 2:
        return ""
    rows = []
    for panel in panels:
        row = [panel.title]
        for alpha in alphas:
            losses = [found.loss for found in first if found.cell.panel == panel and found.cell.alpha == alpha]
            row.append(_loss(min(losses, default=math.nan)))
        plain = [found.loss for found in first if found.cell.panel == panel and found.cell.algorithm == "zofedavg-sgd"]
        rows.append([*row, _loss(min(plain, default=math.nan))])
    head = ["panel", *(f"alpha {alpha:g}" for alpha in alphas), "zofedavg-sgd"]
    return table(head, rows) + "\nFirst repeat, best eta_0 for each alpha."


def _published(study: Study, panels: Sequence[Panel]) -> str:
    rows = []
    for panel in panels:
        for chosen in study.chosen(panel):
            published = PUBLISHED.get(panel, {}).get(chosen.algorithm)
            if published is None:
                continue
            finite = [outcome.result["evaluations"] for outcome in chosen.outcomes if math.isfinite(outcome.loss)]
            share = max(finite, default=0) / (500 * PUBLISHED_ROWS)
            rows.append(
                [
                    panel.title,
                    chosen.algorithm,
                    f"{published:.4f}",
                    _loss(chosen.best),
                    f"{chosen.best - published:+.4f}",
                    f"{lowest(chosen.outcomes) - published:+.4f}",
                    f"{share:.0%}",
                ]
            )
    head = [
        "panel", "algorithm", "published best", "our best", "ours - published", "our lowest - published",
        "share of their budget",
    ]  # fmt: skip
    return table(head, rows) if rows else ""


def _missing(study: Study, panels: Sequence[Panel]) -> str:
    preset = study.preset
    wanted = [
        Panel(dataset, model, partition)
        for dataset in ("mnist", "fashion-mnist", "rcv1")
        for model in ("logistic", preset.svm, "mlp")
        for partition in ("iid", preset.non_iid)
    ]
    grid = len(ETAS) * (len(ALPHAS) + 2)  # ZOFedHT at each weight, both rivals
    lines = []
    for panel in wanted:
        here = [outcome.cell for outcome in study.outcomes if outcome.cell.panel == panel and outcome.cell.eta in ETAS]
        tuned = sum(cell.repeat == 0 and (cell.alpha is None or cell.alpha in ALPHAS) for cell in here)
        repeats = len({(cell.algorithm, cell.repeat) for cell in here if 0 < cell.repeat < RUNS})
        if panel not in panels:
            lines.append(f"- {panel.title}: not run")
        elif tuned < grid or repeats < 3 * (RUNS - 1):
            lines.append(f"- {panel.title}: {tuned} of {grid} cells of the grid, {repeats} of {3 * (RUNS - 1)} repeats")
    return "\n".join(lines) if lines else "Nothing: all panels of the paper have the whole grid and three runs."


def _accuracy(chosen: Chosen) -> str:
    found = [outcome.result["test_accuracy"] for outcome in chosen.outcomes]
    known = [value for value in found if value is not None]
    return f"{sum(known) / len(known):.4f}" if known else "-"


def _loss(value: float) -> str:
    if math.isnan(value):
        return "-"
    return f"{value:.4f}" if value < _DIVERGED else "diverged"
