"""A slot's arrays are held against the memory that is free before they are allocated: a server chooses their sizes."""

from __future__ import annotations

from typing import Any

from zofedht.common.errors import DataError
from zofedht.common.machine.memory import lacking
from zofedht.common.objective.base import Objective
from zofedht.common.wire.messages import Broadcast

__all__ = ["check_room"]

_NUMBER = 8  # bytes


def check_room(broadcast: Broadcast, objective: Objective) -> None:
    """Raise DataError where the steps of a slot need more memory than is free.

    A step holds its q directions and both ends of them, the rows of its batch and q scores of each. A client that
    follows the trajectory holds its moves, too.
    """
    spec, n = broadcast.spec, objective.dim
    if broadcast.points is not None:
        needed = broadcast.answers * n
    else:
        rows: Any = getattr(objective, "features", None)
        width = rows.shape[1] if getattr(rows, "ndim", 0) == 2 else 1
        together, samples = spec.slopes_per_step, spec.samples(len(objective))
        needed = 2 * together * n + samples * (together + (width if spec.batch_size else 1)) + broadcast.memory * n
    if text := lacking(_NUMBER * needed, "the directions, samples and moves of such a slot"):
        raise DataError.public(f"{text}; a smaller batch-size, slopes-per-step or memory takes less")
