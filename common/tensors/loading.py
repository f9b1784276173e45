"""From ``module:factory`` to a checked objective in place."""

from __future__ import annotations

from typing import Any

from zofedht.common.errors import ObjectiveError
from zofedht.common.objective.base import Objective, Shard
from zofedht.common.objective.loading import made_by
from zofedht.common.objective.points import told_metrics
from zofedht.common.objective.user_traceback import USER_ERRORS, raised
from zofedht.common.tensors.blocks import checked_blocks
from zofedht.common.tensors.objective import InPlaceObjective
from zofedht.common.tensors.stiff import checked_stiff

__all__ = ["checked_in_place", "load_in_place", "metrics_in_place"]


def load_in_place(path: str, shard: Shard | None = None) -> InPlaceObjective:
    """Import ``module:factory`` and make the objective of one shard. Raises ObjectiveError."""
    return checked_in_place(made_by(path, shard or Shard()), path)


def checked_in_place(made: Any, path: str) -> InPlaceObjective:
    """Return what a factory made.

    Raises ObjectiveError unless that is an InPlaceObjective with blocks, whose tensors are as they say, with samples,
    and with stiff directions of these blocks, if any.
    """
    if not isinstance(made, InPlaceObjective):
        way_out = "leave out in-place for an Objective" if isinstance(made, Objective) else "return an InPlaceObjective"
        raise ObjectiveError(
            f"{path} must be an InPlaceObjective where in-place is true, got {type(made).__name__}; {way_out}"
        )
    try:
        blocks, samples = checked_blocks(made.blocks, path), len(made)
        for index, block in enumerate(blocks):
            numbers = made.tensor(index)
            if tuple(numbers.shape) != tuple(block.shape) or numbers.dtype != block.numpy_dtype:
                raise ObjectiveError(
                    f"{path}: the tensor of block {block.name} must be {block.numpy_dtype} of shape {block.shape}, got"
                    f" {numbers.dtype} of shape {tuple(numbers.shape)}"
                )
        checked_stiff(made.stiff, blocks)
    except ObjectiveError:
        raise
    except USER_ERRORS as error:
        raise ObjectiveError(f"{path}: the blocks of the objective {raised(error)}") from error
    if samples < 1:
        raise ObjectiveError(f"{path}: the shard must hold at least 1 sample, got {samples}")
    return made


def metrics_in_place(objective: InPlaceObjective) -> dict[str, float]:
    """Return the metrics of the present parameters on the whole shard by name.

    Raises ObjectiveError when the objective raises or gives no ``loss``.
    """
    return told_metrics(objective.evaluate)
