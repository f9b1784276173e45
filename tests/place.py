"""Objectives in place for tests: least squares in two tensors, a little different at each site."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tests.waiting import until
from zofedht import FunctionObjective, Shard, TensorObjective
from zofedht.common.typing import Indices
from zofedht.common.wire.snapshots import PART_BYTES

ROWS, WIDTH, OUT = 40, 7, 3


class Rows(TensorObjective):
    """The mean squared error of A W + b on a site's rows."""

    def __init__(self, site: int, kind: str = "float32", arrays: dict[str, np.ndarray] | None = None) -> None:
        start = np.random.default_rng(5)
        own = {
            "weight": (0.1 * start.standard_normal((WIDTH, OUT))).astype(kind),
            "bias": np.zeros(OUT, kind),
        }
        super().__init__(own if arrays is None else arrays)
        rng = np.random.default_rng(100 + site)
        self.features = rng.standard_normal((ROWS, WIDTH))
        self.target = self.features @ np.random.default_rng(9).standard_normal((WIDTH, OUT)) + 0.5
        self.calls = 0

    def __len__(self) -> int:
        return ROWS

    def value(self, batch: Indices | slice) -> float:
        self.calls += 1
        rest = self.features[batch] @ self.arrays["weight"].astype(float) + self.arrays["bias"] - self.target[batch]
        return float(np.mean(rest**2))

    def vector(self) -> np.ndarray:
        """Return all parameters as one float64 vector."""
        return np.concatenate([array.reshape(-1) for array in self.arrays.values()]).astype(float)


def make(shard: Shard) -> Rows:
    """The factory of runs that name one: ``tests.place:make``."""
    return Rows(shard.index)


def vector(shard: Shard) -> FunctionObjective:
    """A factory of an objective that is not in place."""
    return FunctionObjective(lambda x: float(x @ x), [1.0, 2.0])


def doubles(shard: Shard) -> Rows:
    """A factory of float64 tensors."""
    return Rows(shard.index, "float64")


def moved(shard: Shard) -> Rows:
    """A factory of other weights."""
    rows = Rows(shard.index)
    rows.arrays["bias"][1] = 0.25
    return rows


def stiff(shard: Shard) -> Rows:
    """A factory of an objective that names a stiff direction."""
    rows = Rows(shard.index)
    rows.stiff = [{"bias": np.ones(OUT)}]
    return rows


class Wide(Rows):
    """Has a table beside its parameters of which F knows nothing: a snapshot of it takes two parts."""

    def __init__(self, site: int) -> None:
        super().__init__(site, arrays={**Rows(site).arrays, "table": np.zeros(PART_BYTES // 4, np.float32)})


class Patient(Wide):
    """Works for some rounds, and goes on when its folder has a file named ``go``."""

    def value(self, batch: Indices | slice) -> float:
        if self.calls > 120:
            until(Path("go").exists, "go")
        return super().value(batch)


def wide(shard: Shard) -> Wide:
    """A factory of parameters whose snapshot takes two parts."""
    return Patient(shard.index)
