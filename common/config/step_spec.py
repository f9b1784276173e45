"""What the steps of a slot go by: the part of a config that crosses the wire, and what a round adds to it."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

from zofedht.common.choices import LAWS
from zofedht.common.keys.keys import Keys
from zofedht.common.rules import at_least, between, one_of, without_default

__all__ = ["FIRST_QUERIES", "StepSpec"]

FIRST_QUERIES = 50
"""Points around x_r at which a slot that fits a surrogate begins."""

_KEYS = {field.name: field for field in dataclasses.fields(Keys)}


def _as(key: str, **default: Any) -> Any:
    """A field with the rule of the config key of this name."""
    return dataclasses.field(metadata={"rule": without_default(_KEYS[key].metadata["rule"])}, **default)


@dataclass(frozen=True, kw_only=True)
class StepSpec:
    """How the steps of a slot are taken: Algorithm 1, lines 10-18.

    ``RunConfig.step_spec`` makes it, ``Broadcast`` carries it whole, and the client steps by it. A field named as a
    config key has that key's value and rule, so a new knob of the step is a key, a field here, and its use.
    """

    step_size: float = dataclasses.field(metadata={"rule": at_least(0.0, math.inf)})  # eta_r
    subspace_weight: float = dataclasses.field(default=0.0, metadata={"rule": between(0.0, 1.0), "sent": True})  # alpha
    subspace_gain: float = dataclasses.field(default=1.0, metadata={"rule": at_least(0.0, math.inf), "sent": True})  # s
    shrink: float = dataclasses.field(default=1.0, metadata={"rule": between(0.0, 1.0), "sent": True})  # f
    # whether the answer is to name the objective's stiff directions
    tells_stiff: bool = dataclasses.field(default=False, metadata={"rule": between(0, 1)})
    # whether each step measures its slopes again, shifted
    shifted: bool = dataclasses.field(default=False, metadata={"rule": between(0, 1)})
    law: str = dataclasses.field(default="isotropic", metadata={"rule": one_of(LAWS)})  # of the directions
    cone_angle: float = _as("cone_angle", default=1.35)
    pool_size: int = _as("pool_size", default=1024)  # S, of laws that have a pool
    blocks: str = _as("blocks", default="")  # of laws of low rank; never auto here
    rank: int = _as("rank", default=2)  # r
    side_rounds: int = _as("refresh", default=1)  # rounds for which a side of them stays, or which tell a subset
    subset_share: float = _as("subset_share", default=0.1)  # of laws in place
    slots: int = dataclasses.field(default=1, metadata={"rule": at_least(1)})  # with directions of their own, in place
    radius: float = _as("radius")  # mu
    local_steps: int = _as("local_steps")  # K
    batch_size: int = _as("batch_size")  # b; 0: the whole shard
    slope: str = _as("slope")
    slopes_per_step: int = _as("slopes_per_step", default=1)  # q
    slope_scale: str = _as("slope_scale", default="none")
    kept_queries: int = _as("memory", default=1)  # values of F that a surrogate is fitted to, and that are kept
    correction: str = _as("correction", default="none")  # of slopes
    probe: str = _as("probe")
    kernel: str = _as("kernel")
    uplink: str = _as("uplink")
    on_error: str = _as("on_error", default="drop-slot")
    privacy: str = _as("privacy", default="none")
    clip: float = _as("clip", default=1.0)  # C
    noise_multiplier: float = _as("noise_multiplier", default=1.0)  # z
    least_samples: int = _as("least_samples", default=0)
    measured: int = dataclasses.field(default=0, metadata={"rule": at_least(0)})  # one step in so many; 0: none
    secure_aggregation: bool = _as("secure_aggregation", default=False)
    slope_range: float = _as("slope_range", default=1000.0)
    in_place: bool = _as("in_place", default=False)

    def samples(self, shard: int) -> int:
        """Return how many samples a step is measured on: of a shard of one sample there is only the whole.

        Under local privacy this is the mean number, since each sample is in a batch or not by its own draw.
        """
        if self.privacy == "local":
            return min(self.batch_size or shard, shard)
        return shard if shard == 1 else self.batch_size or shard

    def samples_of_points(self, shard: int) -> int:
        """Return on how many samples F is evaluated at a point: they are drawn without replacement."""
        return min(self.batch_size or shard, shard)

    def evaluations(self, shard: int) -> int:
        """Return the evaluations of a slot, as the algorithm asks for them: all points of a step on all its samples.

        Central slopes have two ends each, forward and three-point slopes of one step share w, and a gradient counts as
        three points: its pass back costs about two passes forward (Kaplan et al. 2020, section 2.1). A measured step
        has its own two ends more, and the first one the anchor; where it has no length, its beginning alone. Where
        slopes are corrected as in SVRG, the first step takes the whole shard, and each other one measures twice. A
        shifted step measures twice as well. Where a surrogate is fitted, F is asked at its queries.
        """
        if self.queries:
            return self.samples(shard) * self.queries
        q = self.slopes_per_step
        points = {"central": 2 * q, "forward": q + 1, "three-point": 2 * q + 1, "gradient": 3}[self.slope]
        points *= 2 if self.shifted else 1
        if self.correction == "svrg":
            return points * (shard + 2 * (self.local_steps - 1) * self.samples(shard))
        more = 0
        if self.measured:
            more = 1 + (2 * -(-self.local_steps // self.measured) if self.step_size else 1)
        return self.samples(shard) * (points * self.local_steps + more)

    @property
    def slopes(self) -> int:
        """The slopes of a slot, K q: as many directions are drawn."""
        return self.local_steps * self.slopes_per_step

    @property
    def lengths(self) -> int:
        """The step lengths that a round in place adds to the trail: those of each slot with directions of its own."""
        return self.slots * self.slopes

    @property
    def queries(self) -> int:
        """The points of a slot that fits a surrogate, 0 of any other.

        x_r and those around it, K more of its way, and q around each of them but the last.
        """
        if self.slope != "surrogate":
            return 0
        return 1 + FIRST_QUERIES + self.local_steps + self.slopes_per_step * (self.local_steps - 1)

    @property
    def takes_gradients(self) -> bool:
        """Whether steps are along gradients of a built-in model, and no direction is drawn."""
        return self.slope == "gradient"

    @property
    def skips_steps(self) -> bool:
        """Whether a step whose evaluation fails is skipped, instead of failing the slot."""
        return self.on_error == "skip-step"
