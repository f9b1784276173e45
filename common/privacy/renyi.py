"""What noisy slopes spend of a row's privacy, in closed form: by Renyi divergence, of whole orders alone.

A step is a Gaussian mechanism on a batch that each row is in with probability q, on its own draw. Its divergence of
order a is log(sum_k binomial(a, k) (1-q)^(a-k) q^k exp((k^2 - k) / (2 z^2))) / (a - 1), z the noise multiplier, and a
sequence of steps spends the sum of theirs, whatever was asked in between.

Sources: Mironov et al. 2019 (section 3.3), Balle et al. 2020 (theorem 21: from divergences to epsilon).
"""

from __future__ import annotations

import functools
import math

import numpy as np

from zofedht.common.typing import Vector

__all__ = ["ORDERS", "epsilon_of", "step_divergences"]

ORDERS = (*range(2, 64), 80, 96, 128, 192, 256, 512)


@functools.lru_cache(maxsize=64)
def step_divergences(rate: float, noise: float) -> tuple[float, ...]:
    """Return the divergence of one step for each of ORDERS.

    Examples
    --------
    >>> [round(divergence, 6) for divergence in step_divergences(1.0, 2.0)[:2]]
    [0.25, 0.375]
    """
    return tuple(_divergence(order, rate, noise) for order in ORDERS)


def _divergence(order: int, rate: float, noise: float) -> float:
    if rate >= 1.0:
        return order / (2.0 * noise * noise)
    if rate <= 0.0:
        return 0.0
    terms = [
        math.lgamma(order + 1) - math.lgamma(k + 1) - math.lgamma(order - k + 1)
        + k * math.log(rate) + (order - k) * math.log1p(-rate) + (k * k - k) / (2.0 * noise * noise)
        for k in range(order + 1)
    ]  # fmt: skip
    most = max(terms)
    return (most + math.log(math.fsum(math.exp(term - most) for term in terms))) / (order - 1)


def epsilon_of(divergences: Vector, delta: float) -> float:
    """Return the least epsilon that the divergences, one for each of ORDERS, allow at this delta.

    Examples
    --------
    >>> round(epsilon_of(100 * np.array(step_divergences(0.01, 1.0)), 1e-5), 3)
    1.225
    """
    if not np.any(divergences > 0.0):
        return 0.0
    found = [
        divergence + math.log1p(-1.0 / order) - math.log(delta * order) / (order - 1)
        for order, divergence in zip(ORDERS, divergences.tolist(), strict=True)
    ]
    least: float = min(found)
    return max(0.0, least)
