"""A line of the history: what a round gave and what the run has cost."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from zofedht.server.core.rounds import ServerState

__all__ = ["Observer", "RoundRecord"]


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


Observer = Callable[[ServerState, RoundRecord], None]
"""Called after each round with the state that follows it."""
