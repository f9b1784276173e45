"""Tables that compare ``auto`` with the best of a grid."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from zofedht.common.choices import AUTO
from zofedht.common.config.derived_keys import START_WEIGHT
from zofedht.experiments.report.markdown import table
from zofedht.experiments.study.cells import Panel

__all__ = ["STEP_GOAL", "WEIGHT_GOAL", "AutoResult", "page", "step_rows", "weight_rows"]

_SGD = "zofedavg-sgd"

STEP_GOAL = 0.10
"""step-size auto may end this much above the best step size of the grid."""

WEIGHT_GOAL = 0.02
"""subspace-weight auto may end this much above the better of zofedavg-sgd and the fixed weight, at step-size auto."""


@dataclass(frozen=True)
class AutoResult:
    """How one run ended."""

    panel: Panel
    algorithm: str
    step: float | str
    weight: float | str
    seed: int
    loss: float
    interventions: Mapping[str, int]


def page(results: Sequence[AutoResult], about: str) -> str:
    """Return the tables as Markdown."""
    head = ["panel", "best of the grid", "its step size", "auto", "excess", f"within {STEP_GOAL:.0%}", "worst seed"]
    parts = [about, "### step-size = auto against the best step size of the grid", table(head, step_rows(results))]
    head = ["panel", "zofedavg-sgd", f"weight {START_WEIGHT:g}", "weight auto", "excess", f"within {WEIGHT_GOAL:.0%}"]
    parts += ["### subspace-weight = auto, all at step-size = auto", table(head, weight_rows(results))]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def step_rows(results: Sequence[AutoResult]) -> list[list[str]]:
    """Return a row for each panel that has both; the worst seed is against the same seed at the best step size."""
    rows = []
    for panel in _panels(results):
        steps = {r.step for r in results if r.panel == panel and isinstance(r.step, float)}
        grid = {step: losses for step in steps if (losses := _losses(results, panel, _SGD, step, 0.0))}
        auto = _losses(results, panel, _SGD, AUTO, 0.0)
        if not grid or not auto:
            continue
        best, step = min((fmean(losses.values()), step) for step, losses in grid.items())
        excess = fmean(auto.values()) / best - 1.0
        same = grid[step]
        worst = max((auto[seed] / same[seed] - 1.0 for seed in auto.keys() & same.keys()), default=math.nan)
        verdict = "yes" if excess <= STEP_GOAL else "**no**"
        numbers = (f"{best:.4f}", f"{step:g}", f"{fmean(auto.values()):.4f}", f"{excess:+.1%}")
        rows.append([panel.title, *numbers, verdict, f"{worst:+.1%}"])
    return rows


def weight_rows(results: Sequence[AutoResult]) -> list[list[str]]:
    """Return a row for each panel that has all three."""
    rows = []
    for panel in _panels(results):
        variants = ((_SGD, 0.0), ("zofedht", START_WEIGHT), ("zofedht", AUTO))
        found = [_losses(results, panel, algorithm, AUTO, weight) for algorithm, weight in variants]
        if not all(found):
            continue
        plain, fixed, auto = (fmean(losses.values()) for losses in found)
        excess = auto / min(plain, fixed) - 1.0
        verdict = "yes" if excess <= WEIGHT_GOAL else "**no**"
        rows.append([panel.title, *(f"{loss:.4f}" for loss in (plain, fixed, auto)), f"{excess:+.1%}", verdict])
    return rows


def _panels(results: Sequence[AutoResult]) -> list[Panel]:
    return list(dict.fromkeys(result.panel for result in results))


def _losses(
    results: Sequence[AutoResult], panel: Panel, algorithm: str, step: float | str, weight: float | str
) -> dict[int, float]:
    """The final losses by seed."""
    wanted = (panel, algorithm, step, weight)
    return {r.seed: r.loss for r in results if (r.panel, r.algorithm, r.step, r.weight) == wanted}
