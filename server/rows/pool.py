"""The sums of a pool: what x is made from where directions are candidates of one. Pure.

a_j <- a_j + mean over slots of the sum of eta c along z_j, and x = x_0 - sum_j a_j z_j (FedKSeed, Qin et al. 2024). A
part of a round that is no such sum, such as a move that was sent, goes into x_0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from zofedht.common.config.run_config import RunConfig
from zofedht.common.directions.law import law_of
from zofedht.common.directions.pool import chances_of, drawn_candidates
from zofedht.common.machine.blas import one_thread
from zofedht.common.objective.units import Units
from zofedht.common.replay import landed, pool_move
from zofedht.common.typing import Matrix, Vector
from zofedht.common.wire.messages import Broadcast, Update
from zofedht.server.aggregation.replays import Contribution

__all__ = ["Pool", "advanced", "learnt_chances", "x_of"]


@dataclass(frozen=True)
class Pool:
    """What leads to x, and how large slopes were."""

    origin: Vector  # x_0: (n,)
    sums: Vector  # a: (S,)
    amplitudes: Vector  # sum of |c| along each candidate, (S,)
    counts: Vector  # and how often it was drawn, (S,)

    @staticmethod
    def at(x: Vector, size: int) -> Pool:
        """Return the pool of S candidates along which nothing was moved yet."""
        return Pool(x, *(np.zeros(size) for _ in range(3)))


def advanced(
    pool: Pool, contributions: Sequence[Contribution], asked: Mapping[int, Broadcast], chances: Matrix | None
) -> Pool:
    """Return the pool after a round: with the weighted mean of step lengths in its sums, and of moves in its origin."""
    if not contributions:
        return pool
    total, size = sum(one.weight for one in contributions), len(pool.sums)
    sums, moves = pool.sums.copy(), []
    for one in contributions:
        if one.lengths is None:
            moves.append((one.weight / total) * one.move)
            continue
        drawn = drawn_candidates(size, chances, len(one.lengths), asked[one.slot].address)
        np.add.at(sums, drawn, (one.weight / total) * one.lengths)
    return replace(pool, sums=sums, origin=sum(moves, start=pool.origin))


def x_of(pool: Pool, config: RunConfig, units: Units | None) -> Vector:
    """Return x_0 - sum_j a_j z_j, within the bounds, as clients compute it."""
    with one_thread():
        law = law_of(config.step_spec(step_size=0.0), len(pool.origin))
        move = pool_move(law, config.seed, pool.sums, config.kernel)
    return landed(pool.origin, move, units)[0]


def learnt_chances(
    pool: Pool, updates: Sequence[Update], asked: Mapping[int, Broadcast], chances: Matrix | None
) -> tuple[Pool, Matrix]:
    """Return the pool with the |c| of a round, and the chances that candidates have from now on, (S, 1)."""
    amplitudes, counts = pool.amplitudes.copy(), pool.counts.copy()
    for update in updates:
        if update.slopes is not None:
            drawn = drawn_candidates(len(counts), chances, len(update.slopes), asked[update.slot].address)
            np.add.at(amplitudes, drawn, np.abs(update.slopes))
            np.add.at(counts, drawn, 1.0)
    means = np.divide(amplitudes, counts, out=np.zeros_like(counts), where=counts > 0.0)
    return replace(pool, amplitudes=amplitudes, counts=counts), chances_of(means)
