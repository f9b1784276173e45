"""The K steps of a slot by compiled loops, block by block."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from zofedht.client.falls import Falls
from zofedht.client.kernels import linear as compiled_linear
from zofedht.client.kernels import mlp as compiled_mlp
from zofedht.client.kernels.column_groups import rows_of
from zofedht.client.kernels.losses import CODES
from zofedht.client.plan import Plan
from zofedht.common.directions.slopes import ENDS
from zofedht.common.models.linear import LinearObjective
from zofedht.common.models.mlp import MlpObjective
from zofedht.common.objective.base import Objective
from zofedht.common.typing import Vector

__all__ = ["covers", "prepare", "steps"]

_BLOCK_BYTES = 2**21
"""Directions with a subspace: a block reads the basis once."""
_CACHED_BYTES = 2**20
"""Directions without one stay in the second-level cache between their making and their use."""

_BLOCKS: dict[type[Objective], Callable[..., None]] = {
    LinearObjective: compiled_linear.steps_of_block,
    MlpObjective: compiled_mlp.steps_of_block,
}


def covers(objective: LinearObjective | MlpObjective) -> bool:
    """Whether there are loops for this objective: not for a subclass, which may compute something else, nor for a loss
    of somebody's own."""
    if type(objective) not in _BLOCKS:
        return False
    return not isinstance(objective, LinearObjective) or objective.loss in CODES


def prepare(objective: LinearObjective | MlpObjective) -> None:
    """Make what the loops read of an objective, which its first slot would make otherwise."""
    if not covers(objective):
        return
    if isinstance(objective, LinearObjective):
        rows_of(objective)
    else:
        _ = objective.rows


def steps(
    objective: LinearObjective | MlpObjective, x: Vector, plan: Plan, falls: Falls
) -> tuple[Vector, Vector, Vector]:
    """Return the move (n,), the slopes (K q,) and the mean losses of the probes (K q,) of a built-in model.

    After a slope that is not finite the rest is zero.
    """
    upper, lower = (end * plan.spec.radius for end in ENDS[plan.spec.slope])
    rules = (upper, lower, plan.spec.step_size, objective.l2)
    together = plan.spec.slopes_per_step  # q
    slopes, losses = (np.zeros((plan.spec.local_steps, together)) for _ in range(2))
    drawn = plan.drawn(len(objective))
    steps_of_block = _BLOCKS[type(objective)]
    w = x.copy()
    done = 0
    for v in plan.directions(_BLOCK_BYTES if plan.law.follows_basis else _CACHED_BYTES):
        taken = slice(done, done + len(v) // together)
        batches = None if drawn is None else drawn[taken]
        v = v.reshape(-1, together, len(w))
        start = w.copy() if plan.spec.measured else w
        steps_of_block(objective, w, v, batches, rules, slopes[taken], losses[taken])
        if not np.isfinite(slopes[taken]).all():
            break
        falls.of_block(start, v, slopes[taken], [slice(None)] * len(v) if batches is None else list(batches), done)
        done = taken.stop
    return w - x, slopes.reshape(-1), losses.reshape(-1)
