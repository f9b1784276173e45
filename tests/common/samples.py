"""Small data sets and objectives that several tests share."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import sparse

from zofedht.common.data.dataset import Dataset
from zofedht.common.directions.slopes import probes
from zofedht.common.models.table import ModelOptions, build_model
from zofedht.common.objective.base import ExactObjective, Objective
from zofedht.common.typing import Indices, Matrix, Vector

__all__ = ["MODEL_CASES", "BlackBox", "Exact", "Sum", "model", "orthonormal", "probe", "samples"]

MODEL_CASES = [
    (name, bias, l2)
    for name, bias in (
        ("logistic", False),
        ("svm-hinge", False),
        ("svm-squared-hinge", False),
        ("mlp", False),
        ("mlp", True),
        ("quadratic", False),
    )
    for l2 in (0.0, 0.3)
]
"""Every built-in model, with and without biases and penalty."""


def samples(kind: str = "dense", rows: int = 40, columns: int = 7, seed: int = 3) -> Dataset:
    """Return rows with some zeros in them; ``kind`` is dense or sparse, and changes no number."""
    rng = np.random.default_rng(seed)
    dense = rng.standard_normal((rows, columns)) * (rng.random((rows, columns)) < 0.6)
    labels = rng.integers(0, 2, rows).astype(np.intp)
    features = sparse.csr_array(dense) if kind == "sparse" else dense
    return Dataset(features, labels.astype(np.float64), labels)


def model(
    name: str, kind: str = "dense", *, bias: bool = False, l2: float = 0.0, rows: int = 40, columns: int = 7
) -> ExactObjective:
    """Return a built-in model on ``samples``; the mlp has 4 hidden units."""
    return build_model(name, samples(kind, rows, columns), ModelOptions(hidden_units=4, mlp_bias=bias, l2=l2))


def orthonormal(dimension: int, rank: int, seed: int = 5) -> Matrix:
    """Return some Q, (dimension, rank)."""
    q: Matrix = np.linalg.qr(np.random.default_rng(seed).standard_normal((dimension, rank)))[0]
    return q


class Probe(NamedTuple):
    """The slope along one direction, and the mean of the two losses that gave it."""

    slope: float
    loss: float


def probe(objective: Objective, w: Vector, v: Vector, radius: float, batch: Indices | slice, kind: str) -> Probe:
    """Return the slope along one direction."""
    found = probes(objective, w, v[None], radius, batch, kind)
    return Probe(float(found.slopes[0]), float(found.losses[0]))


class Exact(ExactObjective):
    """Another objective with its exact differences, but without its type: no fused path knows it."""

    def __init__(self, inner: ExactObjective) -> None:
        self._inner = inner
        self.dim = inner.dim

    def __len__(self) -> int:
        return len(self._inner)

    def value(self, x: Vector, batch: Indices | slice) -> float:
        return self._inner.value(x, batch)

    def difference(
        self, w: Vector, v: Vector, upper: float, lower: float, batch: Indices | slice
    ) -> tuple[float, float]:
        return self._inner.difference(w, v, upper, lower, batch)


class Sum(Objective):
    """The sum of x, times the number of samples."""

    dim = 3

    def __len__(self) -> int:
        return 4

    def value(self, x: Vector, batch: Indices | slice) -> float:
        return float(np.sum(x)) * len(np.arange(4)[batch])


class BlackBox(Objective):
    """Another objective of which only values can be had; it remembers what it was asked."""

    def __init__(self, inner: Objective) -> None:
        self._inner = inner
        self.dim = inner.dim
        self.batches: list[Indices | slice] = []
        self.points: list[Vector] = []

    def __len__(self) -> int:
        return len(self._inner)

    def value(self, x: Vector, batch: Indices | slice) -> float:
        self.batches.append(batch)
        self.points.append(x.copy())
        return self._inner.value(x, batch)
