"""A federated quadratic whose L, f*, sigma_l and sigma_g are known exactly, and runs of the product's engine on it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from zofedht.common.config.run_config import RunConfig
from zofedht.common.models.quadratic import QuadraticObjective
from zofedht.common.typing import Matrix, Vector
from zofedht.experiments.theory.bounds import Problem, Work
from zofedht.server.core.round_record import RoundRecord
from zofedht.server.core.state import ServerState
from zofedht.server.inprocess import run_in_process

__all__ = ["Quadratic", "make_quadratic", "mean_squared_gradient", "trajectory_bases"]


@dataclass(frozen=True)
class Quadratic:
    """f = mean_i f_i, f_i(x) = mean_j 1/2 sum_k h_k (x_k - z_ijk)^2, started at 0."""

    clients: list[QuadraticObjective]
    curvature: Vector  # h: (n,)
    centre: Vector  # x*: (n,)
    problem: Problem  # with sigma_l of single samples
    farthest: float  # max_i |grad f_i - grad f|, which assumption 3 of the paper calls sigma_g

    @property
    def printed_problem(self) -> Problem:
        """The constants as the paper's assumptions have them."""
        return replace(self.problem, global_noise=self.farthest)

    def gradient(self, x: Vector) -> Vector:
        """Return grad f(x), (n,)."""
        g: Vector = self.curvature * (x - self.centre)
        return g


def make_quadratic(
    dimension: int,
    *,
    clients: int = 20,
    rows: int = 20,
    gap: float = 1.0,
    local_noise: float = 2.0,
    global_noise: float = 0.5,
    curvature: Vector | None = None,
    seed: int = 0,
) -> Quadratic:
    """Return a quadratic with exactly these f(0) - f*, sigma_l and sigma_g, whatever n is.

    Its curvatures go from 1/2 to L = 1 unless ``curvature``, (n,), says otherwise.
    Deviations are drawn, centred and scaled, so the constants hold for the sample and not only on average.
    """
    rng = np.random.default_rng(seed)
    h = np.linspace(0.5, 1.0, dimension) if curvature is None else curvature
    local = rng.standard_normal((clients, rows, dimension))
    local -= local.mean(axis=1, keepdims=True)
    local *= local_noise / np.sqrt(np.mean(np.sum(np.square(h * local), axis=2)))
    shared: Matrix = rng.standard_normal((clients, dimension))
    shared -= shared.mean(axis=0)
    shared *= global_noise / np.sqrt(np.mean(np.sum(np.square(h * shared), axis=1)))
    centre = rng.standard_normal(dimension)
    centre *= np.sqrt(2.0 * gap / np.sum(h * np.square(centre)))
    z = centre + shared[:, None, :] + local
    problem = Problem(float(h.max()), gap, local_noise, global_noise)
    farthest = float(np.max(np.linalg.norm(h * shared, axis=1)))
    return Quadratic([QuadraticObjective(z[index], h) for index in range(clients)], h, centre, problem, farthest)


def mean_squared_gradient(
    quadratic: Quadratic, work: Work, eta: float, *, weight: float = 0.0, covariance: str = "paper", seed: int = 0
) -> float:
    """Run with batch 1 and a constant step; return (1/R) sum_{r<R} |grad f(x_r)|^2."""
    squares = [float(np.sum(np.square(quadratic.gradient(np.zeros_like(quadratic.centre)))))]

    def record(state: ServerState, _: RoundRecord) -> None:
        squares.append(float(np.sum(np.square(quadratic.gradient(state.x)))))

    _run(quadratic, work, eta, weight, covariance, seed, record)
    return float(np.mean(squares[:-1]))


def trajectory_bases(
    quadratic: Quadratic, work: Work, eta: float, *, weight: float, covariance: str = "paper", seed: int = 0
) -> list[Matrix]:
    """Run with batch 1 and a constant step; return the Q of each refresh."""
    found: dict[int, Matrix] = {}

    def record(state: ServerState, _: RoundRecord) -> None:
        if state.basis is not None:
            found.setdefault(state.basis_version, state.basis)

    _run(quadratic, work, eta, weight, covariance, seed, record)
    return list(found.values())


def _run(
    quadratic: Quadratic,
    work: Work,
    eta: float,
    weight: float,
    covariance: str,
    seed: int,
    record: Callable[[ServerState, RoundRecord], None],
) -> None:
    config = RunConfig.from_mapping(
        {
            "algorithm": "zofedht",
            "covariance": covariance,
            "subspace-weight": weight,
            "memory": 5,
            "radius": work.radius,
            "step-size": eta,
            "step-schedule": "constant",
            "local-steps": work.local_steps,
            "batch-size": 1,
            "init": "zeros",
            "num-clients": len(quadratic.clients),
            "clients-per-round": work.slots,
            "rounds": work.rounds,
            "evaluate-every": 0,
            "seed": seed,
        }
    )
    run_in_process(config, quadratic.clients, observers=[record])
