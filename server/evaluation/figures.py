"""What a full evaluation gave: the figures, and of which clients they are the mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from zofedht.common.errors import Cause

__all__ = [
    "Evaluation",
    "Metrics",
    "Unevaluated",
    "comparable",
    "evaluation_notes",
    "evaluation_summary",
    "who_is_missing",
]

Metrics = dict[str, float]
"""Figures of a full evaluation: train_loss, and train_accuracy where the objective has one."""

_SHOWN = 5


@dataclass(frozen=True)
class Unevaluated:
    """A client on whose shard x was not evaluated, and why."""

    client: str
    cause: Cause
    reason: str  # a sentence for people


@dataclass(frozen=True)
class Evaluation:
    """Figures, empty where nobody could evaluate, and whose mean they are; the server's own rows are no client's."""

    figures: Metrics
    clients: tuple[str, ...] = ()
    missing: tuple[Unevaluated, ...] = ()

    def about(self) -> dict[str, Any]:
        """Return who was evaluated, and who was not, for a JSON file."""
        return {"clients": list(self.clients), "missing": [asdict(one) for one in self.missing]}

    @classmethod
    def kept(cls, figures: Mapping[str, Any], about: Mapping[str, Any]) -> Evaluation:
        """Return the evaluation that ``figures`` and ``about`` were kept of."""
        missing = tuple(Unevaluated(**one) for one in about.get("missing", ()))
        return cls(dict(figures), tuple(about.get("clients", ())), missing)


def who_is_missing(missing: Sequence[Unevaluated]) -> str:
    """Return the clients that were not evaluated, those of one reason together."""
    alike: dict[str, list[str]] = {}
    for one in missing:
        alike.setdefault(one.reason, []).append(one.client)
    told = [f"{_named(clients)}: {reason}" for reason, clients in list(alike.items())[:_SHOWN]]
    more = len(alike) - len(told)
    return "; ".join(told) + (f"; and {more} more reasons" if more > 0 else "") or "nobody was connected"


def _named(clients: Sequence[str]) -> str:
    more = len(clients) - _SHOWN
    named = ", ".join(clients[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
    return f"client{'s' if len(clients) > 1 else ''} {named}"


def evaluation_notes(first: Evaluation, last: Evaluation) -> list[str]:
    """Return what a reader of the first and the last loss must know: who is in neither or in one alone."""
    notes = []
    for which, evaluation in (("first", first), ("last", last)):
        asked = len(evaluation.clients) + len(evaluation.missing)
        if evaluation.missing and evaluation.figures:
            where = f"evaluated on {len(evaluation.clients)} of {asked} clients"
            notes.append(f"the {which} x was {where}: {who_is_missing(evaluation.missing)}")
    if not last.figures:
        notes.append(f"no client could evaluate the last x: {who_is_missing(last.missing)}")
    elif not comparable(first, last):
        notes.append("the first and the last loss are means over different clients: they do not compare")
    return notes


def comparable(first: Evaluation, last: Evaluation) -> bool:
    """Whether both losses are means over the same clients."""
    return bool(first.figures and last.figures) and set(first.clients) == set(last.clients)


def evaluation_summary(first: Evaluation, last: Evaluation) -> dict[str, Any]:
    """Return the part of summary.json that says on how many clients x was evaluated, and on which it was not."""
    both = {"initial": first, "final": last}
    return {
        "evaluated_clients": {when: len(evaluation.clients) for when, evaluation in both.items()},
        "unevaluated": {when: [asdict(one) for one in evaluation.missing] for when, evaluation in both.items()},
        "evaluation_notes": evaluation_notes(first, last),
    }
