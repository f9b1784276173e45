"""Rows of one client in the paper's shapes: real rows from a data folder, else random rows that are as full."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from zofedht.common.config.run_config import RunConfig
from zofedht.common.data.dataset import Dataset
from zofedht.common.shards import objective_of

__all__ = ["mnist_like", "rcv1_like"]


def mnist_like(data_dir: str = "", rows: int = 480) -> Dataset:
    """Return rows of 784 pixels, of which a fifth is not zero, and a bias, of norm 1; (rows, 785), dense."""
    if data_dir:
        return _real("mnist", data_dir, rows)
    rng = np.random.default_rng(0)
    features = rng.random((rows, 785)) * (rng.random((rows, 785)) < 0.19)
    features[:, -1] = 1.0
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    return _labelled(features, rng)


def rcv1_like(data_dir: str = "", rows: int = 160) -> Dataset:
    """Return rows of 47,236 words, some 75 of them in each, and a bias, of norm 1; (rows, 47237), sparse."""
    if data_dir:
        return _real("rcv1", data_dir, rows)
    rng = np.random.default_rng(0)
    # Words are not equally frequent: the square of a uniform number favours the first columns.
    kept = [np.append(np.unique((47_236 * rng.random(75) ** 2).astype(int)), 47_236) for _ in range(rows)]
    bounds = np.cumsum([0, *(len(columns) for columns in kept)])
    values = np.concatenate([rng.random(len(columns)) for columns in kept])
    features = sparse.csr_array((values, np.concatenate(kept), bounds), shape=(rows, 47_237))
    norms = np.sqrt(features.multiply(features).sum(axis=1))
    return _labelled(sparse.csr_array(features.multiply(1.0 / np.reshape(norms, (-1, 1)))), rng)


def _labelled(features: object, rng: np.random.Generator) -> Dataset:
    labels = rng.integers(0, 2, features.shape[0])  # type: ignore[attr-defined]
    return Dataset(features, labels.astype(np.float64), labels.astype(np.intp))  # type: ignore[arg-type]


def _real(name: str, data_dir: str, rows: int) -> Dataset:
    config = RunConfig.from_mapping({"dataset": name, "data-dir": data_dir, "train-rows": 10 * rows, "num-clients": 10})
    shard = objective_of(config.task, 0)
    return Dataset(shard.features, shard.target, shard.target.astype(np.intp))  # type: ignore[attr-defined]
