"""What a device's owner allows a server to ask: bounds of the command line, which no message can widen."""

from __future__ import annotations

import math
from dataclasses import dataclass

from zofedht.common.config.step_spec import StepSpec
from zofedht.common.errors import ConfigError, DataError

__all__ = ["OwnBounds"]


@dataclass(frozen=True)
class OwnBounds:
    """Bounds on what one slot may measure.

    Parameters
    ----------
    least_batch : int
        Fewest samples whose mean loss may leave the device; 1 allows all.
    most_steps : int
        Most slopes of a slot, one for each step unless ``slopes-per-step`` says more; 0 for no bound.
    least_noise : float
        Smallest noise-multiplier of slopes that may leave the device, and then nothing but such slopes may; 0 allows
        slopes without noise, and losses.
    only_noise : bool
        Whether nothing but slopes with noise may leave the device, whatever the noise: what is spent is counted.
    only_sums : bool
        Whether slopes leave the device under the masks of secure aggregation alone, and losses not at all.
    most_snapshot : float
        Largest parameters in place, in MB, that leave the device or are taken in; 0 for none.

    Raises
    ------
    ConfigError
        A bound is out of range.
    """

    least_batch: int = 1
    most_steps: int = 0
    least_noise: float = 0.0
    only_sums: bool = False
    only_noise: bool = False
    most_snapshot: float = math.inf

    def __post_init__(self) -> None:
        if self.least_batch < 1:
            raise ConfigError([f"--least-batch must be at least 1, got {self.least_batch} (1 allows every batch)"])
        if self.most_steps < 0:
            raise ConfigError([f"--most-steps must be at least 0, got {self.most_steps} (0 sets no bound)"])
        if not self.most_snapshot >= 0.0:
            raise ConfigError([f"--most-snapshot-mb must be at least 0, got {self.most_snapshot} (0 allows none)"])
        if not 0.0 <= self.least_noise < math.inf:
            raise ConfigError([f"--least-noise must be at least 0, got {self.least_noise} (0 sets no bound)"])

    def check_shard(self, samples: int) -> None:
        """Raise DataError where even the whole shard has fewer samples than may be told about."""
        if samples < self.least_batch:
            raise DataError.public(
                f"the client's shard has {samples} samples, fewer than its own --least-batch {self.least_batch}"
            )

    def check_slot(self, spec: StepSpec, shard: int) -> None:
        """Raise DataError where a slot's slopes are on fewer samples, are more, or have less noise than allowed."""
        samples, slopes = spec.samples(shard), spec.slopes
        if samples < self.least_batch:
            raise DataError.public(
                f"the client's own --least-batch {self.least_batch} does not allow steps on {samples} samples; a larger"
                " batch-size, or 0 for the whole shard, does"
            )
        if spec.queries:
            self.check_losses(spec.queries)
        if self.most_steps and slopes > self.most_steps:
            raise DataError.public(
                f"the client's own --most-steps {self.most_steps} does not allow a slot of {slopes} slopes"
                " (local-steps times slopes-per-step)"
            )
        if self.only_sums and not spec.secure_aggregation:
            raise DataError.public("the client's own --only-sums does not allow slopes without secure-aggregation")
        if self.only_noise and spec.privacy != "local":
            raise DataError.public(
                "the client's own --lifetime-epsilon does not allow slopes without noise; privacy = local does"
            )
        noise = spec.noise_multiplier if spec.privacy == "local" else 0.0
        if noise < self.least_noise:
            raise DataError.public(
                f"the client's own --least-noise {self.least_noise:g} does not allow a slot of noise {noise:g};"
                " privacy = local with such a noise-multiplier does"
            )

    def check_snapshot(self, size: int) -> None:
        """Raise DataError where parameters of so many bytes may not leave the device, nor be taken in."""
        if size > 1e6 * self.most_snapshot:
            raise DataError.public(
                f"the client's own --most-snapshot-mb {self.most_snapshot:g} allows no snapshot of {size / 1e6:,.1f} MB"
            )

    def check_column_sums(self) -> None:
        """Raise DataError where sums of columns are asked for, which have no noise and no mask."""
        option = "--only-sums" if self.only_sums else "--lifetime-epsilon" if self.only_noise else ""
        option = option or (f"--least-noise {self.least_noise:g}" if self.least_noise else "")
        if option:
            raise DataError.public(
                f"the client's own {option} allows no sums of its columns, which have no noise and no mask, to be told;"
                " give standardize-by on the server"
            )

    def check_tries(self, samples: int) -> None:
        """Raise DataError where F may not be tried out on so few samples: whether it repeats tells of its losses."""
        self.check_losses(1)
        if samples < self.least_batch:
            raise DataError.public(
                f"the client's own --least-batch {self.least_batch} does not allow checks on {samples} samples; a"
                " larger batch-size, or 0 for the whole shard, does"
            )

    def check_losses(self, count: int) -> None:
        """Raise DataError where so many losses in one answer are too many, or losses without noise are not allowed."""
        if self.only_sums:
            raise DataError.public("the client's own --only-sums allows no losses, which are its own, to be told")
        if self.only_noise:
            raise DataError.public(
                "the client's own --lifetime-epsilon allows no losses, which have no noise, to be told"
            )
        if self.least_noise:
            raise DataError.public(
                f"the client's own --least-noise {self.least_noise:g} allows no losses, which have no noise, to be told"
            )
        if self.most_steps and count > self.most_steps:
            raise DataError.public(
                f"the client's own --most-steps {self.most_steps} does not allow an answer of {count} losses"
            )
