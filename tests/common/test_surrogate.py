"""The surrogate of F: its gradient, where that is uncertain, and the features that tell it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from zofedht.common.surrogate import FEATURES, Surrogate, feature_gradient, feature_weights, fitted
from zofedht.common.typing import Matrix, Vector

N = 6
BENT = np.linspace(0.5, 2.0, N)
RADIUS = 0.01


def points(count: int, seed: int = 0, half: float = 0.05) -> Matrix:
    return 3.0 + np.random.default_rng(seed).uniform(-half, half, (count, N))


def quadratic(z: Matrix) -> Vector:
    return np.asarray(0.5 * np.sum(BENT * (z - 1.0) ** 2, axis=-1))


def kernel(z: Vector, other: Vector, scale: float) -> float:
    a = math.sqrt(5.0) * float(np.linalg.norm(z - other)) / scale
    return (1.0 + a + a * a / 3.0) * math.exp(-a)


def slopes(found: Surrogate, z: Vector, step: float = 1e-5) -> Matrix:
    """grad k(z, P) by differences of the kernel, (n, m)."""
    rows = found.points + found.origin
    each = [[kernel(z + side, row, found.scale) for row in rows] for side in (*step * np.eye(N), *-step * np.eye(N))]
    return (np.array(each[:N]) - np.array(each[N:])) / (2.0 * step)


def test_near_queries_a_quadratic_has_the_surrogates_gradient() -> None:
    known, z = points(80), points(1, seed=1)[0]
    wanted = BENT * (z - 1.0)
    for found in (
        fitted(known, quadratic(known), 1.0).gradient(z),
        feature_gradient(feature_weights(known, quadratic(known), RADIUS, 0), z, RADIUS, 0),
    ):
        assert np.linalg.norm(found - wanted) < 0.02 * np.linalg.norm(wanted)


def test_fewer_queries_than_parameters_tell_the_part_they_span() -> None:
    known, along = points(4), np.arange(1.0, N + 1)
    span = np.linalg.qr((known[1:] - known[0]).T)[0]
    wanted = span @ (span.T @ along)
    found = fitted(known, known @ along, 3.0, climbs=False).gradient(known[0])
    np.testing.assert_allclose(found, span @ (span.T @ found), atol=1e-9)
    assert np.linalg.norm(found - wanted) < 0.05 * np.linalg.norm(wanted)


def test_mean_and_uncertainty_are_the_formulas() -> None:
    known, z = points(9), points(1, seed=1)[0]
    found = fitted(known, quadratic(known), 0.3, climbs=False)
    slope = slopes(found, z)
    np.testing.assert_allclose(found.gradient(z), slope @ found.weights, rtol=1e-4)
    wanted = 5.0 * N / (3.0 * 0.3**2) - np.trace(slope @ found.inverse @ slope.T)
    np.testing.assert_allclose(found.uncertainty(z[None]), wanted, rtol=1e-4)
    far, near = found.uncertainty(np.stack([z + 1e3, known[0]]))
    assert near < far == pytest.approx(5.0 * N / (3.0 * 0.3**2))


def test_a_climb_ends_at_a_likelier_scale() -> None:
    known = points(30, half=1.0)
    waves = np.sin(4.0 * known).sum(axis=1)
    assert fitted(known, waves, 100.0).scale < 10.0
    assert fitted(known, waves, 0.3).scale > 0.5


def test_equal_values_tell_no_gradient() -> None:
    assert not np.any(fitted(points(5), np.full(5, 7.0), 1.0).gradient(points(1)[0]))
    assert not np.any(feature_weights(points(5), np.full(5, 7.0), RADIUS, 0))


def test_features_have_the_kernel() -> None:
    """The kernel is the mean of as many cosines, each at most 1."""
    known = points(2, half=0.5)
    unit = np.array([0.0, 1.0])
    weights = feature_weights(known, unit, RADIUS, 3)
    value = feature_gradient(weights, known[1], RADIUS, 3)
    other = kernel(known[0], known[1], 100.0 * RADIUS)
    within = 5.0 / math.sqrt(FEATURES / 2)
    assert float(weights @ weights) == pytest.approx(1.0 / (1.0 - other**2), abs=within / (1.0 - other**2) ** 2)
    exact = fitted(known, unit, 100.0 * RADIUS, climbs=False).gradient(known[1])
    np.testing.assert_allclose(value, exact, atol=within * 10.0)
    assert feature_weights(known, unit, RADIUS, 3).tobytes() == weights.tobytes()
    assert np.any(feature_weights(known, unit, RADIUS, 4) != weights)
