"""Tables that compare ``auto`` with the best of a grid."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from zofedht.common.choices import AUTO
from zofedht.common.config.run_config import START_WEIGHT
from zofedht.experiments.report.markdown import table
from zofedht.experiments.study.cells import Panel

__all__ = ["STEP_GOAL", "WEIGHT_GOAL", "AutoResult", "page", "step_rows", "weight_rows"]

STEP_GOAL = 0.10
"""step-size auto may end this much above the best step size of the grid."""

WEIGHT_GOAL = 0.02
"""subspace-weight auto may end this much above the better of zofedavg-sgd and the fixed weight."""


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
    head = ["panel", "directions", "best of the grid", "its step size", "auto", "excess", f"within {STEP_GOAL:.0%}"]
    parts = [about, "### step-size = auto against the best step size of the grid", table(head, step_rows(results))]
    head = ["panel", "zofedavg-sgd", f"weight {START_WEIGHT:g}", "weight auto", "excess", f"within {WEIGHT_GOAL:.0%}"]
    head += ["both auto", "excess of both"]
    parts += ["### subspace-weight = auto, each at its best step size of the grid", table(head, weight_rows(results))]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def step_rows(results: Sequence[AutoResult]) -> list[list[str]]:
    """Return a row for each panel and law of directions that has both."""
    rows = []
    for panel in _panels(results):
        for algorithm, weight in (("zofedavg-sgd", 0.0), ("zofedht", START_WEIGHT)):
            best = _best(results, panel, algorithm, weight)
            auto = _mean(results, panel, algorithm, AUTO, weight)
            if best is None or auto is None:
                continue
            excess = auto / best[0] - 1.0
            shown = "isotropic" if algorithm == "zofedavg-sgd" else f"weight {START_WEIGHT:g}"
            verdict = "yes" if excess <= STEP_GOAL else "**no**"
            rows.append(
                [panel.title, shown, f"{best[0]:.4f}", f"{best[1]:g}", f"{auto:.4f}", f"{excess:+.1%}", verdict]
            )
    return rows


def weight_rows(results: Sequence[AutoResult]) -> list[list[str]]:
    """Return a row for each panel that has all three."""
    rows = []
    for panel in _panels(results):
        plain = _best(results, panel, "zofedavg-sgd", 0.0)
        fixed = _best(results, panel, "zofedht", START_WEIGHT)
        auto = _best(results, panel, "zofedht", AUTO)
        if plain is None or fixed is None or auto is None:
            continue
        better = min(plain[0], fixed[0])
        excess = auto[0] / better - 1.0
        both = _mean(results, panel, "zofedht", AUTO, AUTO)
        rows.append(
            [
                panel.title,
                *(f"{loss:.4f} ({step:g})" for loss, step in (plain, fixed, auto)),
                f"{excess:+.1%}",
                "yes" if excess <= WEIGHT_GOAL else "**no**",
                "-" if both is None else f"{both:.4f}",
                "-" if both is None else f"{both / better - 1.0:+.1%}",
            ]
        )
    return rows


def _panels(results: Sequence[AutoResult]) -> list[Panel]:
    return list(dict.fromkeys(result.panel for result in results))


def _mean(
    results: Sequence[AutoResult], panel: Panel, algorithm: str, step: float | str, weight: float | str
) -> float | None:
    wanted = (panel, algorithm, step, weight)
    losses = [r.loss for r in results if (r.panel, r.algorithm, r.step, r.weight) == wanted]
    return fmean(losses) if losses else None


def _best(
    results: Sequence[AutoResult], panel: Panel, algorithm: str, weight: float | str
) -> tuple[float, float] | None:
    """The lowest mean loss over the step sizes of the grid, and its step size."""
    steps = {r.step for r in results if r.panel == panel and isinstance(r.step, float)}
    means = {step: _mean(results, panel, algorithm, step, weight) for step in steps}
    known = [(loss, step) for step, loss in means.items() if loss is not None and isinstance(step, float)]
    return min(known, default=None) if any(math.isfinite(loss) for loss, _ in known) else None
