"""Where the steps of a slot led."""

from __future__ import annotations

from dataclasses import dataclass

from zofedht.client.falls import Falls
from zofedht.common.errors import ObjectiveError
from zofedht.common.typing import Matrix, Vector

__all__ = ["SlotResult", "all_failed"]


def all_failed(first: ObjectiveError, steps: int) -> ObjectiveError:
    """Return the error of a slot in which all of so many steps have failed, from that of the first one."""
    every = f"so it went in all {steps} steps"
    public = f"{first.public_text}; {every}"
    return ObjectiveError(f"{first}; {every}", public_text=public, cause=first.cause, step=first.step)


@dataclass(frozen=True)
class SlotResult:
    """move: w_K - x_r, (n,). slopes: c_1..c_Kq, (K q,), 0 in a skipped step. loss: mean loss of the probes.

    start_loss: of the first probe that was not skipped, the mean of its two ends; until then w is still x_r.
    """

    move: Vector
    slopes: Vector
    loss: float
    start_loss: float
    evaluations: int
    skipped: int = 0
    error: ObjectiveError | None = None  # of the first skipped step, or of the first slope that counts as 0
    falls: Falls | None = None  # what was measured beside the steps
    curvatures: Vector | None = None  # v'Hv of each direction, (K q,), where slopes take three points
    changes: Vector | None = None  # of each slope along the shift, (K q,), where there is one
    queries: Matrix | None = None  # points and F there, (queries, n + 1), where a surrogate is fitted
