"""Lemmas 4 to 6 on the quadratic: one round from a fixed x, repeated, with standard errors.

On a quadratic the central slope is <grad F, v> exactly, whatever mu is, so a round is a few products.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from zofedht.common.directions.law import DirectionLaw
from zofedht.common.random.source import Source
from zofedht.common.typing import Vector
from zofedht.experiments.theory.bounds import Work
from zofedht.experiments.theory.quadratic_problem import Quadratic

__all__ = ["Round", "measure_round"]


@dataclass(frozen=True)
class Round:
    """Means over the repeats, each with its standard error; drift and size are those of the worst client."""

    drift: tuple[float, float]  # sum over k of |w_k - x|^2
    size: tuple[float, float]  # sum over k of |g_k|^2
    descent: tuple[float, float]  # <grad f, x' - x>
    move: tuple[float, float]  # |x' - x|^2
    mean: tuple[float, float]  # |(1/N) sum_i sum_k grad f_i(w_k)|^2


def measure_round(
    quadratic: Quadratic, x: Vector, work: Work, eta: float, law: DirectionLaw, *, draws: int, seed: int = 0
) -> Round:
    """Repeat a round from x with batch 1, M clients drawn with replacement and the law's own directions."""
    rng = np.random.default_rng(seed)
    count = len(quadratic.clients)
    drifts, sizes, _, gradients = _slots(quadratic, x, work, eta, law, np.tile(np.arange(count), (draws, 1)), rng)
    drawn = rng.integers(0, count, size=(draws, work.slots))
    moves = _slots(quadratic, x, work, eta, law, drawn, rng)[2].mean(axis=1)
    worst, largest = int(np.argmax(drifts.mean(axis=0))), int(np.argmax(sizes.mean(axis=0)))
    return Round(
        drift=_with_error(drifts[:, worst]),
        size=_with_error(sizes[:, largest]),
        descent=_with_error(moves @ quadratic.gradient(x)),
        move=_with_error(np.sum(np.square(moves), axis=1)),
        mean=_with_error(np.sum(np.square(gradients.mean(axis=1)), axis=1)),
    )


def _slots(
    quadratic: Quadratic,
    x: Vector,
    work: Work,
    eta: float,
    law: DirectionLaw,
    clients: np.ndarray,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return drifts and sizes (draws, slots), moves and summed gradients (draws, slots, n) of the clients' slots."""
    centres = np.stack([client.centres for client in quadratic.clients])  # (N, rows, n)
    source = Source(rng, "numpy")
    start = np.broadcast_to(x, (*clients.shape, len(x)))
    w, gradients = start.copy(), np.zeros(start.shape)
    drifts, sizes = np.zeros(clients.shape), np.zeros(clients.shape)
    for _ in range(work.local_steps):
        drifts += np.sum(np.square(w - start), axis=-1)
        gradients += quadratic.curvature * (w - centres.mean(axis=1)[clients])
        rows = rng.integers(0, centres.shape[1], size=clients.shape)
        v = law.block(source, source, clients.size).reshape(start.shape)
        g = np.sum(quadratic.curvature * (w - centres[clients, rows]) * v, axis=-1, keepdims=True) * v
        sizes += np.sum(np.square(g), axis=-1)
        w -= eta * g
    return drifts, sizes, w - start, gradients


def _with_error(values: np.ndarray) -> tuple[float, float]:
    return float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values)))
