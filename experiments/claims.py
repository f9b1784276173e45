"""Claims of the paper's section IV, judged by the finished cells."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from experiments.cell_run import HISTORY
from experiments.cells import Panel
from experiments.results import Chosen, Study
from server.history import read_history

__all__ = ["Verdict", "Winner", "judge", "winner"]

_HT = "zofedht"


@dataclass(frozen=True)
class Winner:
    """Who is first in a panel, and by how much."""

    panel: Panel
    first: Chosen
    second: Chosen
    margin: float  # second - first, by the preset's figure
    clear: bool | None  # the means differ by more than two standard errors; None where an sd is not known


@dataclass(frozen=True)
class Verdict:
    """A claim with what the runs say."""

    claim: str
    verdict: str  # holds | holds only if ... | does not hold | not run
    evidence: str


def winner(study: Study, panel: Panel) -> Winner | None:
    """Return who wins a panel by the preset's figure, None with fewer than two algorithms."""
    rule = study.preset.selection
    ranked = sorted(study.chosen(panel), key=lambda chosen: chosen.value(rule))
    if len(ranked) < 2:
        return None
    first, second = ranked[:2]
    error = math.sqrt(sum(chosen.sd**2 / len(chosen.losses) for chosen in (first, second)))
    clear = None if math.isnan(error) else second.mean - first.mean > 2.0 * error
    return Winner(panel, first, second, second.value(rule) - first.value(rule), clear)


def judge(studies: Sequence[Study]) -> list[Verdict]:
    """Return the verdicts that follow from these studies."""
    verdicts = []
    partitions = [("iid", {"iid"}), ("non-iid", {"thirds", "sorted", "sorted-binary", "dirichlet"})]
    for word, names in partitions:
        for rivals, title in (((_HT, "zofedavg-sgd"), "ZOFedAvg-SGD"), ((_HT, "zofedavg-gd"), "ZOFedAvg-GD")):
            verdicts.append(_beats(studies, word, names, rivals[1], title))
    verdicts.append(_overhead(studies))
    return verdicts


def _beats(studies: Sequence[Study], word: str, names: set[str], rival: str, title: str) -> Verdict:
    claim = f"{word}: ZOFedHT ends with a lower training loss than {title}"
    wins: dict[str, list[tuple[str, bool]]] = {}
    for study in studies:
        rule = study.preset.selection
        for panel in study.panels():
            pair = {chosen.algorithm: chosen for chosen in study.chosen(panel)}
            if panel.partition not in names or not {_HT, rival} <= set(pair):
                continue
            won = pair[_HT].value(rule) < pair[rival].value(rule)
            condition = f"covariance {study.preset.covariance}, {panel.partition}"
            text = f"{panel.dataset} {panel.model} {pair[_HT].value(rule):.4f} against {pair[rival].value(rule):.4f}"
            wins.setdefault(condition, []).append((text, won))
    if not wins:
        return Verdict(claim, "not run", "-")
    counts = {condition: (sum(won for _, won in rows), len(rows)) for condition, rows in wins.items()}
    evidence = "; ".join(
        f"{condition}: {won} of {of} ({', '.join(text for text, _ in wins[condition])})"
        for condition, (won, of) in counts.items()
    )
    all_won = [condition for condition, (won, of) in counts.items() if won == of]
    some = any(won for won, _ in counts.values())
    if len(all_won) == len(counts):
        verdict = "holds"
    elif all_won:
        verdict = f"holds only if {' or '.join(all_won)}"
    else:
        verdict = "does not hold in general" if some else "does not hold"
    return Verdict(claim, verdict, evidence)


def _overhead(studies: Sequence[Study]) -> Verdict:
    """Compare bytes a round and seconds an evaluation, over the panels that have both algorithms."""
    claim = "ZOFedHT adds no significant communication or local computation to ZOFedAvg-SGD"
    up, down, seconds = [], [], []
    for study in studies:
        for panel in study.panels():
            pair = {chosen.algorithm: chosen for chosen in study.chosen(panel)}
            if not {_HT, "zofedavg-sgd"} <= set(pair):
                continue
            costs = [_costs(pair[name]) for name in (_HT, "zofedavg-sgd")]
            if None in costs:
                continue
            ht, sgd = (cost for cost in costs if cost is not None)
            up.append(ht[0] / sgd[0])
            down.append(ht[1] / sgd[1])
            seconds.append(ht[2] / sgd[2])
    if not up:
        return Verdict(claim, "not run", "-")
    ratios = [sorted(values)[len(values) // 2] for values in (up, down, seconds)]
    verdict = "holds" if max(ratios) < 1.2 else "holds only if the downlink is not counted"
    return Verdict(
        claim,
        verdict,
        f"median over {len(up)} panels of ZOFedHT / ZOFedAvg-SGD: bytes up {ratios[0]:.2f}, bytes down {ratios[1]:.2f}"
        f" (x and, where it is not held, Q of 5 columns), wall time {ratios[2]:.2f} (on a shared machine)",
    )


def _costs(chosen: Chosen) -> tuple[float, float, float] | None:
    outcome = chosen.outcomes[0]
    rows = read_history(outcome.folder / HISTORY)
    if not rows or not math.isfinite(outcome.loss):
        return None
    last = rows[-1]
    rounds = last["round"] + 1
    return (
        last["bytes_up"] / rounds,
        last["bytes_down"] / rounds,
        float(outcome.result["seconds"]) / last["evaluations"],
    )
