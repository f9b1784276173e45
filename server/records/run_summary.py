"""How a run ended, as fields: losses, costs, what helped and what was lost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from zofedht.common.config.run_config import RunConfig
from zofedht.common.privacy.masking import resolution
from zofedht.common.typing import Vector
from zofedht.server.aggregation.combine import summed_outliers
from zofedht.server.auto import count_interventions
from zofedht.server.core.points import search_about
from zofedht.server.core.round_record import signed
from zofedht.server.core.state import ServerState
from zofedht.server.delivery.fallbacks import count_fallbacks
from zofedht.server.evaluation.full_evaluation import FullEvaluation, evaluation_summary
from zofedht.server.evaluation.verdict import Verdict
from zofedht.server.privacy import Account
from zofedht.server.records.lost import count_lost

__all__ = ["summary_of"]


def summary_of(
    config: RunConfig,
    state: ServerState,
    verdict: Verdict,
    initial: FullEvaluation,
    last: FullEvaluation,
    rows: Sequence[Mapping[str, Any]],
    sign: float,
) -> dict[str, Any]:
    """Return what summary.json says of a run's end; ``rows`` are its history, ``sign`` is -1 where F is maximised."""
    metrics = signed(verdict.evaluation.metrics, sign)
    return {
        "initial_train_loss": initial.metrics.get("train_loss"),
        "final_train_loss": metrics.get("train_loss"),
        "last_train_loss": signed(last.metrics, sign).get("train_loss"),
        "final_train_accuracy": metrics.get("train_accuracy"),
        "test_accuracy": metrics.get("test_accuracy"),
        "final_metrics": dict(metrics),
        "maximize": sign < 0.0,
        **verdict.about(sign),
        **evaluation_summary(initial, last),
        "rounds": state.round,
        "evaluations": state.totals.evaluations,
        "full_evaluations": state.totals.full_evaluations,
        "bytes_up": state.totals.bytes_up,
        "bytes_down": state.totals.bytes_down,
        "seconds": round(state.totals.seconds, 3),
        "interventions": count_interventions(rows),
        "fallbacks": count_fallbacks(rows),
        "outliers": summed_outliers(rows),
        "lost": count_lost(rows, config.local_steps),
        "at_bounds": _at_bounds(state, verdict.chosen.x),
        "search": search_about(state, config),
        "slope_rounding": resolution(config.slope_range) / 2 if config.secure_aggregation else 0.0,
        "privacy": Account(config).about(state.exposure),
        "settings": state.settings_at(verdict.chosen.x),
        "last_settings": state.settings,
        "tensors": None if state.tensors is None else asdict(state.tensors),
    }


def _at_bounds(state: ServerState, x: Vector) -> dict[str, int]:
    if state.units is None or not state.units.bounded:
        return {}
    found, free = state.units.at_bounds(x) if state.space is None else state.space.at_bounds(state.in_user_units(x))
    return {"parameters": found, "of": free}
