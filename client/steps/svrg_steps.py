"""Local steps whose slopes are corrected by those at x_r on the same samples: MeZO-SVRG.

The first step is along the slope C of the whole shard at x_r. In each later step, on a batch,

    w <- w - eta [(c_k - a_k) v_k + C v_0]    with c_k the slope at w along v_k, a_k that at x_r on the same samples.

So the noise of the samples goes as w - x_r does. In sum w moves by K C along v_0 and by c_k - a_k along the others:
these are the slopes that are sent, and a replay needs nothing else.

Source: Gautam et al. 2024, with q = K and one step size for both kinds of steps.
"""

from __future__ import annotations

import numpy as np

from zofedht.client.plan import Plan
from zofedht.client.steps.step_slopes import checked_probes
from zofedht.common.objective.base import Objective
from zofedht.common.typing import Indices, Vector

__all__ = ["svrg_steps"]


def svrg_steps(objective: Objective, x: Vector, plan: Plan) -> tuple[Vector, Vector, Vector]:
    """Return the move (n,), the slopes (K q,) and the mean losses of the probes (K q,).

    Raises ObjectiveError when an evaluation fails.
    """
    spec = plan.spec
    slopes, losses = (np.empty((spec.local_steps, spec.slopes_per_step)) for _ in range(2))
    batches: list[Indices | slice] = [slice(None), *plan.batches(len(objective))[1:]]
    w, again = x.copy(), np.zeros_like(x)
    for step, directions in enumerate(plan.steps(len(x))):
        _, measured = checked_probes(objective, w, directions, batches[step], plan, step)
        slopes[step], losses[step] = measured.slopes, measured.losses
        if step:
            slopes[step] -= checked_probes(objective, x, directions, batches[step], plan, step)[1].slopes
        w -= spec.step_size * (slopes[step] @ directions)
        if step:
            w -= again
        else:
            again = spec.step_size * (slopes[0] @ directions)
    slopes[0] *= spec.local_steps
    return w - x, slopes.reshape(-1), losses.reshape(-1)
