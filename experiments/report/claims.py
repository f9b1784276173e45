"""The claims of the paper's section IV, judged by the finished cells of studies."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from zofedht.experiments.study.cell_run import HISTORY
from zofedht.experiments.study.cells import Panel
from zofedht.experiments.study.results import Chosen, Study
from zofedht.server.records.history import read_history

__all__ = ["TIE", "Verdict", "Winner", "judge", "winner"]

_HT = "zofedht"

TIE = 0.01
"""Losses that differ by a smaller share of the rival's loss are a tie: another seed moves a single run by as much."""


_SIGNIFICANT = 1.2  # the ratio of two costs from which the larger one is called significant


@dataclass(frozen=True)
class Winner:
    """The first algorithm of a panel, and its margin."""

    panel: Panel
    first: Chosen
    second: Chosen
    margin: float  # second - first, by the preset's selection
    clear: bool | None  # the means differ by more than two standard errors; None where an sd is unknown


@dataclass(frozen=True)
class Verdict:
    """A claim, and what the runs say of it."""

    claim: str
    verdict: str  # holds | holds only if ... | does not hold | not run
    evidence: str


def winner(study: Study, panel: Panel) -> Winner | None:
    """Return the winner of a panel by the preset's selection, None with fewer than two algorithms."""
    rule = study.preset.selection
    ranked = sorted(study.chosen(panel), key=lambda chosen: chosen.value(rule))
    if len(ranked) < 2:
        return None
    first, second = ranked[:2]
    error = math.sqrt(sum(chosen.sd**2 / len(chosen.losses) for chosen in (first, second)))
    clear = None if math.isnan(error) else second.mean - first.mean > 2.0 * error
    return Winner(panel, first, second, second.value(rule) - first.value(rule), clear)


def judge(studies: Sequence[Study]) -> list[Verdict]:
    """Return the verdicts that follow from these studies.

    "Lower" holds under a reading (covariance and split) when some panel of it is better by ``TIE`` or more and no
    panel is worse by as much.
    """
    verdicts = []
    partitions = [("iid", {"iid"}), ("non-iid", {"thirds", "sorted", "sorted-binary", "dirichlet"})]
    for word, names in partitions:
        for rivals, title in (((_HT, "zofedavg-sgd"), "ZOFedAvg-SGD"), ((_HT, "zofedavg-gd"), "ZOFedAvg-GD")):
            verdicts.append(_beats(studies, word, names, rivals[1], title))
    verdicts.append(_overhead(studies))
    return verdicts


def _beats(studies: Sequence[Study], word: str, names: set[str], rival: str, title: str) -> Verdict:
    claim = f"{word}: ZOFedHT ends with a lower training loss than {title}"
    found: dict[str, list[tuple[str, float]]] = {}
    for study in studies:
        rule = study.preset.selection
        for panel in study.panels():
            pair = {chosen.algorithm: chosen for chosen in study.chosen(panel)}
            if panel.partition not in names or not {_HT, rival} <= set(pair):
                continue
            gain = _gain(pair[_HT].value(rule), pair[rival].value(rule))
            condition = f"covariance {study.preset.covariance}, {panel.partition}"
            found.setdefault(condition, []).append((f"{panel.dataset} {panel.model} {gain:+.1%}", gain))
    if not found:
        return Verdict(claim, "not run", "-")
    evidence, holds, some = [], [], False
    for condition, rows in sorted(found.items(), reverse=True):
        better, worse = (sum(sign * gain >= TIE for _, gain in rows) for sign in (1, -1))
        some = some or better > 0
        if better and not worse:
            holds.append(condition)
        panels = ", ".join(text for text, _ in rows)
        evidence.append(f"{condition}: better {better}, tie {len(rows) - better - worse}, worse {worse} ({panels})")
    if len(holds) == len(found):
        verdict = "holds"
    elif holds:
        verdict = f"holds only if {' or '.join(holds)}"
    else:
        verdict = "does not hold in general" if some else "does not hold"
    return Verdict(claim, verdict, "; ".join(evidence))


def _gain(loss: float, rival: float) -> float:
    """Return by what share of the rival's loss ``loss`` is lower; a diverged run loses to every other run."""
    if math.isfinite(loss) and math.isfinite(rival):
        return (rival - loss) / abs(rival)
    return 0.0 if loss == rival else math.copysign(math.inf, rival - loss)


def _overhead(studies: Sequence[Study]) -> Verdict:
    """Compare bytes a round and CPU seconds an evaluation, over the panels that have both algorithms."""
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
            if ht[2] and sgd[2]:
                seconds.append(ht[2] / sgd[2])
    if not up:
        return Verdict(claim, "not run", "-")
    more_up, more_down = median(up), median(down)
    computing = f"CPU time {median(seconds):.2f} ({len(seconds)} panels)" if seconds else "CPU time not recorded"
    slow = bool(seconds) and median(seconds) >= _SIGNIFICANT
    if more_up >= _SIGNIFICANT or slow:
        verdict = "does not hold"
    else:
        verdict = "holds" if more_down < _SIGNIFICANT else "holds only if the downlink is not counted"
    return Verdict(
        claim,
        verdict,
        f"median over {len(up)} panels of ZOFedHT / ZOFedAvg-SGD: bytes up {more_up:.2f}, bytes down {more_down:.2f}"
        f" (x, and Q of 5 columns where a client lacks it), {computing}",
    )


def _costs(chosen: Chosen) -> tuple[float, float, float] | None:
    """Return bytes up and down a round, and CPU seconds an evaluation (0: not recorded)."""
    outcome = chosen.outcomes[0]
    rows = read_history(outcome.folder / HISTORY)
    if not rows or not math.isfinite(outcome.loss):
        return None
    last = rows[-1]
    rounds = last["round"] + 1
    return (
        last["bytes_up"] / rounds,
        last["bytes_down"] / rounds,
        float(outcome.result["cpu_seconds"]) / last["evaluations"],
    )
