"""Brakes under noise: Nomura, Akimoto, Ono 2023, "CMA-ES with Learning Rate Adaptation" (arXiv 2304.03473)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from zofedht.common.typing import Matrix, Vector
from zofedht.server.cma.evolution import Distribution, root_of

__all__ = ["Rates", "braked"]

_GOAL, _FOR_MEAN, _FOR_COVARIANCE, _CHANGE = 1.4, 0.1, 0.03, 0.1  # alpha, beta_m, beta_Sigma, gamma


@dataclass(frozen=True)
class _Rate:
    """A learning rate and the running moments of the moves that it scales."""

    moment: Matrix
    square: float = 0.0
    rate: float = 1.0

    def after(self, move: Matrix, memory: float) -> _Rate:
        """Return the rate after a move in local coordinates, eq. 10 to 19."""
        moment = (1.0 - memory) * self.moment + memory * move
        square = (1.0 - memory) * self.square + memory * float(np.sum(move * move))
        length = float(np.sum(moment * moment))
        noise = square - length
        signal = (length - memory / (2.0 - memory) * square) / noise if noise > 0.0 else math.inf
        change = min(_CHANGE * self.rate, memory) * min(max(signal / (_GOAL * self.rate) - 1.0, -1.0), 1.0)
        return replace(self, moment=moment, square=square, rate=min(self.rate * math.exp(change), 1.0))


@dataclass(frozen=True)
class Rates:
    """The learning rates of mean and covariance."""

    mean: _Rate
    covariance: _Rate

    @classmethod
    def fresh(cls, dimension: int) -> Rates:
        """Return both as 1."""
        return cls(_Rate(np.zeros(dimension)), _Rate(np.zeros((dimension, dimension))))


def braked(before: Distribution, after: Distribution, rates: Rates) -> tuple[Distribution, Rates]:
    """Return the distribution that is as far from ``before`` as the rates allow, and the new rates."""
    inverse = np.linalg.inv(before.sigma * root_of(before.covariance))
    old, new = before.sigma**2 * before.covariance, after.sigma**2 * after.covariance
    step: Vector = after.mean - before.mean
    following = Rates(
        rates.mean.after(inverse @ step, _FOR_MEAN),
        rates.covariance.after(inverse @ (new - old) @ inverse / math.sqrt(2.0), _FOR_COVARIANCE),
    )
    whole = old + following.covariance.rate * (new - old)
    sigma = math.exp(0.5 * float(np.mean(np.log(np.maximum(np.linalg.eigvalsh(whole), 1e-300)))))
    mean = before.mean + following.mean.rate * step
    corrected = sigma * rates.mean.rate / following.mean.rate
    return replace(after, mean=mean, sigma=corrected, covariance=whole / sigma**2), following
