"""What a run lost in all: slots that gave nothing, steps that were skipped, and the reason that came up most.

A failed evaluation costs what on-error says: the client skips the step or fails the slot (``client/steps``), the server
sorts replies into failures and skipped steps (``aggregation``), and this module sums them up for people. A lost slot
adds no evaluations to the run's count; a skipped step is counted in full.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from zofedht.common.errors import EVALUATION_FAILED

__all__ = ["count_lost", "lost_counts", "worth_skipping"]

_WORTH_A_HINT = 4  # slots lost by failed evaluations
_LONGEST = 200  # characters of a reason


def count_lost(rows: Iterable[Mapping[str, Any]], local_steps: int) -> dict[str, Any]:
    """Return the totals of a history.

    ``slots`` were lost ``of_slots``, a slot that was asked again counted again. ``causes`` counts them by cause,
    ``failed_evaluations`` those with an evaluation that raised or gave no number. ``steps`` of the other slots were
    skipped ``of_steps``; where slots evaluate F at points, these are values that were lost, as ``of`` says.
    ``reason`` is the sentence that came up most, or empty. A stale reply is no slot.
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
