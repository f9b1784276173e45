"""Rounds whose parameters the clients hold: x is the trail, to which a round adds its step lengths. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from zofedht.common.config.run_config import RunConfig
from zofedht.common.config.step_spec import StepSpec
from zofedht.common.replay import Replay
from zofedht.common.typing import Matrix, Vector
from zofedht.common.wire.messages import Broadcast, Update
from zofedht.server.aggregation.combine import Combined, combine
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
    """Add the round's step lengths, (K q,) or (M K q,), to the trail, as ``tell`` adds mean moves to x."""
    if not usable or len(usable) < config.min_replies:
        return None, Outcome(len(usable), tuple(failures))
    combined = combine(usable, asked, config, _NoMoves(), None, state.lengths, secret=state.secret)
    lengths = _lengths(combined, next(iter(asked.values())).spec)
    if not np.all(np.isfinite(lengths)):
        return None, Outcome.of_overflow(usable, failures, "slopes")
    evaluations = state.totals.evaluations + sum(update.evaluations for update in usable)
    following = replace(
        state,
        round=state.round + 1,
        x=np.concatenate([state.x, lengths]),
        totals=replace(state.totals, evaluations=evaluations),
        lengths=combined.medians,
    )
    return following, Outcome.of_steps(usable, failures, combined, lengths=lengths)


def _lengths(combined: Combined, spec: StepSpec) -> Vector:
    """Return how far x moves along each direction of a round: a slot of its own directions by its part of the mean."""
    lengths = [one.lengths for one in combined.contributions if one.lengths is not None]
    if spec.slots == 1:
        return lengths[0]
    rows, total = np.zeros((spec.slots, spec.slopes)), sum(one.weight for one in combined.contributions)
    with np.errstate(over="ignore", invalid="ignore"):  # the caller looks for what is not finite
        for one, own in zip(combined.contributions, lengths, strict=True):
            rows[one.slot] = one.weight / total * own
    return rows.reshape(-1)
