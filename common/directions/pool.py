"""A pool of S candidate directions z_1 .. z_S: each direction of a slot is one of them, drawn by chance.

z_j is the first row of the stream (seed, "pool", 0, j), so the pool is the same in every round and for every client.
x - x_0 stays in its span: x = x_0 - sum_j a_j z_j with a_j the sum of all step lengths along z_j. S numbers a tell x.

Drawn with equal chances, or with those that the server learns: softmax of the mean |c| of each candidate, scaled to
[0, 1] over the pool.

Source: Qin et al. 2024 (FedKSeed, and FedKSeed-Pro with its non-uniform probabilities).
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

import numpy as np

from zofedht.common.directions.probes import LAWS
from zofedht.common.random.source import Source
from zofedht.common.random.streams import Address, stream
from zofedht.common.typing import Indices, Matrix, Vector

__all__ = ["chances_of", "drawn_candidates", "pooled"]

_KEPT_BYTES = 2**25
"""A pool of so many bytes is kept by a process; a larger one is drawn again wherever it is needed."""


def drawn_candidates(size: int, chances: Matrix | None, count: int, address: Address) -> Indices:
    """Return which candidates the ``count`` directions of a slot are, (count,), from 0.

    ``chances`` is the guide, (size, 1), or None where all are equal.
    """
    drawn = address.directions.stream("chance").random(count)
    if chances is None:
        return np.asarray(np.minimum(drawn * size, size - 1), dtype=np.intp)
    below = np.cumsum(chances[:, 0])
    found = np.searchsorted(below, drawn * below[-1], side="right")
    return np.asarray(np.minimum(found, size - 1), dtype=np.intp)


def pooled(
    candidates: Indices, size: int, dimension: int, seed: int, probe: str, kernel: str, most: int
) -> Iterator[Matrix]:
    """Yield the directions z_j of these candidates in blocks of at most ``most`` rows, (block, n) each."""
    kept = _pool(size, dimension, seed, probe, kernel) if 8 * size * dimension <= _KEPT_BYTES else None
    for start in range(0, len(candidates), most):
        block = candidates[start : start + most]
        if kept is not None:
            yield kept[block]
        else:
            yield np.concatenate([_candidate(int(j), dimension, seed, probe, kernel) for j in block])


def chances_of(amplitudes: Vector) -> Matrix:
    """Return the chance of each candidate, (S, 1), from its mean |c|, 0 where none was measured."""
    span = float(np.max(amplitudes) - np.min(amplitudes))
    scaled = (amplitudes - np.min(amplitudes)) / span if span > 0.0 else np.zeros_like(amplitudes)
    weights = np.exp(scaled)
    return np.asarray(weights / weights.sum())[:, None]


@functools.lru_cache(maxsize=1)
def _pool(size: int, dimension: int, seed: int, probe: str, kernel: str) -> Matrix:
    return np.concatenate([_candidate(j, dimension, seed, probe, kernel) for j in range(size)])


def _candidate(j: int, dimension: int, seed: int, probe: str, kernel: str) -> Matrix:
    return LAWS[probe](Source(stream(seed, "pool", 0, j), kernel), 1, dimension)
