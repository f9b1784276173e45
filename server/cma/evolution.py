"""CMA-ES of one function: Hansen, "The CMA Evolution Strategy: A Tutorial" (arXiv 1604.00772), with its constants.

Points are x = m + sigma C^(1/2) z with the symmetric root, so that no sign of an eigenvector shows in a number.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np

from zofedht.common.typing import Indices, Matrix, Vector

__all__ = ["Constants", "Distribution", "constants", "fresh", "moved", "points_of"]

_LEAST_EIGENVALUE = 1e-30  # of C relative to the largest: rounding must not make it negative


@dataclass(frozen=True)
class Distribution:
    """N(mean, sigma^2 covariance), and the two evolution paths."""

    mean: Vector
    sigma: float
    covariance: Matrix
    step_path: Vector
    covariance_path: Vector
    generation: int = 0  # since the paths were 0

    @property
    def spread(self) -> Vector:
        """The standard deviation of each parameter, (n,)."""
        deviations: Vector = self.sigma * np.sqrt(np.diagonal(self.covariance))
        return deviations


@dataclass(frozen=True)
class Constants:
    """The tutorial's table 1, for n parameters and lambda candidates."""

    weights: Vector  # of the ranks, best first; the later ones are negative
    parents: int  # mu: ranks with a positive weight
    effective: float  # mu_eff
    step_rate: float  # c_sigma
    damping: float  # d_sigma
    path_rate: float  # c_c
    rank_one: float  # c_1
    rank_mu: float  # c_mu
    normal_length: float  # E |N(0, I)|


@functools.lru_cache(maxsize=64)
def constants(n: int, population: int) -> Constants:
    """Return the constants of eq. 49 to 58."""
    raw = math.log((population + 1) / 2.0) - np.log(np.arange(1, population + 1))
    parents = population // 2
    effective = float(np.sum(raw[:parents]) ** 2 / np.sum(raw[:parents] ** 2))
    negative = raw[parents:]
    effective_negative = float(np.sum(negative) ** 2 / np.sum(negative**2))
    rank_one = 2.0 / ((n + 1.3) ** 2 + effective)
    rank_mu = min(1.0 - rank_one, 2.0 * (0.25 + effective + 1.0 / effective - 2.0) / ((n + 2.0) ** 2 + effective))
    share = min(
        1.0 + rank_one / rank_mu,  # eq. 50
        1.0 + 2.0 * effective_negative / (effective_negative + 2.0),  # eq. 51
        (1.0 - rank_one - rank_mu) / (n * rank_mu),  # eq. 52
    )
    positive_sum, negative_sum = np.sum(raw[raw > 0.0]), -np.sum(raw[raw < 0.0])
    weights = np.where(raw >= 0.0, raw / positive_sum, share * raw / negative_sum)  # eq. 53
    step_rate = (effective + 2.0) / (n + effective + 5.0)
    return Constants(
        weights=weights,
        parents=parents,
        effective=effective,
        step_rate=step_rate,
        damping=1.0 + 2.0 * max(0.0, math.sqrt((effective - 1.0) / (n + 1.0)) - 1.0) + step_rate,
        path_rate=(4.0 + effective / n) / (n + 4.0 + 2.0 * effective / n),
        rank_one=rank_one,
        rank_mu=rank_mu,
        normal_length=math.sqrt(n) * (1.0 - 1.0 / (4.0 * n) + 1.0 / (21.0 * n * n)),
    )


def fresh(mean: Vector, sigma: float) -> Distribution:
    """Return the distribution that a search begins with: a ball."""
    n = mean.shape[0]
    return Distribution(mean, sigma, np.eye(n), np.zeros(n), np.zeros(n))


def root_of(covariance: Matrix) -> Matrix:
    """Return the symmetric square root."""
    values, vectors = np.linalg.eigh(covariance)
    values = np.maximum(values, _LEAST_EIGENVALUE * values[-1])
    root: Matrix = (vectors * np.sqrt(values)) @ vectors.T
    return root


def points_of(distribution: Distribution, normal: Matrix) -> Matrix:
    """Return the candidates, (lambda, n), of standard normal numbers, eq. 38 to 40."""
    points: Matrix = distribution.mean + distribution.sigma * (normal @ root_of(distribution.covariance))
    return points


def moved(distribution: Distribution, normal: Matrix, order: Indices) -> Distribution:
    """Return the distribution after a generation, eq. 41 to 47; ``order`` are the candidates' numbers, best first.

    With fewer numbers than candidates, those that are missing are left out as if their weight were 0.
    """
    n = distribution.mean.shape[0]
    c = constants(n, normal.shape[0])
    z = normal[order]
    weights = c.weights[: len(order)]
    root = root_of(distribution.covariance)
    y = z @ root
    parents = min(c.parents, len(order))
    z_mean, y_mean = weights[:parents] @ z[:parents], weights[:parents] @ y[:parents]
    count = distribution.generation + 1
    step_path = (1.0 - c.step_rate) * distribution.step_path + math.sqrt(
        c.step_rate * (2.0 - c.step_rate) * c.effective
    ) * z_mean  # C^(-1/2) y is z, as the root is symmetric
    length = float(np.linalg.norm(step_path))
    sigma = distribution.sigma * math.exp(min(1.0, c.step_rate / c.damping * (length / c.normal_length - 1.0)))
    unbiased = length / math.sqrt(1.0 - (1.0 - c.step_rate) ** (2 * count))
    heard = unbiased < (1.4 + 2.0 / (n + 1.0)) * c.normal_length  # h_sigma
    covariance_path = (1.0 - c.path_rate) * distribution.covariance_path
    if heard:
        covariance_path = covariance_path + math.sqrt(c.path_rate * (2.0 - c.path_rate) * c.effective) * y_mean
    lengths = np.sum(z * z, axis=1)
    balanced = np.where(weights >= 0.0, weights, weights * n / np.maximum(lengths, 1e-300))  # eq. 46
    forgotten = 0.0 if heard else c.path_rate * (2.0 - c.path_rate)
    covariance = (
        (1.0 + c.rank_one * forgotten - c.rank_one - c.rank_mu * float(np.sum(c.weights))) * distribution.covariance
        + c.rank_one * np.outer(covariance_path, covariance_path)
        + c.rank_mu * (y.T * balanced) @ y
    )  # eq. 47
    covariance = 0.5 * (covariance + covariance.T)
    mean = distribution.mean + distribution.sigma * y_mean
    return Distribution(mean, sigma, covariance, step_path, covariance_path, count)
