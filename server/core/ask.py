"""The server's first verb: ask (Algorithm 1, lines 2-9). Pure functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from zofedht.common.config.run_config import RunConfig
from zofedht.common.directions.law import subspace_gain
from zofedht.common.random.streams import Address
from zofedht.common.wire.arrays import basis_digest, rounded, vector_digest
from zofedht.common.wire.clients import OWN_ROWS, Member
from zofedht.common.wire.fields import changed
from zofedht.common.wire.messages import NO_BASIS, Broadcast
from zofedht.server import auto
from zofedht.server.core.guide import asks_stiff
from zofedht.server.core.mean_of_rows import sent_to_each
from zofedht.server.core.points import ask_points
from zofedht.server.core.selection import select
from zofedht.server.core.state import ServerState
from zofedht.server.privacy import drawing_seed
from zofedht.server.rows.learnt_shrink import learns_in, shift_of
from zofedht.server.rows.second_order import shift_back

__all__ = ["ask", "given_to", "now"]


def ask(state: ServerState, config: RunConfig, members: Sequence[Member], attempt: int = 0) -> list[Broadcast]:
    """Return the round's broadcasts, one a slot, without the basis itself (Algorithm 1, lines 2-9).

    Q_r, which lines 5 and 6 make at the beginning of a round, was made by ``tell`` at the end of the round before.
    """
    if config.asks_points:
        return ask_points(state, config, members)
    known = now(state, config)
    chosen = select(  # line 3: W_r
        members,
        config.clients_per_round,
        config.sampling,
        seed=drawing_seed(config, state.secret),
        round_=state.round,
        attempt=attempt,
    )
    weight = auto.weight(state.auto, known)  # alpha of C_r, line 10
    shrinks = config.row.shrinks and state.basis is not None
    follows = weight > 0.0 or shrinks or (config.row.learns_guide and state.basis is not None)
    gain = subspace_gain(config.covariance, state.x.shape[0], state.rank) if weight > 0.0 else 1.0  # s
    anchor = None if state.auto.step is None else state.auto.step.anchor
    shift = shift_back(state.curvature, state.x, config)
    if state.learning is not None and learns_in(state.learning, state.round, config):
        shift = shift_of(state.learning, config)
    common = Broadcast(  # lines 4 and 7
        address=Address(config.seed, state.round, 0, direction_slot=0 if config.directions == "shared" else None),
        spec=config.step_spec(
            **auto.spec(state.auto, known),  # with eta_r
            batch_size=state.batch or config.batch,
            blocks=config.blocks_of(state.x.shape[0]) if config.row.low_rank and not config.in_place else "",
            subspace_weight=weight,
            subspace_gain=gain,
            shrink=config.shrink if shrinks else 1.0,
            tells_stiff=asks_stiff(state, config),
            shifted=shift is not None,
        ),
        client="",
        shard_index=OWN_ROWS,
        task=config.task,
        units=state.units_digest,
        dtype=config.wire_dtype,
        x=rounded(state.x, config.wire_dtype),
        basis_version=state.basis_version if follows else NO_BASIS,
        basis_digest=basis_digest(state.basis) if follows else "",
        basis_rank=state.rank if follows else 0,
        sums=None if state.pool is None or config.downlink == "x" else state.pool.sums,
        origin_digest="" if state.pool is None or config.downlink == "x" else vector_digest(state.pool.origin),
        shift=shift,
        anchor=None if anchor is None else rounded(anchor, config.wire_dtype),
    )

    def of(slot: int) -> Broadcast:
        return changed(common, address=changed(common.address, slot=slot))

    own = sent_to_each(state, config)
    return [given_to(of(slot), member, own, config) for slot, member in enumerate(chosen)]  # line 9


def given_to(
    broadcast: Broadcast, member: Member, own: Callable[[str], dict[str, Any]], config: RunConfig
) -> Broadcast:
    """Return a slot's broadcast for this client, without the basis; ``own`` is that of ``sent_to_each``."""
    spec, uplink = broadcast.spec, "move" if member.moves_only else config.uplink
    spec = spec if spec.uplink == uplink else changed(spec, uplink=uplink)  # one for all slots: it is encoded once
    given = {"client": member.name, "shard_index": member.shard_index, "basis": None, "spec": spec}
    return changed(broadcast, **given | {"control": None, "queries": None, "surplus": None} | own(member.name))


def now(state: ServerState, config: RunConfig) -> auto.Now:
    """Return what the auto rules know of the round that comes."""
    return auto.Now(config, state.round, state.totals.evaluations, state.x, state.basis)
