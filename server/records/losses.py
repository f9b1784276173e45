"""What a run lost in all: slots that gave nothing, steps that were skipped, and the reason that came up most."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from zofedht.server.core.aggregation import RAN_AWAY

__all__ = ["count_losses"]

_PLACE = re.compile(r"round \d+, step \d+: ")
_NO_SLOT = ("stale: ", "a second reply ")  # replies that nobody waited for
_LONGEST = 120  # characters of a reason
_ALL_STEPS = re.compile(r"; so it went in all \d+ steps$")


def count_losses(rows: Iterable[Mapping[str, Any]], local_steps: int) -> dict[str, Any]:
    """Return the totals of a history.

    ``slots`` were lost ``of_slots``, one that was asked again counted again; ``failed_evaluations`` of them by an
    evaluation that raised or gave no number, ``steps`` were skipped ``of_steps`` of the others, and ``reason`` is the
    one that came up most in either, without its round and step, or empty.
    """
    lost = steps = failed = replies = 0
    reasons: Counter[str] = Counter()
    for row in rows:
        replies += row["replies"]
        for failure in row.get("failures", ()):
            reason = str(failure["reason"])
            if not reason.startswith(_NO_SLOT):
                lost += 1
                failed += bool(_PLACE.match(reason)) and not any(words in reason for words in RAN_AWAY)
                reasons[_short(reason)] += 1
        for skipped in row.get("skipped", ()):
            steps += skipped["steps"]
            reasons[_short(str(skipped["reason"]))] += skipped["steps"]
    return {
        "slots": lost,
        "of_slots": lost + replies,
        "failed_evaluations": failed,
        "steps": steps,
        "of_steps": replies * local_steps,
        "reason": reasons.most_common(1)[0][0] if reasons else "",
    }


def _short(reason: str) -> str:
    bare = _ALL_STEPS.sub("", reason[match.end() :] if (match := _PLACE.match(reason)) else reason)
    return bare if len(bare) <= _LONGEST else f"{bare[: _LONGEST - 3]}..."
