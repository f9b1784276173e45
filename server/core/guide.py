"""What the server learns for laws of directions that are shaped by one vector: the cone and the diagonal. Pure.

cone:      m <- b^K m + (1 - b^K) d, with d the mean move of the round and K its local steps; the guide is m / |m|.
           The source smooths c v in every step with b = .99; K steps are one move here (ConMeZO, Behric et al. 2025).
diagonal:  h <- b h + (1 - b) g^2, with g = -d / (eta K q) the mean of c v, and h = 1 at first; the guide is h, at
           least the floor. The source takes g from the last step and has no floor (HiSo, Li et al. 2026).
"""

from __future__ import annotations

import numpy as np

from zofedht.common.config.run_config import RunConfig
from zofedht.common.config.step_spec import StepSpec
from zofedht.common.typing import Matrix, Vector

__all__ = ["guide_of", "learn"]


def learn(learnt: Vector | None, mean_move: Vector, spec: StepSpec, config: RunConfig) -> Vector | None:
    """Return m or h after a round, (n,), or None where the law has none; what overflows is not learnt.

    ``spec`` is how the round's steps were taken.
    """
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        match config.row.law:
            case "cone":
                kept = config.guide_decay**spec.local_steps
                after = (1.0 - kept) * mean_move
                if learnt is not None:
                    after = kept * learnt + after
            case "diagonal":
                mean_slope = mean_move / (spec.step_size * spec.slopes)
                before = np.ones_like(mean_move) if learnt is None else learnt
                after = config.guide_decay * before + (1.0 - config.guide_decay) * mean_slope * mean_slope
            case _:
                return None
    return after if np.all(np.isfinite(after)) else learnt


def guide_of(learnt: Vector | None, config: RunConfig) -> Matrix | None:
    """Return the guide as a column, (n, 1), or None where there is no use in one."""
    if learnt is None:
        return None
    if config.row.law == "diagonal":
        return np.maximum(learnt, config.guide_floor)[:, None]
    largest = float(np.max(np.abs(learnt)))
    if largest == 0.0:
        return None
    scaled = learnt / largest  # squares of tiny moves would underflow
    return (scaled / np.linalg.norm(scaled))[:, None]
