"""What a comparison of two tuned cells rests on, and what it lacks to be evidence.

The paper has three runs of each tuned cell, its whole grid and one budget for all. A comparison that has less says so.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass

from zofedht.experiments.study.cells import Panel, full_budget
from zofedht.experiments.study.presets import ALPHAS, ETAS
from zofedht.experiments.study.results import Chosen, Outcome, Study

__all__ = ["RUNS", "SHARE", "TIE", "Compared", "budget_share", "compare", "place"]

TIE = 0.01
"""Losses that differ by a smaller share of the rival's loss are a tie: another seed moves a single run by as much."""

RUNS = 3
"""Runs of a tuned cell, as in the paper."""

SHARE = 0.95
"""The part of the budget that a run must have had: rounds do not divide it."""


@dataclass(frozen=True)
class Compared:
    """ZOFedHT against a rival in one panel."""

    panel: Panel
    gain: float  # by what share of the rival's loss ZOFedHT's is lower
    runs: int  # the fewer of both
    share: float  # of the budget, the smaller of both
    edges: tuple[str, ...]  # algorithms whose step size is the smallest or largest tried
    lacks: tuple[str, ...]  # why this is not evidence; nothing where it is

    @property
    def outcome(self) -> str:
        """Better, tie or worse."""
        return "tie" if abs(self.gain) < TIE else "better" if self.gain > 0.0 else "worse"

    @property
    def text(self) -> str:
        """The comparison with what it rests on."""
        runs = f"{self.runs} run{'s' if self.runs > 1 else ''}"
        edges = f", at the edge: {' and '.join(self.edges)}" if self.edges else ""
        rests_on = f"{runs}, {self.share:.0%} of the budget{edges}"
        return f"{self.panel.dataset} {self.panel.model} {self.gain:+.1%} ({rests_on})"


def compare(study: Study, panel: Panel, rival: str) -> Compared | None:
    """Return ZOFedHT against a rival, None where one of both has no finished cell.

    Which of both ends higher must have been tuned: the other can only gain by more tuning. Tuned means that the best
    step size lies within those tried, or that all of the paper's were tried, and for ZOFedHT its weights, too.
    """
    pair = {chosen.algorithm: chosen for chosen in study.chosen(panel)}
    if not {"zofedht", rival} <= set(pair):
        return None
    ours, theirs = pair["zofedht"], pair[rival]
    rule = study.preset.selection
    gain = _gain(ours.value(rule), theirs.value(rule))
    runs = min(len(ours.losses), len(theirs.losses))
    share = min(budget_share(chosen) for chosen in (ours, theirs))
    tried = {name: [o for o in study.outcomes if (o.cell.panel, o.cell.algorithm) == (panel, name)] for name in pair}
    edges = tuple(
        chosen.algorithm for chosen in (ours, theirs) if place(chosen.eta, _etas(tried[chosen.algorithm])) != "inside"
    )
    higher = [ours, theirs] if abs(gain) < TIE else [theirs] if gain > 0.0 else [ours]
    lacks = []
    if runs < RUNS:
        lacks.append(f"fewer than {RUNS} runs")
    if share < SHARE:
        lacks.append("less than the budget")
    if any(chosen.algorithm in edges and not set(ETAS) <= _etas(tried[chosen.algorithm]) for chosen in higher):
        lacks.append("a step size at the edge of those tried")
    if ours in higher and not set(ALPHAS) <= {o.cell.alpha for o in tried["zofedht"]}:
        lacks.append("weights not tried")
    return Compared(panel, gain, runs, share, edges, tuple(lacks))


def budget_share(chosen: Chosen) -> float:
    """Return the part of the whole budget that the least of these runs had; one that diverged counts as planned."""
    used = [
        float(o.result["evaluations"] if math.isfinite(o.loss) else o.result["config"].get("budget", 0))
        for o in chosen.outcomes
    ]
    return min(used) / full_budget(chosen.outcomes[0].cell.panel.dataset)


def place(eta: float, tried: Collection[float]) -> str:
    """Return where the best step size lies among those tried: inside, edge, or only."""
    if len(tried) == 1:
        return "only"
    return "edge" if eta in (min(tried), max(tried)) else "inside"


def _etas(outcomes: Collection[Outcome]) -> set[float]:
    return {outcome.cell.eta for outcome in outcomes}


def _gain(loss: float, rival: float) -> float:
    """Return by what share of the rival's loss ``loss`` is lower; a diverged run loses to every other run."""
    if math.isfinite(loss) and math.isfinite(rival):
        return (rival - loss) / abs(rival)
    return 0.0 if loss == rival else math.copysign(math.inf, rival - loss)
