"""What a round gave, whether x moved or not."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from zofedht.common.typing import Vector
from zofedht.common.wire.messages import Update
from zofedht.server.aggregation.combine import Combined, Outlier
from zofedht.server.aggregation.screening import Failure, Skipped, skipped_steps
from zofedht.server.auto import Intervention

__all__ = ["Outcome"]


@dataclass(frozen=True)
class Outcome:
    """What a round gave: usable slots, failures, the probes' mean loss, skipped steps, and what auto rules changed."""

    usable: int
    failures: tuple[Failure, ...]
    loss: float = math.nan
    skipped: tuple[Skipped, ...] = ()
    interventions: tuple[Intervention, ...] = ()
    lengths: Vector | None = None  # mean of eta c, where x moved along nothing else: (K,)
    start_loss: float = math.nan  # mean over the usable slots of the loss at x_r, that no local step has touched
    outliers: tuple[Outlier, ...] = ()
    slots: frozenset[int] = frozenset()  # the usable ones
    times: Mapping[int, float] = field(default_factory=dict)  # by slot, the length of its move over the usual one

    @classmethod
    def of_steps(
        cls, usable: Sequence[Update], failures: Sequence[Failure], combined: Combined, **more: Any
    ) -> Outcome:
        """Return what a round of local steps gave that moved x."""
        return cls(
            usable=len(usable),
            failures=tuple(failures),
            loss=_mean([update.loss for update in usable]),
            skipped=skipped_steps(usable),
            start_loss=_mean([update.start_loss for update in usable]),
            outliers=combined.outliers,
            slots=frozenset(update.slot for update in usable),
            times=combined.times,
            **more,
        )

    @classmethod
    def of_overflow(cls, usable: Sequence[Update], failures: Sequence[Failure], what: str) -> Outcome:
        """Return what a round gave whose replies were each usable and overflow together."""
        text = f"the mean of the {what} overflows; lower step-size"
        overflown = [Failure(one.round, one.slot, one.client, "not-finite", text) for one in usable]
        return cls(0, (*failures, *overflown))


def _mean(losses: Sequence[float]) -> float:
    return float(np.mean(losses)) if losses else math.nan
