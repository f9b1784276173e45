"""What a full evaluation gave: the metrics, and of which clients they are the mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from zofedht.common.errors import Cause

__all__ = [
    "FullEvaluation",
    "Metrics",
    "Unevaluated",
    "comparable",
    "evaluation_notes",
    "evaluation_summary",
    "who_is_missing",
]

Metrics = dict[str, float]
"""Metrics of a full evaluation: train_loss, and train_accuracy where the objective has one."""

_SHOWN = 5


@dataclass(frozen=True)
class Unevaluated:
    """A client on whose shard x was not evaluated, and why."""

    client: str
    cause: Cause
    reason: str  # a sentence for people


@dataclass(frozen=True)
class FullEvaluation:
    """Metrics, empty where nobody could evaluate, and whose mean they are; the server's own rows are no client's.

    ``losses`` are those of the ``clients``, and ``samples`` is how many evaluations on one sample gave all this.
    """

    metrics: Metrics
    clients: tuple[str, ...] = ()
    missing: tuple[Unevaluated, ...] = ()
    partial: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # metrics that some clients lack, with these
    losses: tuple[float, ...] = ()
    samples: int = 0
    digest: str = ""  # of parameters in place, which are equal at all these clients

    def about(self) -> dict[str, Any]:
        """Return who was evaluated, and who was not, for a JSON file."""
        return {"clients": list(self.clients), "missing": [asdict(one) for one in self.missing]} | (
            {"partial": {name: list(lacking) for name, lacking in self.partial.items()}} if self.partial else {}
        )

    @classmethod
    def kept(cls, metrics: Mapping[str, Any], about: Mapping[str, Any]) -> FullEvaluation:
        """Return the evaluation that ``metrics`` and ``about`` were kept of."""
        missing = tuple(Unevaluated(**one) for one in about.get("missing", ()))
        partial = {name: tuple(lacking) for name, lacking in about.get("partial", {}).items()}
        return cls(dict(metrics), tuple(about.get("clients", ())), missing, partial)


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


def evaluation_notes(first: FullEvaluation, last: FullEvaluation) -> list[str]:
    """Return what a reader of the first and the last loss must know: who is in neither or in one alone."""
    notes = []
    for which, evaluation in (("first", first), ("last", last)):
        asked = len(evaluation.clients) + len(evaluation.missing)
        if evaluation.missing and evaluation.metrics:
            where = f"evaluated on {len(evaluation.clients)} of {asked} clients"
            notes.append(f"the {which} x was {where}: {who_is_missing(evaluation.missing)}")
    for name, lacking in last.partial.items():
        notes.append(
            f"{name} is no metric of the run, since not all clients tell it: {_named(lacking)}"
            f" lack{'s' if len(lacking) == 1 else ''} it"
        )
    if not last.metrics:
        notes.append(f"no client could evaluate the last x: {who_is_missing(last.missing)}")
    elif not first.metrics:
        why = who_is_missing(first.missing) if first.missing else "the folder of the run has lost it (run.json)"
        notes.append(f"the first loss is not known: {why}")
    elif not comparable(first, last):
        notes.append("the first and the last loss are means over different clients: they do not compare")
    return notes


def comparable(first: FullEvaluation, last: FullEvaluation) -> bool:
    """Whether both losses are means over the same clients."""
    return bool(first.metrics and last.metrics) and set(first.clients) == set(last.clients)


def evaluation_summary(first: FullEvaluation, last: FullEvaluation) -> dict[str, Any]:
    """Return the part of summary.json that says on how many clients x was evaluated, and on which it was not."""
    both = {"initial": first, "last": last}
    return {
        "evaluated_clients": {when: len(evaluation.clients) for when, evaluation in both.items()},
        "unevaluated": {when: [asdict(one) for one in evaluation.missing] for when, evaluation in both.items()},
        "evaluation_notes": evaluation_notes(first, last),
    }
