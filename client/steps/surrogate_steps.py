"""Local steps along the gradient of a surrogate of F, from the values that this client has seen. Pure.

f is the client's surrogate, refitted in each step to the values nearest to w. h and h_i are the features that tell the
mean of all surrogates, and the client's own. Step t, from 1, is:

    g = grad f(w) + (grad h(w) - grad h_i(w)) / t.
    w <- w - eta m / (sqrt v + 1e-8), m and v Adam's means of g and g^2 without their bias.

F is then asked at the new w. After each step but the last it is asked at q of 100 points around w, where f is least
certain. The slot begins with F at x_r, and at the 50 of 200 points around it where f is least certain. Points are
uniform in a cube of the radius. The cube of the first ones is as large as half the way that w had gone from x_r, where
that is more.

Source: Shu et al. 2023 (FZooS), algorithm 2; its numbers are those of its public code, github shuyao95/FZooS at
27cd341.
"""

from __future__ import annotations

import numpy as np

from zofedht.client.plan import Plan
from zofedht.client.steps.slot_result import SlotResult
from zofedht.common.config.step_spec import FIRST_QUERIES
from zofedht.common.errors import ObjectiveError
from zofedht.common.objective.base import Objective
from zofedht.common.objective.user_traceback import USER_ERRORS, raised_by_objective
from zofedht.common.surrogate import FIRST_SCALE, Surrogate, feature_gradient, fitted
from zofedht.common.typing import Matrix, Vector

__all__ = ["surrogate_steps"]

_FIRST_CANDIDATES, _CANDIDATES = 200, 100
_MEAN, _SQUARE, _FLOOR = 0.9, 0.999, 1e-8  # Adam's


def surrogate_steps(
    objective: Objective, x: Vector, plan: Plan, held: Matrix | None, surplus: Vector | None
) -> SlotResult:
    """Take K steps from x and return where they led, and the values that were seen.

    ``held`` are values that the client saw before, (m, n + 1), with F in the last column. ``surplus`` are the weights
    of the features that tell the mean surrogate, less its own, (FEATURES,).

    Raises ObjectiveError when an evaluation fails.
    """
    spec, seen = plan.spec, _Seen(objective, plan, held)
    losses = [seen.ask(x[None], None)]
    seen.ask(seen.most_uncertain(x, FIRST_QUERIES, _FIRST_CANDIDATES, max(spec.radius, seen.way)), None)
    w, mean, square = x.copy(), np.zeros_like(x), np.zeros_like(x)
    for step in range(spec.local_steps):
        gradient = seen.around(w).gradient(w)
        if surplus is not None:
            gradient += feature_gradient(surplus, w, spec.radius, plan.address.seed) / (step + 1)
        mean += (1.0 - _MEAN) * (gradient - mean)
        square += (1.0 - _SQUARE) * (gradient * gradient - square)
        along = mean / (1.0 - _MEAN ** (step + 1))
        w = w - spec.step_size * along / (np.sqrt(square / (1.0 - _SQUARE ** (step + 1))) + _FLOOR)
        losses.append(seen.ask(w[None], step))
        if step < spec.local_steps - 1:
            seen.ask(seen.most_uncertain(w, spec.slopes_per_step, _CANDIDATES, spec.radius), step)
    told = seen.told
    return SlotResult(
        w - x, np.empty(0), float(np.mean(losses)), losses[0], spec.evaluations(len(objective)), queries=told
    )


class _Seen:
    """The values that a client has seen, the newest last."""

    def __init__(self, objective: Objective, plan: Plan, held: Matrix | None) -> None:
        self._objective, self._plan = objective, plan
        self._draws = plan.address.stream("queries")
        self._rows = np.empty((0, objective.dim + 1)) if held is None else held
        self._before, self._scale = len(self._rows), FIRST_SCALE * plan.spec.radius

    @property
    def told(self) -> Matrix:
        """The rows of this slot, (queries, n + 1)."""
        return self._rows[self._before :]

    @property
    def way(self) -> float:
        """Half of how far, in the mean over parameters, x_r is from where the client's last slot ended."""
        if not self._before:
            return 0.0
        return float(np.mean(np.abs(self._rows[self._before, :-1] - self._rows[self._before - 1, :-1]))) / 2.0

    def ask(self, points: Matrix, step: int | None) -> float:
        """Evaluate F at the rows of ``points``, and return its first value."""
        try:
            values = self._objective.values(points, slice(None))
        except USER_ERRORS as error:
            raise raised_by_objective(error, step=step or 0) from error
        if not np.all(np.isfinite(values)):
            text = "F is not finite at a point around x; a smaller step-size or radius usually cures this"
            raise ObjectiveError.public(text, cause="not-finite", step=step or 0)
        self._rows = np.vstack([self._rows, np.column_stack([points, values])])
        return float(values[0])

    def around(self, w: Vector, *, climbs: bool = True) -> Surrogate:
        """Return the surrogate of the values nearest to w, as many as ``memory`` says; l stays unless it climbs."""
        apart = np.linalg.norm(self._rows[:, :-1] - w, axis=1)
        rows = self._rows[np.argsort(-apart, kind="stable")[-self._plan.spec.kept_queries :]]
        found = fitted(rows[:, :-1], rows[:, -1], self._scale, climbs=climbs)
        self._scale = found.scale
        return found

    def most_uncertain(self, w: Vector, count: int, candidates: int, half: float) -> Matrix:
        """Return the points in a cube around w at which the gradient is least certain, (count, n)."""
        points = w + self._draws.uniform(-half, half, size=(max(candidates, count), len(w)))
        uncertainty = self.around(w, climbs=False).uncertainty(points)
        return points[np.argsort(uncertainty, kind="stable")[-count:]]
