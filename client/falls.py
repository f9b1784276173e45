"""What the steps of a slot are worth: how far the loss falls over some of them, and how x compares with the anchor.

A step of length s = eta c along v promises a fall of s c. With curvature h = v'Hv the loss falls by s c - s^2 h/2. So
h at the steps' own length is told by sums over some steps, whatever the units. Shorter than the radius no step is
looked at: the slope is none of what happens there.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from zofedht.common.config.step_spec import StepSpec
from zofedht.common.errors import ObjectiveError
from zofedht.common.objective.base import ExactObjective, Objective
from zofedht.common.objective.user_traceback import USER_ERRORS, raised_by_objective
from zofedht.common.typing import Indices, Matrix, Vector

__all__ = ["Falls"]


class Falls:
    """Sums over every ``spec.measured``-th step of a slot; nothing is evaluated where that is 0.

    Parameters
    ----------
    objective : Objective
    spec : StepSpec
    anchor : (n,) array, optional
        What x_r is compared with, where the first step is measured.
    """

    def __init__(self, objective: Objective, spec: StepSpec, anchor: Vector | None) -> None:
        self._objective, self._spec, self._anchor = objective, spec, anchor
        self.squares = 0.0  # sum of c^2
        self.bent = 0.0  # sum of s^2 h = 2 (s c - fall), each on the samples of its step
        self.lengths = 0.0  # sum of s^2
        self.gap = 0.0  # F(x_r) - F(anchor), on the samples of the first step

    def due(self, step: int) -> bool:
        """Whether the 0-based local step is measured."""
        return self._spec.measured > 0 and step % self._spec.measured == 0

    def of_block(self, w: Vector, v: Matrix, slopes: Matrix, batches: Sequence[Indices | slice], first: int) -> None:
        """Measure the steps of a block that began at w with the local step ``first``.

        v is (steps, q, n), the slopes are (steps, q).
        """
        for k in range(len(v)):
            if self.due(first + k):
                before = (self._spec.step_size * slopes[:k]).reshape(-1) @ v[:k].reshape(-1, len(w))
                self.of_step(w - before, v[k], slopes[k], batches[k], first + k)

    def of_step(self, w: Vector, v: Matrix, slopes: Vector, batch: Indices | slice, step: int) -> None:
        """Measure a step from w along the rows of v, (q, n); with the first step, at x_r, compare x_r and the anchor.

        Raises ObjectiveError when an evaluation fails and such steps are not skipped.
        """
        slope = float(np.linalg.norm(slopes))  # along the step, in units of sqrt(n) as v is
        length = max(self._spec.step_size * slope, self._spec.radius)
        measures = slope > 0.0 and self._spec.step_size > 0.0
        moves = [-length / slope * (slopes @ v)] if measures else []
        if step == 0 and self._anchor is not None:
            moves.append(self._anchor - w)
        try:
            falls = self._falls(w, moves, batch)
        except USER_ERRORS as error:
            if self._spec.skips_steps:
                return
            raise raised_by_objective(error, step=step) from error
        if not np.all(np.isfinite(falls)):
            text = "the loss after a step is not finite; a smaller step-size usually cures this"
            raise ObjectiveError.public(text, cause="not-finite", step=step)
        self.squares += slope * slope
        if measures:
            self.bent += 2.0 * (length * slope - falls[0])
            self.lengths += length * length
        if step == 0 and self._anchor is not None:
            self.gap = falls[-1]

    def _falls(self, w: Vector, moves: Sequence[Vector], batch: Indices | slice) -> list[float]:
        """Return F(w) - F(w + move) for each move."""
        if not moves:
            return []
        if isinstance(self._objective, ExactObjective):
            return [-self._objective.difference(w, move, 1.0, 0.0, batch)[0] for move in moves]
        here, *there = self._objective.values(np.stack([w, *(w + move for move in moves)]), batch)
        return [float(here - value) for value in there]
