"""Rounds whose parameters the clients hold: x is the trail, to which a round adds its mean step lengths. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from zofedht.common.config.run_config import RunConfig
from zofedht.common.replay import Replay
from zofedht.common.typing import Matrix, Vector
from zofedht.common.wire.messages import Broadcast, Update
from zofedht.server.aggregation.combine import Combined, combine
from zofedht.server.aggregation.replays import Replays
from zofedht.server.core.state import ServerState

__all__ = ["tell_lengths"]


class _NoMoves(Replays):
    """Replays of directions that the server does not draw: their lengths alone are combined."""

    def _replay(self, groups: Mapping[int, object], asked: object, basis: object) -> dict[int, Replay]:
        nothing: Matrix = np.empty((0, 0))
        return {name: Replay(np.empty(0), nothing) for name in groups}


def tell_lengths(
    state: ServerState, config: RunConfig, usable: Sequence[Update], asked: Mapping[int, Broadcast]
) -> tuple[ServerState, Combined, Vector]:
    """Return the state after the round, what the updates came to, and the mean step lengths, (K q,).

    Lengths that are not finite are in the trail as they are: the caller looks for them.
    """
    combined = combine(usable, asked, config, _NoMoves(), None, state.lengths, secret=state.secret)
    (one,) = combined.contributions  # all slots share their directions
    assert one.lengths is not None
    evaluations = state.totals.evaluations + sum(update.evaluations for update in usable)
    following = replace(
        state,
        round=state.round + 1,
        x=np.concatenate([state.x, one.lengths]),
        totals=replace(state.totals, evaluations=evaluations),
        lengths=combined.medians,
    )
    return following, combined, one.lengths
