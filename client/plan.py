"""What the steps of one slot go by."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from zofedht.common.config.step_spec import StepSpec
from zofedht.common.directions.law import DirectionLaw, slot_directions
from zofedht.common.random.streams import Address
from zofedht.common.typing import Indices, Matrix

__all__ = ["Plan"]


@dataclass(frozen=True)
class Plan:
    """How steps are taken, along what law of directions, and whose random numbers they use."""

    spec: StepSpec
    law: DirectionLaw
    address: Address

    def drawn(self, shard: int) -> Indices | None:
        """Return the samples of each step, (K, b), drawn with replacement; None for all of them in their own order."""
        if self.spec.batch_size == 0 or shard == 1:
            return None
        size = (self.spec.local_steps, self.spec.batch_size)
        return self.address.stream("minibatch").integers(0, shard, size=size, dtype=np.intp)

    def batches(self, shard: int) -> Sequence[Indices | slice]:
        """Return what ``drawn`` gives as one index for each step."""
        drawn = self.drawn(shard)
        return [slice(None)] * self.spec.local_steps if drawn is None else list(drawn)

    def steps(self, dimension: int) -> Iterator[Matrix]:
        """Yield the directions of each step, (q, n); none, (0, n), for steps along gradients."""
        if self.spec.takes_gradients:
            yield from itertools.repeat(np.empty((0, dimension)), self.spec.local_steps)
            return
        for block in self.directions():
            yield from block.reshape(-1, self.spec.slopes_per_step, dimension)

    def directions(self, block_bytes: int | None = None) -> Iterator[Matrix]:
        """Yield the directions of the steps in blocks, (block, n) each: q rows for each step of a block."""
        spec = self.spec
        return slot_directions(
            self.law,
            spec.slopes,
            self.address,
            kernel=spec.kernel,
            block_bytes=block_bytes,
            together=spec.slopes_per_step,
        )
