"""Named random streams: randomness is addressed, never consumed.

A stream is named by (seed, purpose, round, slot). Two names never share numbers, and asking twice
for one name gives the same numbers, so a resumed run equals an uninterrupted one and no engine can
change what is drawn.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np

from zofedht.common.rules import at_least

__all__ = ["Address", "Purpose", "stream"]

Purpose = Literal[
    "directions",  # the isotropic part v1 of every direction of a slot
    "subspace",  # the coefficients v2 inside span(Q)
    "minibatch",  # rows of the shard
    "selection",  # which clients take part in a round
    "partition",  # which rows go to which client
    "train-rows",  # the subset of rows, and the held-out fifth
    "initial",  # x_0
    "check",  # probes of check_objective
    "redraw",  # who takes over a lost slot
    "candidates",  # normal numbers of a generation of CMA-ES
    "sites",  # the order in which sites take their turns
    "restart",  # where a search begins anew
    "chance",  # whether a direction lies inside span(Q) or across it, and which candidate of a pool it is
    "pool",  # candidate directions
    "shift",  # along which a change of slopes is looked for
    "blocks",  # what directions of low rank have in common
    "tensors",  # a piece of a direction whose parameters are tensors
    "queries",  # points around w at which a surrogate may be told F
    "features",  # frequencies that tell a surrogate
]
_CODES = {purpose: code for code, purpose in enumerate(get_args(Purpose), start=1)}
"""The number that a purpose is in a name."""


def stream(seed: int, purpose: Purpose, round_: int = 0, slot: int = 0) -> np.random.Generator:
    """Return the generator named (seed, purpose, round, slot).

    Making one costs some 10 microseconds: take one for each slot, never for each step.
    """
    return np.random.Generator(np.random.PCG64DXSM(_sequence(seed, purpose, round_, slot)))


@dataclass(frozen=True)
class Address:
    """Names the streams of a slot.

    The samples of a slot are always its own. Its directions are those of ``direction_slot``, where slots share them.
    """

    seed: int = field(metadata={"rule": at_least(0, 2**63 - 1)})
    round: int = field(metadata={"rule": at_least(0)})  # r, 0-based
    slot: int = field(metadata={"rule": at_least(0)})  # position in the round, 0..M-1
    direction_slot: int | None = field(default=None, metadata={"rule": at_least(0)})

    @property
    def directions(self) -> Address:
        """The address of the directions: equal for slots that share them."""
        return Address(self.seed, self.round, self.slot if self.direction_slot is None else self.direction_slot)

    def stream(self, purpose: Purpose) -> np.random.Generator:
        """Return the generator named (seed, purpose, round, slot)."""
        return stream(self.seed, purpose, self.round, self.slot)

    def piece_words(self, direction: int, block: int, piece: int) -> np.random.SFC64:
        """Return what draws the words of a piece of a block in one of the slot's directions.

        SFC64 has no multiplications, so that a compiled loop makes a word in the time that it takes to use it.
        """
        return np.random.SFC64(_sequence(self.seed, "tensors", self.round, self.slot, direction, block, piece))


def _sequence(seed: int, purpose: Purpose, *place: int) -> np.random.SeedSequence:
    # All fields go into the spawn key, because an entropy list is padded with zeros and (1, 2) would then
    # name the same stream as (1, 2, 0).
    path = (_CODES[purpose], *place)
    if not 0 <= min(seed, *place) <= max(seed, *place) < 2**32:
        return np.random.SeedSequence(entropy=seed, spawn_key=path)
    # The same, in the words of 32 bits that NumPy would make of it: half the time of a stream went into that.
    return np.random.SeedSequence(np.array([seed, 0, 0, 0, *path], dtype=np.uint32))
