"""Problem (10) and the claim behind Q: it should hold the directions in which f bends least.

For f = x'Hx/2 the bound of eq. (8) is proportional to E<v, Hv> = (1-a) tr H + a tr Q'HQ. So the best Q holds the
eigenvectors of the m smallest eigenvalues of H, and a run's Q can be compared with them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from zofedht.common.config.run_config import RunConfig
from zofedht.common.models.linear import LinearObjective
from zofedht.common.shards import train_objective
from zofedht.common.typing import Matrix, Vector
from zofedht.experiments.theory.bounds import Work
from zofedht.experiments.theory.quadratic_problem import make_quadratic, trajectory_bases
from zofedht.server.core.round_record import RoundRecord
from zofedht.server.core.state import ServerState
from zofedht.server.inprocess import run_in_process

__all__ = ["Held", "HeldOnDigits", "held_by_trajectory", "held_on_digits", "smoothing_cost"]

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


@dataclass(frozen=True)
class HeldOnDigits:
    """The share of span(Q) in the m least and the m most curved directions, the mean over a run on digits."""

    partition: str
    least: float
    most: float
    chance: float


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


def held_on_digits(partition: str, *, rounds: int = 100, seed: int = 0) -> HeldOnDigits:
    """Run ZOFedHT on the logistic loss of digits; compare each Q with the Hessian at the x where it was made."""
    config = RunConfig.from_mapping(
        {
            "algorithm": "zofedht",
            "covariance": "paper",
            "subspace-weight": 0.3,
            "dataset": "digits",
            "model": "logistic",
            "partition": partition,
            "num-clients": 20,
            "clients-per-round": 10,
            "local-steps": 50,
            "batch-size": 64,
            "step-size": 3.0,
            "step-schedule": "inverse-sqrt",
            "rounds": rounds,
            "evaluate-every": 0,
            "seed": seed,
        }
    )
    made: dict[int, tuple[Matrix, Vector]] = {}

    def record(state: ServerState, _: RoundRecord) -> None:
        if state.basis is not None:
            made.setdefault(state.basis_version, (state.basis, state.x))

    run_in_process(config, observers=[record])
    objective = train_objective(config)
    assert isinstance(objective, LinearObjective)
    features = np.asarray(objective.features)
    shares = []
    for basis, x in made.values():
        chances = 1.0 / (1.0 + np.exp(-(features @ x)))
        hessian = (features * (chances * (1.0 - chances))[:, None]).T @ features / len(features)
        frame = np.linalg.eigh(hessian)[1]  # columns from the least to the most curved
        rank = basis.shape[1]
        shares.append([np.sum(np.square(part.T @ basis)) / rank for part in (frame[:, :rank], frame[:, -rank:])])
    least, most = np.mean(shares, axis=0)
    return HeldOnDigits(partition, float(least), float(most), rank / len(frame))
