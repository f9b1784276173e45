"""A line of the history: what a round gave and what the run has cost."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from zofedht.server.aggregation.screening import Failure
from zofedht.server.core.attempt import Attempt
from zofedht.server.core.outcome import Outcome
from zofedht.server.core.state import ServerState, Totals
from zofedht.server.evaluation.full_evaluation import FullEvaluation

__all__ = ["ClientWork", "Observer", "RoundRecord", "record_round", "signed"]


@dataclass(frozen=True)
class ClientWork:
    """What one client gave to a round, and what that cost."""

    slots: int  # usable ones
    seconds: float  # from a slot's question to its answer, in all
    bytes_up: int
    bytes_down: int
    times: float  # length of its longest move, in units of the running median; NaN where no move is told apart


@dataclass(frozen=True)
class RoundRecord:
    """A line of the history. Evaluations, bytes and seconds are totals of the run up to this round."""

    round: int
    evaluations: int
    train_loss: float
    train_loss_source: str  # full: evaluated on all rows; probes: mean of the round's own evaluations
    train_accuracy: float | None
    step_size: float  # NaN where slots tried several
    basis_version: int | None
    basis_rank: int
    replies: int
    attempts: int
    bytes_up: int
    bytes_down: int
    seconds: float
    failures: list[dict[str, object]]
    skipped: list[dict[str, object]] = field(default_factory=list)
    subspace_weight: float = 0.0  # alpha of the round's directions
    interventions: list[dict[str, object]] = field(default_factory=list)  # what auto changed, from the next round on
    fallbacks: list[dict[str, object]] = field(default_factory=list)  # slots along other directions: moves are taken
    start_loss: float = math.nan  # clients' mean loss at the x that the round began from, of each slot's first probe
    unevaluated: list[dict[str, object]] = field(default_factory=list)  # clients that a full evaluation lacks, and why

    epsilon: float = 0.0  # of the privacy that is spent by the end of the round
    method: str = ""  # look, cma-es or lbfgs, where the algorithm takes no steps
    points: int = 0  # values of F that each slot was asked for, where the algorithm takes no steps
    outliers: list[dict[str, object]] = field(default_factory=list)  # slots whose move is many times as long as usual
    clients: Mapping[str, ClientWork] = field(default_factory=dict)  # who was asked; in a file of its own

    @property
    def line(self) -> dict[str, Any]:
        """The record without its clients: what the history keeps."""
        fields = asdict(replace(self, clients={}))
        del fields["clients"]
        return fields

    def signed(self, sign: float) -> RoundRecord:
        """Return the record with its losses in the user's sign."""
        if sign == 1.0:
            return self
        return replace(self, **{name: sign * getattr(self, name) for name in _LOSSES})


_LOSSES = ("train_loss", "start_loss")


def signed(fields: Mapping[str, Any], sign: float) -> dict[str, Any]:
    """Return the fields with their losses in the user's sign: the only place where it is turned on the way out."""
    losses = {name: sign * fields[name] for name in _LOSSES if fields.get(name) is not None and sign != 1.0}
    return {**fields, **losses}


Observer = Callable[[ServerState, RoundRecord], None]
"""Called after each round with the state that follows it."""


def record_round(
    state: ServerState,
    attempt: Attempt,
    outcome: Outcome,
    totals: Totals,
    evaluation: FullEvaluation | None,
    fallbacks: Sequence[Failure],
    traffic: Mapping[str, tuple[int, int]],
) -> RoundRecord:
    """Return the line of the round that began from ``state`` and ended with the ``attempt``.

    ``outcome`` has the failures of all attempts, ``totals`` are those after the round, and ``evaluation`` is that of
    the x that follows, where the round has one. ``traffic`` are the bytes (up, down) of each client.
    """
    metrics = None if evaluation is None else evaluation.metrics or None
    asked = list(attempt.asked.values())
    steps = {broadcast.spec.step_size for broadcast in asked}
    return RoundRecord(
        round=state.round,
        evaluations=totals.evaluations,
        train_loss=outcome.loss if metrics is None else metrics["train_loss"],
        train_loss_source="probes" if metrics is None else "full",
        train_accuracy=None if metrics is None else metrics.get("train_accuracy"),
        step_size=steps.pop() if len(steps) == 1 else math.nan,
        basis_version=state.basis_version if state.rank else None,
        basis_rank=state.rank,
        replies=outcome.usable,
        attempts=attempt.number + 1,
        bytes_up=totals.bytes_up,
        bytes_down=totals.bytes_down,
        seconds=totals.seconds,
        failures=[asdict(failure) for failure in outcome.failures],
        skipped=[asdict(skipped) for skipped in outcome.skipped],
        subspace_weight=asked[0].spec.subspace_weight,
        interventions=[asdict(change) for change in outcome.interventions],
        fallbacks=[asdict(slot) for slot in fallbacks],
        start_loss=outcome.start_loss,
        method="" if state.search is None else state.search.doing,
        points=asked[0].answers,
        outliers=[asdict(outlier) for outlier in outcome.outliers],
        unevaluated=[] if evaluation is None else [asdict(one) for one in evaluation.missing],
        clients=_clients(attempt, outcome, traffic),
    )


def _clients(attempt: Attempt, outcome: Outcome, traffic: Mapping[str, tuple[int, int]]) -> dict[str, ClientWork]:
    asked: dict[str, list[int]] = {name: [] for name in sorted(traffic)}
    for slot, broadcast in attempt.asked.items():
        asked.setdefault(broadcast.client, []).append(slot)
    return {
        name: ClientWork(
            sum(slot in outcome.slots for slot in slots),
            sum(attempt.seconds.get(slot, 0.0) for slot in slots),
            *traffic.get(name, (0, 0)),
            max((outcome.times[slot] for slot in slots if slot in outcome.times), default=math.nan),
        )
        for name, slots in asked.items()
    }
