"""The trail: mean step lengths that lead from the start to x, in the place of x.

Round r moves x by -sum_k l_k v_k, and v_k is a function of (seed, r, k). So K q lengths a round tell x to everybody who
has the start: a trail is the vector of all of them, round by round. Two trails are of one run where the shorter one is
the beginning of the longer one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from zofedht.common.config.run_config import RunConfig
from zofedht.common.config.step_spec import StepSpec
from zofedht.common.random.streams import Address
from zofedht.common.tensors.directions import Direction
from zofedht.common.tensors.objective import InPlaceObjective
from zofedht.common.typing import Vector

__all__ = ["TrailLaw", "begins"]


@dataclass(frozen=True)
class TrailLaw:
    """What the lengths of a trail are along: ``slopes`` directions of each round, of this seed and probe."""

    seed: int
    probe: str
    slopes: int  # K q

    @classmethod
    def of(cls, spec: StepSpec, seed: int) -> TrailLaw:
        """Return the law of a run whose slots step by this."""
        return cls(seed, spec.probe, spec.slopes)

    @classmethod
    def of_config(cls, config: RunConfig) -> TrailLaw:
        """Return the law of a run of this config."""
        return cls.of(config.step_spec(step_size=0.0), config.seed)

    def directions(self, round_: int) -> list[Direction]:
        """Return the directions of a round, which all its slots share."""
        return [Direction(Address(self.seed, round_, 0), number, self.probe) for number in range(self.slopes)]

    def follow(self, objective: InPlaceObjective, trail: Vector, first: int) -> None:
        """Lead the parameters from where the first so many lengths led to where all of them lead.

        A length of 0 moves nothing. The order of the sums is fixed, so that all who follow agree bit for bit.
        """
        for round_ in range(first // self.slopes, len(trail) // self.slopes):
            lengths = trail[round_ * self.slopes : (round_ + 1) * self.slopes]
            pairs = [(v, -float(one)) for v, one in zip(self.directions(round_), lengths, strict=True) if one != 0.0]
            if pairs:
                objective.add_all([v for v, _ in pairs], [coefficient for _, coefficient in pairs])


def begins(trail: Vector | None, whole: Vector) -> bool:
    """Return whether a trail is the beginning of another one."""
    return trail is not None and len(trail) <= len(whole) and np.array_equal(trail, whole[: len(trail)])
