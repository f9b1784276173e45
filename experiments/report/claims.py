"""The claims of the paper's section IV, judged by the finished cells of studies.

A verdict other than "not enough" rests on panels with three runs at the whole budget of tuned cells (``evidence``).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from zofedht.experiments.report.evidence import RUNS, SHARE, TIE, Compared, budget_share, compare
from zofedht.experiments.study.cells import Panel
from zofedht.experiments.study.presets import COMMON
from zofedht.experiments.study.results import Chosen, Study, curve

__all__ = ["FEWEST", "NOT_ENOUGH", "NOT_RUN", "Verdict", "Winner", "judge", "winner"]

NOT_ENOUGH, NOT_RUN = "not enough", "not run"

_NON_IID = {"thirds", "sorted", "sorted-binary", "dirichlet"}
_PANELS = {"iid": 9, "non-iid": 9}  # of the paper's figures
_SIGNIFICANT = 1.2  # the ratio of two costs from which the larger one is called significant
FEWEST = 3  # panels from which a claim about all panels can hold
_EARLY = 0.1  # the part of the budget that is the early phase


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
    verdict: str  # holds ... | holds only if ... | does not hold ... | not enough | not run
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
    panel is worse by as much, among the panels that are evidence, three at least. One panel can show that it does not.
    """
    verdicts = []
    for word, names in (("iid", {"iid"}), ("non-iid", _NON_IID)):
        for rival, title in (("zofedavg-sgd", "ZOFedAvg-SGD"), ("zofedavg-gd", "ZOFedAvg-GD")):
            verdicts.append(_beats(studies, word, names, rival, title))
    return [*verdicts, _fast_then_slow(studies), _overhead(studies)]


def _beats(studies: Sequence[Study], word: str, names: set[str], rival: str, title: str) -> Verdict:
    claim = f"{word}: ZOFedHT ends with a lower training loss than {title}"
    found: dict[str, list[Compared]] = {}
    for study in studies:
        for panel in study.panels():
            compared = compare(study, panel, rival) if panel.partition in names else None
            if compared:
                condition = f"covariance {study.preset.covariance}, {panel.partition}"
                found.setdefault(condition, []).append(compared)
    if not found:
        return Verdict(claim, NOT_RUN, "-")
    states = {condition: _state([row for row in rows if not row.lacks]) for condition, rows in found.items()}
    evidence = [_rows_text(condition, rows, word) for condition, rows in sorted(found.items(), reverse=True)]
    counted = {condition: sum(not row.lacks for row in rows) for condition, rows in found.items()}
    return Verdict(claim, _verdict(states, counted, _PANELS[word]), "; ".join(evidence))


def _state(rows: Sequence[Compared]) -> str:
    """Return holds, mixed, fails or unknown: what panels that are evidence say under one reading."""
    counts = Counter(row.outcome for row in rows)
    if counts["worse"] or (rows and not counts["better"]):
        return "mixed" if counts["better"] else "fails"
    return "holds" if len(rows) >= FEWEST else "unknown"


def _verdict(states: dict[str, str], counted: dict[str, int], panels: int) -> str:
    """Return the verdict from the state and the number of panels that count under each reading."""
    known = {condition: state for condition, state in states.items() if state != "unknown"}
    if not known:
        return NOT_ENOUGH
    holds = sorted((condition for condition, state in known.items() if state == "holds"), reverse=True)
    if holds:
        verdict = "holds"
        if len(holds) < len(known):
            verdict += f" only if {' or '.join(holds)}"
        elif len(holds) < len(states):
            verdict += f" for {' and '.join(holds)}"
    else:
        verdict = "does not hold in general" if "mixed" in known.values() else "does not hold"
    unknown = sorted((condition for condition in states if condition not in known), reverse=True)
    if not holds and unknown:
        verdict += f" for {' and '.join(sorted(known, reverse=True))}"
    fewest = min(counted[condition] for condition in holds or known)
    verdict += f", on {fewest} of {panels} panels" if fewest < panels else ""
    return verdict + (f"; {NOT_ENOUGH} for {' and '.join(unknown)}" if unknown else "")


def _rows_text(condition: str, rows: Sequence[Compared], word: str) -> str:
    counts = Counter(row.outcome for row in rows if not row.lacks)
    lacking = Counter(reason for row in rows for reason in row.lacks)
    text = (
        f"{condition}, {len(rows)} of {_PANELS[word]} panels: better {counts['better']}, tie {counts['tie']}, worse"
        f" {counts['worse']}, no evidence {sum(bool(row.lacks) for row in rows)}"
    )
    if lacking:
        text += f" ({', '.join(f'{count} with {reason}' for reason, count in sorted(lacking.items()))})"
    return f"{text}: {', '.join(row.text for row in rows)}"


def _fast_then_slow(studies: Sequence[Study]) -> Verdict:
    """Compare the mean losses at a tenth of the budget and at the end, on rcv1 with non-iid rows."""
    claim = "non-iid rcv1: ZOFedHT is ahead of ZOFedAvg-SGD early and behind at the end"
    texts, states = [], []
    for study in studies:
        for panel in study.panels():
            if panel.dataset != "rcv1" or panel.partition not in _NON_IID:
                continue
            compared = compare(study, panel, "zofedavg-sgd")
            if compared is None:
                continue
            pair = {chosen.algorithm: chosen for chosen in study.chosen(panel)}
            early = [_mean_at(pair[name], _EARLY) for name in ("zofedht", "zofedavg-sgd")]
            gain = (early[1] - early[0]) / early[1]
            first = _first_basis(pair["zofedht"])
            note = f", but Q is first made at {first:.0%} of the budget" if first > _EARLY else ""
            name = f"{study.preset.name} {panel.model} {panel.partition}"
            texts.append(f"{name}: {gain:+.1%} early{note}, end {compared.text}")
            if not compared.lacks and not note:
                states.append(gain >= TIE and compared.outcome == "worse")
    if not texts:
        return Verdict(claim, NOT_RUN, "-")
    verdict = NOT_ENOUGH if not states else "holds" if all(states) else "does not hold" if not any(states) else "mixed"
    return Verdict(claim, verdict, "; ".join(texts))


def _first_basis(chosen: Chosen) -> float:
    """Return the part of the runs that is over when the first Q is made."""
    result = chosen.outcomes[0].result
    rounds = result["rounds"] or math.inf  # none where the run diverged
    return float(result["config"].get("memory", COMMON["memory"])) / rounds


def _mean_at(chosen: Chosen, share: float) -> float:
    """Return the mean loss of the repeats at a part of their evaluations."""
    evaluations, losses = curve(chosen.outcomes)
    return float(np.interp(share * evaluations[-1], evaluations, losses.mean(axis=0)))


def _overhead(studies: Sequence[Study]) -> Verdict:
    """Compare bytes a round and CPU seconds an evaluation, over the panels that have both algorithms."""
    claim = "ZOFedHT adds no significant communication or local computation to ZOFedAvg-SGD"
    up, down, seconds, short = [], [], [], 0
    for study in studies:
        for panel in study.panels():
            pair = {chosen.algorithm: chosen for chosen in study.chosen(panel)}
            if not {"zofedht", "zofedavg-sgd"} <= set(pair):
                continue
            ours, theirs = pair["zofedht"], pair["zofedavg-sgd"]
            costs = [_costs(ours), _costs(theirs)]
            if None in costs:
                continue
            if min(budget_share(ours), budget_share(theirs)) < SHARE:
                short += 1
                continue
            ht, sgd = (cost for cost in costs if cost is not None)
            up.append(ht[0] / sgd[0])
            down.append(ht[1] / sgd[1])
            if ht[2] and sgd[2]:
                seconds.append(ht[2] / sgd[2])
    if len(up) < RUNS:
        note = f"panels at the whole budget: {len(up)}, at less: {short}; {RUNS} are needed"
        return Verdict(claim, NOT_ENOUGH if up or short else NOT_RUN, note if up or short else "-")
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
    if outcome.traffic is None or not math.isfinite(outcome.loss):
        return None
    return *outcome.traffic, float(outcome.result["cpu_seconds"]) / outcome.result["evaluations"]
