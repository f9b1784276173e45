"""The report on studies: pictures, tables and claims, as Markdown."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from pathlib import Path

from zofedht.common.errors import DataError
from zofedht.common.machine.files import make_folder, replace_file
from zofedht.experiments.report.best import best_blocks, is_linear
from zofedht.experiments.report.markdown import table
from zofedht.experiments.report.pictures import draw_figure, save_figure
from zofedht.experiments.report.summaries import (
    DIVERGED,
    claims_text,
    missing_text,
    published_text,
    tuned_text,
    weights_text,
    winners_text,
)
from zofedht.experiments.study.cell_lines import read_lines
from zofedht.experiments.study.results import Study, read_study

__all__ = ["write_report"]

_OTHER_FILES = ("table1.csv", "table1.png", "theory.md")


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
    blocks = ["# ZOFedHT: reproduction of the paper's section IV", "## Claims", claims_text(own)]
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
    failed = sum(not outcome.loss < DIVERGED for outcome in study.outcomes)
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
    blocks += ["### Tuned cells", tuned_text(study, panels), "### Who wins where", winners_text(study, panels)]
    weights = weights_text(study, panels)
    if weights:
        blocks += ["### ZOFedHT by alpha", weights]
    compared = published_text(study, panels)
    if compared:
        blocks += ["### Against the authors' published best losses", compared]
    return [*blocks, "### What is missing", missing_text(study, panels)]


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
