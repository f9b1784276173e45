"""The totals of what a run lost: whatever is in a history is counted once, and its commonest reason is found."""

from __future__ import annotations

from typing import Any

from zofedht.server.records.run_summary import count_lost, lost_counts, worth_skipping

STICKS = "the objective raised RuntimeError: the valve sticks (valve.py, line 3, in value)"


def _row(replies: int, failures: list[tuple[str, str]], skipped: dict[str, int] | None = None) -> dict[str, Any]:
    place = {"slot": 0, "client": "1", "step": 3}
    return {
        "replies": replies,
        "failures": [place | {"cause": cause, "reason": why} for cause, why in failures],
        "skipped": [place | {"steps": n, "cause": "raised", "reason": why} for why, n in (skipped or {}).items()],
    }


def test_without_losses_all_counts_are_zero() -> None:
    found = count_lost([_row(5, []), _row(2, [])], 50)
    assert found == {
        "slots": 0, "of_slots": 7, "causes": {}, "failed_evaluations": 0, "steps": 0, "of_steps": 350, "of": "steps",
        "reason": "",
    }  # fmt: skip


def test_lost_slots_are_counted_by_cause() -> None:
    late = ("no-answer", "no answer within round-timeout = 300 seconds")
    rows = [
        _row(4, [late, ("raised", STICKS), late]),
        _row(4, [("raised", STICKS), ("raised", STICKS), ("not-a-loss", "it returned None")]),
        _row(5, [("stale", "answered round 3, asked was round 5")] * 9),
    ]
    found = count_lost(rows, 50)
    assert (found["slots"], found["of_slots"], found["failed_evaluations"]) == (6, 19, 4)
    assert found["causes"] == {"no-answer": 2, "raised": 3, "not-a-loss": 1}
    assert found["reason"] == STICKS


def test_skipped_steps_count_by_their_number() -> None:
    gone = ("no-answer", "gone")
    found = count_lost([_row(3, [gone], {"x" * 300: 4}), _row(3, [gone], {"other": 1})], 10)
    assert (found["steps"], found["of_steps"]) == (5, 60)
    assert found["reason"] == "x" * 197 + "..."


def test_too_long_steps_are_no_failed_evaluations() -> None:
    """Whatever the sentence says: only the cause is read."""
    found = count_lost([_row(3, [("not-finite", STICKS)] * 6)], 10)
    assert (found["slots"], found["failed_evaluations"]) == (6, 0)


def test_values_of_points_are_no_steps() -> None:
    row = _row(3, [], {STICKS: 2}) | {"points": 8}
    assert lost_counts(count_lost([row], 50)) == ["2 of 24 values"]
    assert lost_counts(count_lost([_row(3, [("raised", STICKS)], {STICKS: 2})], 50)) == [
        "1 of 4 slots",
        "2 of 150 steps",
    ]


def test_many_failed_slots_are_worth_a_hint() -> None:
    lost = count_lost([_row(3, [("raised", STICKS)] * 4)], 50)
    assert worth_skipping(lost, "drop-slot")
    assert not worth_skipping(lost, "skip-step")
    assert not worth_skipping(lost | {"of": "values"}, "drop-slot")
    assert not worth_skipping(count_lost([_row(3, [("raised", STICKS)])], 50), "drop-slot")
