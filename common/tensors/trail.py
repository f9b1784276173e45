"""The trail: mean step lengths that lead from the start to x, in the place of x.

Round r moves x by -sum_k l_k v_k, and v_k is a function of (seed, r, k). So K q lengths a round tell x to everybody who
has the start: a trail is the vector of all of them, round by round. Where slots have directions of their own, a round
has M K q lengths, slot by slot, with 0 for a slot that did not count. Two trails are of one run where the shorter one
is the beginning of the longer one.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zofedht.common.config.run_config import RunConfig
from zofedht.common.config.step_spec import StepSpec
from zofedht.common.directions.pool import drawn_candidates
from zofedht.common.errors import DataError, ObjectiveError
from zofedht.common.machine.memory import lacking
from zofedht.common.random.streams import Address
from zofedht.common.tensors.blocks import Block
from zofedht.common.tensors.directions import Bent, Direction, add_all
from zofedht.common.tensors.guide import Guide, Guided, Trajectory, plain
from zofedht.common.tensors.laws import LowRankLaw, Subset, farthest
from zofedht.common.tensors.objective import InPlaceObjective
from zofedht.common.tensors.stiff import Shrunk, Stiff
from zofedht.common.typing import Vector

__all__ = ["TrailLaw", "begins"]

_DIRECTION_BYTES = 144  # of one Direction among many


@dataclass(frozen=True)
class TrailLaw:
    """What the lengths of a trail are along: ``slopes`` directions of each slot that has its own, of this seed and law.

    isotropic: numbers of the probe. pool: each direction is one of S fixed ones, drawn by chance. lowrank,
    subspace-core: ``laws.LowRankLaw``, whose sides stay for ``side_rounds``. subset: after ``side_rounds`` isotropic
    ones, ``laws.Subset`` of the parameters that moved farthest in these. trajectory: stretched along the last moves,
    which a ``guide`` keeps. shrunk: along what objectives name, from round ``shrinks_from`` on.
    """

    seed: int
    probe: str
    slopes: int  # K q
    law: str = "isotropic"
    slots: int = 1  # that have directions of their own; 1 where all slots share them
    side_rounds: int = 1
    rank: int = 2
    pool_size: int = 1024
    subset_share: float = 0.1
    weight: float = 0.0  # a of the trajectory
    covariance: str = "trace"
    memory: int = 1  # tau
    refresh: int = 1
    shrink: float = 1.0  # f
    shrinks_from: int = 0

    @classmethod
    def of(cls, spec: StepSpec, config: RunConfig) -> TrailLaw:
        """Return the law of a run of this config, or of its task, whose slots step by ``spec``."""
        names = [field.name for field in fields(cls)]
        found: dict[str, Any] = {name: getattr(spec, name) for name in names if hasattr(spec, name)}
        if spec.law == "trajectory" and config.weight == 0.0:
            found["law"] = "isotropic"
        elif spec.law == "trajectory":
            found |= {name: getattr(config, name) for name in ("weight", "covariance", "memory", "refresh")}
        elif spec.law == "shrunk":
            found |= {"shrink": config.shrink, "shrinks_from": config.warm_up_rounds}
        return cls(config.seed, **found)

    @classmethod
    def of_config(cls, config: RunConfig) -> TrailLaw:
        """Return the law of a run of this config, or of its task."""
        return cls.of(config.step_spec(step_size=0.0), config)

    def guide(self, blocks: Sequence[Block], stiff: Stiff) -> Guide | None:
        """Return what bends the directions of a trail, where something does. ``stiff`` is of ``checked_stiff``.

        Raises ObjectiveError where directions are to shrink, and no stiff ones are named.
        """
        if self.law == "trajectory":
            return Trajectory(self.memory, self.refresh, self.weight, self.covariance, self.lengths, blocks)
        if self.law != "shrunk" or self.shrink == 1.0:
            return None
        if not stiff:
            raise ObjectiveError.public(
                "zofed-shrink in place needs an objective whose stiff names directions; shrink = 1, or zofedavg-sgd"
                " with slope = forward, needs none"
            )
        return Shrunk(stiff, self.shrink, self.shrinks_from, blocks)

    def guide_bytes(self, dimension: int) -> int:
        """Return how much memory the guide takes."""
        return 4 * self.memory * dimension if self.law == "trajectory" else 0

    @property
    def lengths(self) -> int:
        """The lengths that a round adds to the trail."""
        return self.slots * self.slopes

    def directions(
        self, round_: int, slot: int, blocks: Sequence[Block], trail: Vector, guide: Guide | None = None
    ) -> Sequence[Direction | Guided]:
        """Return the directions of a slot of a round; ``trail`` leads to this round, or farther.

        ``guide`` is led to this round, and its directions are good until it is led on.

        Raises DataError where so many do not fit into the memory that is free: a server may name any number.
        """
        if text := lacking(_DIRECTION_BYTES * self.slopes, f"the {self.slopes:,} directions of a slot in place"):
            raise DataError.public(f"{text}; fewer local-steps or slopes-per-step take less")
        address = Address(self.seed, round_, slot)
        if self.law == "pool":
            candidates = drawn_candidates(self.pool_size, None, self.slopes, address)
            return [Direction(Address(self.seed, 0, 0), int(one), self.probe) for one in candidates]
        bent: Bent | None = None
        if self.law in ("lowrank", "subspace-core"):
            bent = LowRankLaw(self.law, self.rank, round_ - round_ % self.side_rounds, tuple(blocks))
        elif self.law == "subset" and round_ >= self.side_rounds:
            bent = _subset(self, tuple(blocks), trail[: self.side_rounds * self.lengths].tobytes())
        drawn = [Direction(address, number, self.probe, bent) for number in range(self.slopes)]
        if guide is None:
            return drawn
        return guide.bend(drawn, round_, trail, lambda earlier: self.along(trail, earlier, blocks, guide))

    def along(
        self, trail: Vector, round_: int, blocks: Sequence[Block], guide: Guide | None = None
    ) -> tuple[list[Direction], list[float]]:
        """Return plain directions of a round and how far it leads along each; a length of 0 moves nothing."""
        own = trail[round_ * self.lengths : (round_ + 1) * self.lengths]
        slots = range(self.slots if own.any() else 0)
        found = (v for slot in slots for v in self.directions(round_, slot, blocks, trail, guide))
        pairs = [(v, -float(length)) for v, length in zip(found, own, strict=False) if length != 0.0]
        return plain([v for v, _ in pairs], [coefficient for _, coefficient in pairs])

    def follow(self, objective: InPlaceObjective, trail: Vector, first: int, guide: Guide | None = None) -> None:
        """Lead the parameters from where the first so many lengths led to where all of them lead.

        The order of the sums is fixed, so that all who follow agree bit for bit. ``guide`` is what ``self.guide`` made.
        """
        for round_ in range(first // self.lengths, len(trail) // self.lengths):
            directions, coefficients = self.along(trail, round_, objective.blocks, guide)
            if directions:
                objective.add_all(directions, coefficients)


@functools.lru_cache(maxsize=4)
def _subset(law: TrailLaw, blocks: tuple[Block, ...], trail: bytes) -> Subset:
    """Return the parameters that moved farthest along a trail, from its directions alone, a block at a time."""
    lengths = np.frombuffer(trail)

    def moved(block: int) -> NDArray[np.float32]:
        sums = np.zeros(blocks[block].size, np.float32)
        for round_ in range(law.side_rounds):
            add_all(sums, block, *law.along(lengths, round_, blocks))
        return sums

    return farthest(moved, blocks, law.subset_share)


def begins(trail: Vector | None, whole: Vector) -> bool:
    """Return whether a trail is the beginning of another one."""
    return trail is not None and len(trail) <= len(whole) and np.array_equal(trail, whole[: len(trail)])
