"""The K local steps of one slot: Algorithm 1, lines 10-18. Pure."""

from __future__ import annotations

import math

import numpy as np

from zofedht.client.falls import Falls
from zofedht.client.plan import Plan
from zofedht.client.steps.linear_steps import linear_steps, pays_off
from zofedht.client.steps.slot_result import SlotResult, all_failed
from zofedht.client.steps.step_slopes import checked_probes, require_finite
from zofedht.client.steps.svrg_steps import svrg_steps
from zofedht.common.errors import ObjectiveError
from zofedht.common.models.linear import LinearObjective
from zofedht.common.models.mlp import MlpObjective
from zofedht.common.objective.base import Objective
from zofedht.common.random.kernels import runs_compiled
from zofedht.common.typing import Vector

__all__ = ["local_steps"]


def local_steps(
    objective: Objective,
    x: Vector,
    plan: Plan,
    anchor: Vector | None = None,
    control: Vector | None = None,
    shift: Vector | None = None,
) -> SlotResult:
    """Take K zeroth-order steps from x and return where they led.

    ``anchor`` is what x is compared with where steps are measured, ``control`` is a, of which slopes c become c - v.a.
    ``shift`` leads from w to where slopes are measured again.

    Raises ObjectiveError, with its cause and step, when an evaluation fails or a slope is not finite; if such steps
    are skipped, only when all of them were.
    """
    errors: list[ObjectiveError] = []
    falls = Falls(objective, plan.spec, anchor)
    found = _fused_steps(objective, x, plan, falls) if control is None and shift is None else None
    if found is not None and plan.spec.skips_steps and not np.all(np.isfinite(found[1])):
        found, falls = None, Falls(objective, plan.spec, anchor)  # what is skipped must be known as it happens
    if found is not None:
        (move, slopes, losses), curvatures, changes = found, None, None
        if not np.isfinite(slopes).all():
            at = int(np.argmin(np.isfinite(slopes)))
            require_finite(float(slopes[at]), at // plan.spec.slopes_per_step)
    else:
        move, slopes, losses, curvatures, changes = _any_steps(objective, x, plan, falls, errors, control, shift)
        if len(errors) == plan.spec.local_steps:
            raise all_failed(errors[0], plan.spec.local_steps)
        if errors:
            losses = losses[~np.isnan(losses)]  # those of the steps that were taken
    evaluations = plan.spec.evaluations(len(objective))
    loss, start_loss = float(np.mean(losses)), float(losses[0])
    first_error = errors[0] if errors else None
    return SlotResult(move, slopes, loss, start_loss, evaluations, len(errors), first_error, falls, curvatures, changes)


def _fused_steps(objective: Objective, x: Vector, plan: Plan, falls: Falls) -> tuple[Vector, Vector, Vector] | None:
    """Return move, slopes and losses from loops of the model or the correction's own, or None where there are none."""
    if plan.spec.correction == "svrg":
        return svrg_steps(objective, x, plan)
    if plan.spec.slope_scale != "none" or plan.spec.slope in ("gradient", "three-point"):
        return None
    if isinstance(objective, LinearObjective | MlpObjective) and runs_compiled(plan.spec.kernel):
        from zofedht.client.kernels import steps as compiled_steps  # numba is there only with the extra ``fast``

        if compiled_steps.covers(objective):
            return compiled_steps.steps(objective, x, plan, falls)
    if not isinstance(objective, LinearObjective) or not pays_off(objective, plan.spec.batch_size):
        return None
    return linear_steps(objective, x, plan, falls)


def _any_steps(
    objective: Objective,
    x: Vector,
    plan: Plan,
    falls: Falls,
    errors: list[ObjectiveError],
    control: Vector | None,
    shift: Vector | None,
) -> tuple[Vector, Vector, Vector, Vector | None, Vector | None]:
    w = x.copy()
    together = plan.spec.slopes_per_step  # q
    slopes, losses, curvatures, changes = (np.zeros((plan.spec.local_steps, together)) for _ in range(4))
    batches = plan.batches(len(objective))
    for step, drawn in enumerate(plan.steps(len(w))):
        try:
            directions, measured = checked_probes(objective, w, drawn, batches[step], plan, step)
            slopes[step], losses[step] = measured.slopes, measured.losses
            if measured.curvatures is not None:
                curvatures[step] = measured.curvatures
            if shift is not None:
                again = checked_probes(objective, w + shift, directions, batches[step], plan, step)[1]
                changes[step] = again.slopes - measured.slopes
            if control is not None:
                slopes[step] -= (directions * control).sum(axis=1)  # SCAFFOLD's eq. 3, along v
            if falls.due(step):
                falls.of_step(w, directions, slopes[step], batches[step], step)
        except ObjectiveError as error:
            if not plan.spec.skips_steps:
                raise
            errors.append(error)
            slopes[step], losses[step] = 0.0, math.nan
        else:
            for c, v in zip(slopes[step], directions, strict=True):
                w -= plan.spec.step_size * c * v  # line 16
    told = curvatures.reshape(-1) if plan.spec.slope == "three-point" else None
    changed = None if shift is None else changes.reshape(-1)
    return w - x, slopes.reshape(-1), losses.reshape(-1), told, changed
