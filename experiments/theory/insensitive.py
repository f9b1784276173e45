"""Problem (10) and the claim behind Q: it should hold the directions in which f bends least.

For f = x'Hx/2 the bound of eq. (8) is proportional to E<v, Hv> = (1-a) tr H + a tr Q'HQ. So the best Q holds the
eigenvectors of the m smallest eigenvalues of H, and a run's Q can be compared with them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from zofedht.common.typing import Matrix
from zofedht.experiments.theory.bounds import Work
from zofedht.experiments.theory.quadratic_problem import make_quadratic, trajectory_bases

__all__ = ["Held", "held_by_trajectory", "smoothing_cost"]

_CONDITION = 100.0  # the largest curvature over the smallest
_WORK = Work(rounds=400, local_steps=5, slots=5, radius=1e-3)
_STEP = 0.02


@dataclass(frozen=True)
class Held:
    """The share of span(Q) that lies in the m least and the m most curved directions, the mean over a part of a run."""

    noise: float
    least_early: float
    most_early: float
    least_late: float
    most_late: float
    chance: float  # m/n


def smoothing_cost(hessian: Matrix, basis: Matrix, weight: float) -> float:
    """Return E<v, Hv> for v ~ N(0, (1-a) I + a Q Q'): the objective of problem (10)."""
    return float((1.0 - weight) * np.trace(hessian) + weight * np.trace(basis.T @ hessian @ basis))


def held_by_trajectory(noise: float, *, dimension: int = 20, weight: float = 0.3, seed: int = 0) -> Held:
    """Run ZOFedHT on a quadratic with curvatures from 1 to 1/100 and look at the Q of its first and last tenth."""
    curvature = np.geomspace(1.0, 1.0 / _CONDITION, dimension)
    quadratic = make_quadratic(
        dimension, gap=100.0, local_noise=noise, global_noise=0.25 * noise, curvature=curvature, seed=seed
    )
    bases = trajectory_bases(quadratic, _WORK, _STEP, weight=weight, seed=seed)
    shares = np.array([[np.sum(np.square(q[-q.shape[1] :])), np.sum(np.square(q[: q.shape[1]]))] for q in bases])
    shares /= bases[0].shape[1]
    tenth = max(1, len(bases) // 10)
    early, late = shares[:tenth].mean(axis=0), shares[-tenth:].mean(axis=0)
    return Held(
        noise=noise,
        least_early=float(early[0]),
        most_early=float(early[1]),
        least_late=float(late[0]),
        most_late=float(late[1]),
        chance=bases[0].shape[1] / dimension,
    )
