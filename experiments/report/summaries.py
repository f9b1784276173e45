"""What a report says over panels: what its claims are, which settings won, what is published and what is missing."""

from __future__ import annotations

import math
from collections.abc import Sequence

from zofedht.experiments.report.claims import FEWEST, NOT_ENOUGH, NOT_RUN, judge, winner
from zofedht.experiments.report.evidence import RUNS, TIE, place
from zofedht.experiments.report.markdown import table
from zofedht.experiments.study.cells import Panel
from zofedht.experiments.study.presets import ALPHAS, ETAS
from zofedht.experiments.study.published import PUBLISHED, PUBLISHED_ROWS
from zofedht.experiments.study.results import Chosen, Study, lowest

__all__ = ["DIVERGED", "claims_text", "missing_text", "published_text", "tuned_text", "weights_text", "winners_text"]

_OPEN = (NOT_ENOUGH, NOT_RUN)
_PLACES = {"inside": "", "edge": " (edge)", "only": " (only)"}
DIVERGED = 1e3  # no starting point scores as much: what ends above it was on its way out


def claims_text(studies: Sequence[Study]) -> str:
    """Return each claim with its verdict and its evidence."""
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


def tuned_text(study: Study, panels: Sequence[Panel]) -> str:
    """Return the table of the tuned cells."""
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


def winners_text(study: Study, panels: Sequence[Panel]) -> str:
    """Return the table of the better schedules."""
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


def weights_text(study: Study, panels: Sequence[Panel]) -> str:
    """Return the table of the first repeat's loss at each alpha, with the best eta_0 for that alpha."""
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


def published_text(study: Study, panels: Sequence[Panel]) -> str:
    """Return the published numbers beside ours."""
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


def missing_text(study: Study, panels: Sequence[Panel]) -> str:
    """Return what is missing of a whole study."""
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
    """Return what is missing of a whole study."""
    found = [outcome.result["test_accuracy"] for outcome in chosen.outcomes]
    known = [value for value in found if value is not None]
    return f"{sum(known) / len(known):.4f}" if known else "-"


def _loss(value: float) -> str:
    if math.isnan(value):
        return "-"
    return f"{value:.4f}" if value < DIVERGED else "diverged"
