"""Rounds whose parameters the clients hold: x is the trail, to which a round adds its mean step lengths. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from zofedht.common.config.run_config import RunConfig
from zofedht.common.replay import Replay
from zofedht.common.typing import Matrix
from zofedht.common.wire.messages import Broadcast, Update
from zofedht.server.aggregation.combine import combine
from zofedht.server.aggregation.replays import Replays
from zofedht.server.aggregation.screening import Failure
from zofedht.server.core.outcome import Outcome
from zofedht.server.core.state import ServerState

__all__ = ["tell_lengths"]


class _NoMoves(Replays):
    """Replays of directions that the server does not draw: their lengths alone are combined."""

    def _replay(self, groups: Mapping[int, object], asked: object, basis: object) -> dict[int, Replay]:
        nothing: Matrix = np.empty((0, 0))
        return {name: Replay(np.empty(0), nothing) for name in groups}


def tell_lengths(
    state: ServerState,
    config: RunConfig,
    usable: Sequence[Update],
    failures: Sequence[Failure],
    asked: Mapping[int, Broadcast],
) -> tuple[ServerState | None, Outcome]:
    """Add the round's mean step lengths, (K q,), to the trail, as ``rounds.tell`` adds mean moves to x."""
    if not usable or len(usable) < config.min_replies:
        return None, Outcome(len(usable), tuple(failures))
    combined = combine(usable, asked, config, _NoMoves(), None, state.lengths, secret=state.secret)
    (one,) = combined.contributions  # all slots share their directions
    assert one.lengths is not None
    if not np.all(np.isfinite(one.lengths)):
        return None, Outcome.of_overflow(usable, failures, "slopes")
    evaluations = state.totals.evaluations + sum(update.evaluations for update in usable)
    following = replace(
        state,
        round=state.round + 1,
        x=np.concatenate([state.x, one.lengths]),
        totals=replace(state.totals, evaluations=evaluations),
        lengths=combined.medians,
    )
    return following, Outcome.of_steps(usable, failures, combined, lengths=one.lengths)
