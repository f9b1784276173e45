"""The slopes of one step, checked: Algorithm 1, line 15."""

from __future__ import annotations

import math

import numpy as np

from zofedht.client.plan import Plan
from zofedht.common.directions.slopes import Probes, along_gradient, probes
from zofedht.common.errors import ObjectiveError
from zofedht.common.objective.base import Objective
from zofedht.common.objective.user_traceback import USER_ERRORS, raised_by_objective
from zofedht.common.typing import Indices, Matrix, Vector

__all__ = ["by_spread", "checked_probes", "require_finite"]


def checked_probes(
    objective: Objective, w: Vector, directions: Matrix, batch: Indices | slice, plan: Plan, step: int
) -> tuple[Matrix, Probes]:
    """Return the directions of a step and the slopes along them, at w on the samples of ``batch``.

    Raises ObjectiveError, with its cause and step, when an evaluation fails or a slope is not finite.
    """
    try:
        if plan.spec.takes_gradients:
            directions, measured = along_gradient(objective, w, batch)
        else:
            measured = probes(objective, w, directions, plan.spec.radius, batch, plan.spec.slope)  # line 15
    except USER_ERRORS as error:
        raise raised_by_objective(error, step=step) from error
    for slope in measured.slopes:
        require_finite(float(slope), step)
    if plan.spec.slope_scale == "none":
        return directions, measured
    return directions, measured._replace(slopes=by_spread(measured.slopes))


def by_spread(slopes: Vector) -> Vector:
    """Return slopes over their standard deviation (FZOO, Dang et al. 2025, with proposition 3.2).

    Equal slopes tell no scale and become 0.
    """
    largest = float(np.max(np.abs(slopes))) or 1.0  # squares of large slopes overflow
    spread = float(np.std(slopes / largest, ddof=1))
    return slopes / largest / spread if spread > 0.0 else np.zeros_like(slopes)


def require_finite(slope: float, step: int) -> None:
    """Raise ObjectiveError unless the slope of a step is a finite number."""
    if not math.isfinite(slope):
        raise ObjectiveError.public(
            f"the slope is {slope}, not a finite number; a smaller step-size or radius usually cures this",
            cause="not-finite",
            step=step,
        )
