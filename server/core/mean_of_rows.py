"""What single rows send to each client, make of the mean of a round's moves, and keep of the round. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from zofedht.common.config.run_config import RunConfig
from zofedht.common.typing import Vector
from zofedht.common.wire.messages import Broadcast, Update
from zofedht.server.aggregation.replays import Replays
from zofedht.server.core.state import ServerState
from zofedht.server.rows.controls import corrections, learnt_controls, tracked_move
from zofedht.server.rows.second_order import curved_move, grown_batch
from zofedht.server.rows.surrogates import learnt_surrogates, of_each

__all__ = ["mean_of_row", "sent_to_each"]


def sent_to_each(state: ServerState, config: RunConfig) -> Callable[[str], dict[str, Any]]:
    """Return the function from a client's name to the fields of its broadcast that are its own."""
    if config.slope == "surrogate":
        return of_each(state.surrogates)
    return corrections(state.controls, config, state.x.shape[0])


def mean_of_row(
    state: ServerState,
    mean: Vector,
    counted: Sequence[Update],
    asked: Mapping[int, Broadcast],
    config: RunConfig,
    replays: Replays,
) -> tuple[Vector, dict[str, Any]]:
    """Return the mean move as the row takes it, (n,), and the fields of the state that the row changes.

    ``counted`` are the updates whose moves ``mean`` is of. A row without a memory of its own changes nothing.
    """
    one, changes = next(iter(asked.values())), dict[str, Any]()
    if config.correction == "control" or config.server_step == "tracking":
        told = replays.with_moves(counted, asked, state.basis)
        changes["controls"] = learnt_controls(state.controls, told, asked, state.basis, config)
        if config.server_step == "tracking" and changes["controls"]:
            mean = tracked_move(changes["controls"], one)
    if config.slope == "surrogate":
        changes["surrogates"] = learnt_surrogates(state.surrogates, counted, asked, config)
    if config.server_step in ("newton", "quasi-newton"):
        mean, changes["curvature"] = curved_move(state.curvature, state.x, mean, counted, asked, state.basis, config)
    if config.batch_growth:
        moves = [u.move for u in replays.with_moves(counted, asked, state.basis) if u.move is not None]
        changes["batch"] = grown_batch(one.spec.batch_size, moves, config)
    return mean, changes
