"""Each algorithm at its best schedule: the better of a study and its companion with a linear step."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from zofedht.experiments.report.evidence import SHARE, budget_share
from zofedht.experiments.report.markdown import table
from zofedht.experiments.report.pictures import draw_figure, save_figure
from zofedht.experiments.study.cells import Panel
from zofedht.experiments.study.presets import LINEAR
from zofedht.experiments.study.results import Chosen, Study

__all__ = ["best_blocks", "is_linear"]

_LENGTH = ("rounds", "budget", "train_rows", "epochs")


def is_linear(study: Study) -> bool:
    """Whether a study is the companion of another one, with a linear step."""
    return study.preset.name.endswith(LINEAR)


def best_blocks(companion: Study, studies: Sequence[Study], out: Path, written: list[Path]) -> list[str]:
    """Return the blocks that compare algorithms at their best schedules, and write the pictures into ``out``.

    Panels that only one of both studies has are not compared.
    """
    name = companion.preset.name.removesuffix(LINEAR)
    bases = [
        study
        for study in studies
        if study.preset.name == name and all(study.about.get(k) == companion.about.get(k) for k in _LENGTH)
    ]
    if not bases:
        return []
    base = bases[0]
    merged = _merged(base, companion)
    blocks = [
        f"## Study `{name}`, each algorithm at its best schedule",
        "The better of eta_0/sqrt(r+1), the paper's, and a step that falls linearly to 0;"
        f" {len(companion.outcomes)} runs more. `zofed-shrink` is [a row of ours](family.md) and has the linear step"
        " only. Panels that were not run with both schedules are left out.",
    ]
    for partition, number in (("iid", 1), (base.preset.non_iid, 2)):
        if not any(panel.partition == partition for panel in merged.panels()):
            continue
        title = f"{name} preset, {partition} rows (figure {number}), each algorithm at its best schedule"
        path = out / f"{name}-best-{partition}.png"
        save_figure(draw_figure(merged, partition, title), path)
        written.append(path)
        blocks.append(f"![{name}, {partition}, best schedules: figure {number} of the paper]({path.name})")
    rows = [_row(merged, panel) for panel in merged.panels()]
    algorithms = companion.preset.algorithms
    return [
        *blocks,
        table(["panel", *algorithms], [[row.get(key, "-") for key in ("panel", *algorithms)] for row in rows]),
    ]


def _merged(base: Study, companion: Study) -> Study:
    """Return the study of the better tuned cells."""
    better = []
    for panel in sorted(set(base.panels()) & set(companion.panels())):
        cells: dict[str, Chosen] = {}
        for chosen in (*base.chosen(panel), *companion.chosen(panel)):
            known = cells.setdefault(chosen.algorithm, chosen)
            if _value(base, chosen) < _value(base, known):
                cells[chosen.algorithm] = chosen
        better += [outcome for chosen in cells.values() for outcome in chosen.outcomes]
    return Study(f"{base.name}-best", base.preset, base.about, tuple(better))


def _value(base: Study, chosen: Chosen) -> float:
    return chosen.value(base.preset.selection)


def _row(study: Study, panel: Panel) -> dict[str, str]:
    row = {"panel": panel.title}
    for chosen in study.chosen(panel):
        share = budget_share(chosen)
        part = "" if share >= SHARE else f", {share:.0%} of the budget"
        runs = f"{len(chosen.losses)} run{'s' if len(chosen.losses) > 1 else ''}"
        alpha = "" if chosen.alpha is None else f", alpha {chosen.alpha:g}"
        loss = f"{chosen.value(study.preset.selection):.4f}"
        row[chosen.algorithm] = f"{loss} ({chosen.schedule}, eta {chosen.eta:g}{alpha}, {runs}{part})"
    return row
