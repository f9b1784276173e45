"""What was changed in a run that nobody asked for by a number: each is in the history."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["Intervention", "count_interventions"]


@dataclass(frozen=True)
class Intervention:
    """One change, in effect from the next round on. ``before`` is None where nothing was set."""

    what: str  # step-size | subspace-weight | x | memory | method
    before: float | str | None
    after: float | str | None
    why: str


def count_interventions(rows: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Return how often each thing was changed in the rows of a history."""
    return dict(Counter(str(each["what"]) for row in rows for each in row["interventions"]))
