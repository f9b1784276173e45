"""Local steps of a linear model without an n-vector per step.

With a = X x_r and P = X V^T, the scores after k steps are a - eta sum_j c_j P_j, so a step costs O(b)
and the slot one product for all its directions. The slopes equal those of the plain steps up to the
order of sums.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from zofedht.client.falls import Falls
from zofedht.client.plan import Plan
from zofedht.common.directions.slopes import ENDS
from zofedht.common.models.linear import LinearObjective
from zofedht.common.typing import Indices, Matrix, Vector

__all__ = ["linear_steps", "pays_off"]

_ROWS_PER_SAMPLE = 16
"""One product over the whole shard beats one gather per step up to this many rows per batch sample."""


def pays_off(objective: LinearObjective, batch_size: int) -> bool:
    """Whether projecting the whole shard is cheaper than reading each step's rows."""
    return batch_size == 0 or len(objective) <= _ROWS_PER_SAMPLE * batch_size


def linear_steps(objective: LinearObjective, x: Vector, plan: Plan, falls: Falls) -> tuple[Vector, Vector, Vector]:
    """Return the move (n,), the slopes (K q,) and the mean losses of the probes (K q,)."""
    upper, lower = (end * plan.spec.radius for end in ENDS[plan.spec.slope])
    step_size, batches = plan.spec.step_size, plan.batches(len(objective))
    together = plan.spec.slopes_per_step  # q
    batches = [batch for batch in batches for _ in range(together)]  # that of each slope
    slopes, losses = np.empty(len(batches)), np.empty(len(batches))
    scores = objective.features @ x  # a: (rows,), kept up to date step by step
    w = x.copy()
    done = 0
    for v in plan.directions():
        taken = slice(done, done + len(v))
        projected = np.ascontiguousarray((objective.features @ v.T).T)  # P^T: (block, rows)
        along, y = _on_batches(projected, objective.target, batches[taken])
        lows, offset = np.empty_like(along), lower * along
        difference_of = objective.loss.along((upper - lower) * along, y)
        penalty = _Penalty(objective.l2, w, v) if objective.l2 else None
        for k, batch in enumerate(batches[taken]):
            low = np.add(scores if isinstance(batch, slice) else scores.take(batch), offset[k], out=lows[k])
            difference = difference_of(k, low)
            losses[done + k] = 0.5 * difference
            if penalty:
                extra, extra_loss = penalty.probe(k, upper, lower)
                losses[done + k] += extra_loss
                difference += extra
            c = difference / (upper - lower)
            slopes[done + k] = c
            if (k + 1) % together:
                continue
            for j in range(k + 1 - together, k + 1):  # the step, by the sum of its slopes
                scores -= (step_size * slopes[done + j]) * projected[j]
                if penalty:
                    penalty.step(j, step_size * slopes[done + j])
        losses[taken] += objective.loss.value(lows, y).mean(axis=1)  # no step depends on them: all at once
        falls.of_block(
            w,
            v.reshape(-1, together, len(w)),
            slopes[taken].reshape(-1, together),
            batches[taken][::together],
            done // together,
        )
        w -= (step_size * slopes[taken]) @ v
        done += len(v)
    return w - x, slopes, losses


def _on_batches(projected: Matrix, target: Vector, batches: Sequence[Indices | slice]) -> tuple[Matrix, Matrix]:
    """Return the projections and the labels of each step's samples, (block, b) each."""
    if isinstance(batches[0], slice):
        return projected, np.broadcast_to(target, projected.shape)
    drawn = np.stack([batch for batch in batches if not isinstance(batch, slice)])
    return np.take_along_axis(projected, drawn, axis=1), target[drawn]


class _Penalty:
    """l2/2 |w|^2 along a block of directions, from their inner products alone."""

    def __init__(self, l2: float, w: Vector, v: Matrix) -> None:
        self._l2 = l2
        self._gram = v @ v.T
        self._along = v @ w  # w.v_k for the current w
        self._square = float(w @ w)

    def probe(self, k: int, upper: float, lower: float) -> tuple[float, float]:
        """Return the penalty's difference, and its mean over both ends."""
        along, square = self._along[k], self._gram[k, k]
        difference = self._l2 * (upper - lower) * (along + 0.5 * (upper + lower) * square)
        ends = (self._square + 2.0 * end * along + end * end * square for end in (upper, lower))
        return difference, 0.25 * self._l2 * sum(ends)

    def step(self, k: int, length: float) -> None:
        """Follow w <- w - length v_k."""
        self._square += length * (length * self._gram[k, k] - 2.0 * self._along[k])
        self._along = self._along - length * self._gram[k]
