"""Local steps under differential privacy: slopes are clipped, and under local privacy also noised, before w moves.

Local: every sample's slope is cut to [-C, C], summed over a batch that only this device knows, and divided by the mean
size b of a batch. One row changes the q slopes of a step by C sqrt(q) / b at most, and the noise has z times that. w
moves by the noised slopes, so all that follows (w, the move, its sketch, later slopes' places) is computed from what is
sent: K steps are K Gaussian mechanisms on batches of a Poisson sample, one after the other, each with its place chosen
by the answers before it. The penalty of a model depends on no row; it is added without noise.

An objective without values of samples has its slope cut as a whole. All its rows together then change it by C.

Central: the slope is cut as a whole, and the server adds the noise to the mean of the round.

Sources: Abadi et al. 2016 (algorithm 1), McMahan et al. 2018 (clients as units).
"""

from __future__ import annotations

import math

import numpy as np

from zofedht.client.plan import Plan
from zofedht.client.steps.slot_result import SlotResult
from zofedht.common.directions.slopes import ENDS, probes
from zofedht.common.errors import ObjectiveError
from zofedht.common.objective.base import ExactObjective, Objective, checked_vector
from zofedht.common.objective.scaling import in_user_units
from zofedht.common.objective.user_traceback import USER_ERRORS, raised_by_objective
from zofedht.common.privacy.private_draws import PrivateDraws
from zofedht.common.typing import Indices, Matrix, Vector

__all__ = ["private_steps"]


def private_steps(objective: Objective, x: Vector, plan: Plan, draws: PrivateDraws) -> SlotResult:
    """Take K steps from x by private slopes and return where they led.

    An evaluation that fails, or a slope that is not finite, counts as slope 0: a failure would tell about the rows.
    ``error`` is the first one, for the device's own log. Under local privacy the losses are NaN: they hold no noise.

    Raises ObjectiveError where sampling is counted and the objective has no values of samples.
    """
    spec = plan.spec
    measure = _Local(objective, plan, draws) if spec.privacy == "local" else _Central(objective, plan)
    w = x.copy()
    slopes = np.empty((spec.local_steps, spec.slopes_per_step))
    for step, directions in enumerate(plan.steps(len(w))):
        slopes[step] = measure(w, directions, step)
        for c, v in zip(slopes[step], directions, strict=True):
            w -= spec.step_size * c * v
    told = measure.losses or [math.nan]
    evaluations = spec.evaluations(len(objective))
    return SlotResult(w - x, slopes.reshape(-1), float(np.mean(told)), told[0], evaluations, error=measure.error)


class _Measure:
    """The slopes of a step; it keeps the first error."""

    error: ObjectiveError | None = None

    def __init__(self, objective: Objective, plan: Plan) -> None:
        self._objective, self._plan = objective, plan
        self._upper, self._lower = (end * plan.spec.radius for end in ENDS[plan.spec.slope])
        self.losses: list[float] = []

    def __call__(self, w: Vector, directions: Matrix, step: int) -> Vector:
        raise NotImplementedError

    def _whole(self, w: Vector, directions: Matrix, batch: Indices | slice, step: int, *, keep: bool) -> Vector:
        """Return the slopes of the mean over the batch, each cut to [-C, C]."""
        spec = self._plan.spec
        try:
            found = probes(self._objective, w, directions, spec.radius, batch, spec.slope)
        except USER_ERRORS as error:
            self.error = self.error or raised_by_objective(error, step=step)
            return np.zeros(len(directions))
        if keep:
            self.losses.extend(loss for loss in found.losses.tolist() if math.isfinite(loss))
        return _cut(found.slopes, spec.clip)


class _Central(_Measure):
    def __init__(self, objective: Objective, plan: Plan) -> None:
        super().__init__(objective, plan)
        self._batches = plan.batches(len(objective))

    def __call__(self, w: Vector, directions: Matrix, step: int) -> Vector:
        return self._whole(w, directions, self._batches[step], step, keep=True)


class _Local(_Measure):
    def __init__(self, objective: Objective, plan: Plan, draws: PrivateDraws) -> None:
        super().__init__(objective, plan)
        self._draws, self._rows = draws, len(objective)
        self._samples = plan.spec.samples(self._rows)  # b, the mean size of a batch
        self._by_sample = type(in_user_units(objective)).differences is not Objective.differences
        if plan.spec.least_samples and not self._by_sample:
            raise ObjectiveError.public(
                f"least-samples must be 0 where the objective has no differences() of single samples, got"
                f" {plan.spec.least_samples}: its slope is cut as a whole, and no sampling may be counted"
            )

    def __call__(self, w: Vector, directions: Matrix, step: int) -> Vector:
        spec, objective = self._plan.spec, self._objective
        batch = self._draws.batch(step, self._rows, self._samples / self._rows)
        change = spec.clip * math.sqrt(len(directions))  # of the slopes of a step, by one row times b, or by all rows
        if self._by_sample:
            change /= self._samples
            parts = np.stack([self._parts(w, v, batch, step) for v in directions])
            slopes = _cut(parts, spec.clip).sum(axis=1) / self._samples
        else:
            slopes = self._whole(w, directions, slice(None), step, keep=False)
        slopes = self._draws.noised(step, slopes, spec.noise_multiplier * change)
        if isinstance(objective, ExactObjective):
            between = self._upper - self._lower
            slopes += [objective.penalty(w, v, self._upper, self._lower) / between for v in directions]
        return slopes

    def _parts(self, w: Vector, v: Vector, batch: Indices | slice, step: int) -> Vector:
        """Return the slope of each sample along v, (b,); zeros where an evaluation fails."""
        samples = self._rows if isinstance(batch, slice) else len(batch)
        if not samples:
            return np.zeros(0)
        try:
            found = self._objective.differences(w, v, self._upper, self._lower, batch)
            return checked_vector("differences()", found, samples, finite=False) / (self._upper - self._lower)
        except USER_ERRORS as error:
            self.error = self.error or raised_by_objective(error, step=step)
            return np.zeros(samples)


def _cut(slopes: Matrix, clip: float) -> Matrix:
    """Return the slopes cut to [-C, C]; what is not a number counts as 0."""
    cut: Matrix = np.clip(np.nan_to_num(slopes, nan=0.0, posinf=clip, neginf=-clip), -clip, clip)
    return cut
