"""How a run ended, as fields: losses, costs, what helped and what was lost.

A failed evaluation costs what on-error says: the client skips the step or fails the slot (``client/steps``), the server
sorts replies into failures and skipped steps (``aggregation``), and this module sums them up for people. A lost slot
adds no evaluations to the run's count; a skipped step is counted in full.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from zofedht.common.config.run_config import RunConfig
from zofedht.common.errors import EVALUATION_FAILED
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

__all__ = ["count_lost", "lost_counts", "summary_of", "worth_skipping"]

_WORTH_A_HINT = 4  # slots lost by failed evaluations
_LONGEST = 200  # characters of a reason


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


def count_lost(rows: Iterable[Mapping[str, Any]], local_steps: int) -> dict[str, Any]:
    """Return the totals of a history.

    So many ``slots`` were lost ``of_slots``; a slot that was asked again counts again, and a stale reply is no slot.
    They are counted by ``causes``. An evaluation raised or gave no number in ``failed_evaluations`` of them. Of the
    other slots ``steps`` were skipped ``of_steps``; where slots evaluate F at points, these are lost values, as ``of``
    says. The sentence that came up most is ``reason``, or empty.
    """
    steps = of_steps = replies = 0
    of = "steps"
    causes: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    for row in rows:
        replies += row["replies"]
        of_steps += row["replies"] * (row.get("points") or local_steps)
        of = "values" if row.get("points") else of
        lost = [failure for failure in row["failures"] if failure["cause"] != "stale"]
        causes.update(failure["cause"] for failure in lost)
        reasons.update(failure["reason"] for failure in lost)
        for skipped in row["skipped"]:
            steps += skipped["steps"]
            reasons[skipped["reason"]] += skipped["steps"]
    reason = reasons.most_common(1)[0][0] if reasons else ""
    return {
        "slots": causes.total(),
        "of_slots": causes.total() + replies,
        "causes": dict(causes),
        "failed_evaluations": sum(causes[cause] for cause in EVALUATION_FAILED),
        "steps": steps,
        "of_steps": of_steps,
        "of": of,
        "reason": reason if len(reason) <= _LONGEST else f"{reason[: _LONGEST - 3]}...",
    }


def lost_counts(lost: Mapping[str, Any]) -> list[str]:
    """Return ``3 of 50 slots`` and ``7 of 900 steps`` (or values) of the totals, without what was not lost."""
    return [
        f"{lost[key]:,} of {lost[f'of_{key}']:,} {what}"
        for key, what in (("slots", "slots"), ("steps", lost["of"]))
        if lost[key]
    ]


def worth_skipping(lost: Mapping[str, Any], on_error: str) -> bool:
    """Return whether failed evaluations cost so many slots that on-error = skip-step is worth a hint."""
    return lost["of"] == "steps" and on_error == "drop-slot" and lost["failed_evaluations"] >= _WORTH_A_HINT
