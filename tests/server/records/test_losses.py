"""The totals of what a run lost: whatever is in a history is counted once, and its commonest reason is found."""

from __future__ import annotations

from typing import Any

from zofedht.server.records.losses import count_losses


def _row(replies: int, failures: list[str], skipped: dict[str, int] | None = None) -> dict[str, Any]:
    lines = [{"slot": 0, "client": "1", "steps": steps, "reason": why} for why, steps in (skipped or {}).items()]
    return {
        "replies": replies,
        "failures": [{"slot": 0, "client": "1", "reason": why} for why in failures],
        "skipped": lines,
    }


def test_nothing_lost_is_nothing() -> None:
    found = count_losses([_row(5, []), {"replies": 2}], 50)  # older rows have no other fields
    assert found == {
        "slots": 0, "of_slots": 7, "failed_evaluations": 0, "steps": 0, "of_steps": 350, "reason": "",
    }  # fmt: skip


def test_reasons_are_the_same_in_every_round_and_step() -> None:
    sticks = "the objective raised RuntimeError: the valve sticks (valve.py, line 3, in value)"
    late = "no answer within round-timeout = 300 seconds"
    rows = [
        _row(4, [late, f"round 3, step 7: {sticks}", late]),
        _row(4, [f"round 4, step 0: {sticks}; so it went in all 50 steps", f"round 4, step 12: {sticks}"]),
        _row(5, ["stale: answered round 3, asked was round 5", "a second reply for the same slot"]),
    ]
    found = count_losses(rows, 50)
    assert (found["slots"], found["of_slots"], found["failed_evaluations"]) == (5, 18, 3)
    assert found["reason"] == sticks


def test_skipped_steps_weigh_by_their_number_and_a_long_reason_is_cut() -> None:
    rows = [_row(3, ["gone"], {"round 0, step 1: " + "x" * 300: 4}), _row(3, ["gone"], {"round 1, step 2: other": 1})]
    found = count_losses(rows, 10)
    assert (found["steps"], found["of_steps"]) == (5, 60)
    assert found["reason"] == "x" * 117 + "..."


def test_steps_that_are_too_long_are_no_failed_evaluations() -> None:
    away = "round 0, step 3: the slope is inf, not a finite number; a smaller step-size or radius usually cures this"
    found = count_losses([_row(3, [away] * 6)], 10)
    assert (found["slots"], found["failed_evaluations"]) == (6, 0)
