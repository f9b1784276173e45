"""step-size = auto on functions of one client: any unit, any condition, and no end above the start."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from zofedht.common.typing import Vector
from zofedht.server.minimise.run import run as run_anything

run = partial(run_anything, algorithm="zofedht")  # local steps, for functions that would be searched by evaluations


@pytest.mark.parametrize("seed", [0, 5, 9, 14, 19])
def test_quadratics_of_any_unit_and_condition_fall(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, condition, unit = int(rng.integers(2, 21)), 10.0 ** (6 * seed / 19), 10.0 ** rng.uniform(-18, 18)
    axes, _ = np.linalg.qr(rng.standard_normal((n, n)))
    bent, centre = axes * np.logspace(0.0, -np.log10(condition), n) @ axes.T, rng.standard_normal(n)

    def loss(x: Vector) -> float:
        return float(unit * (x - centre) @ bent @ (x - centre))

    assert loss(run(loss, np.zeros(n), rounds=60, seed=seed).x) < 0.01 * loss(np.zeros(n))


@pytest.mark.parametrize("size", [1e-6, 1.0, 1e6])
def test_parameters_of_any_size_are_found(size: float) -> None:
    centre = size * np.array([1.0, 2.0, -1.0])

    def loss(x: Vector) -> float:
        return float(np.sum((x - centre) ** 2))

    assert loss(run(loss, np.zeros(3), rounds=60).x) < 1e-6 * loss(np.zeros(3))


@pytest.mark.parametrize("rounds", [3, 15, 60])
@pytest.mark.parametrize("seed", range(3))
def test_no_run_ends_above_its_start(rounds: int, seed: int) -> None:
    def kinks(x: Vector) -> float:
        return float(np.max(np.abs(x - 1.0)))

    def valley(x: Vector) -> float:
        return float(np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2))

    for loss in (kinks, valley):
        assert loss(run(loss, np.zeros(5), rounds=rounds, seed=seed).x) <= loss(np.zeros(5))
