"""Slopes: exact on linear and quadratic functions, and exact differences equal naive ones."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.common.samples import MODEL_CASES, BlackBox, model, probe
from zofedht.common.directions.slopes import ENDS, probes
from zofedht.common.errors import ObjectiveError
from zofedht.common.models.quadratic import QuadraticObjective
from zofedht.common.objective.base import Objective
from zofedht.common.typing import Indices, Vector

_ALL = slice(None)
_BATCH = np.array([3, 0, 3, 21, 39, 8, 8, 17])  # with repetitions, as minibatches have


class _Function(Objective):
    """A function of x alone."""

    def __init__(self, dim: int, function: Callable[[Vector], float]) -> None:
        self.dim = dim
        self._function = function

    def __len__(self) -> int:
        return 1

    def value(self, x: Vector, batch: Indices | slice) -> float:
        return self._function(x)


def _point(dim: int, seed: int = 0) -> tuple[Vector, Vector]:
    rng = np.random.default_rng(seed)
    return rng.standard_normal(dim), rng.standard_normal(dim)


@pytest.mark.parametrize("kind", ENDS)
def test_slope_of_a_linear_function_is_exact(kind: str) -> None:
    # Small whole numbers and a radius that is a power of two: float64 makes no rounding at all.
    rng = np.random.default_rng(1)
    gradient, w, v = (rng.integers(-9, 10, 6).astype(np.float64) for _ in range(3))
    linear = _Function(6, lambda x: float(gradient @ x) + 3.0)
    assert probe(linear, w, v, 2.0**-10, _ALL, kind).slope == gradient @ v


def test_central_slopes_of_quadratics_are_exact() -> None:
    rng = np.random.default_rng(2)
    w, v = (rng.integers(-9, 10, 4).astype(np.float64) for _ in range(2))
    root = rng.integers(-3, 4, (4, 4)).astype(np.float64)
    hessian = root + root.T
    quadratic, radius = _Function(4, lambda x: 0.5 * float(x @ hessian @ x)), 2.0**-8
    assert probe(quadratic, w, v, radius, _ALL, "central").slope == w @ hessian @ v
    assert probe(quadratic, w, v, radius, _ALL, "forward").slope == w @ hessian @ v + 0.5 * radius * (v @ hessian @ v)


@pytest.mark.parametrize("radius", [1e-9, 1e-4, 1.0, 1e3])
@pytest.mark.parametrize("l2", [0.0, 0.3])
def test_built_in_quadratic_is_exact_at_any_radius(radius: float, l2: float) -> None:
    rng = np.random.default_rng(3)
    centres, curvature = rng.standard_normal((40, 5)), rng.uniform(0.1, 10.0, 5)
    objective = QuadraticObjective(centres, curvature, l2)
    w, v = _point(5)
    slope = v @ (curvature * (w - centres[_BATCH].mean(axis=0)) + l2 * w)
    bend = v @ (curvature * v) + l2 * v @ v
    assert probe(objective, w, v, radius, _BATCH, "central").slope == pytest.approx(slope, rel=1e-12)
    forward = probe(objective, w, v, radius, _BATCH, "forward").slope
    assert forward == pytest.approx(slope + 0.5 * radius * bend, rel=1e-12)


@pytest.mark.parametrize(("name", "bias", "l2"), MODEL_CASES)
@pytest.mark.parametrize("features", ["dense", "sparse"])
@pytest.mark.parametrize("kind", ENDS)
@pytest.mark.parametrize("radius", [1e-4, 0.05, 3.0])
def test_exact_slopes_and_losses_equal_naive_ones(
    name: str, bias: bool, l2: float, features: str, kind: str, radius: float
) -> None:
    objective = model(name, features, bias=bias, l2=l2)
    for seed, batch in enumerate((_BATCH, _ALL)):
        w, v = _point(objective.dim, seed)
        exact = probe(objective, w, v, radius, batch, kind)
        naive = probe(BlackBox(objective), w, v, radius, batch, kind)
        # A naive slope at radius 1e-4 carries rounding of about 2e-16 / 1e-4 = 2e-12.
        assert exact.slope == pytest.approx(naive.slope, rel=1e-9, abs=1e-9)
        assert exact.loss == pytest.approx(naive.loss, rel=1e-9)


@pytest.mark.parametrize(("name", "bias", "l2"), MODEL_CASES)
@pytest.mark.parametrize("features", ["dense", "sparse"])
@pytest.mark.parametrize("kind", ENDS)
@pytest.mark.parametrize("radius", [1e3, 1e7])
def test_large_steps_do_not_overflow(name: str, bias: bool, l2: float, features: str, kind: str, radius: float) -> None:
    objective = model(name, features, bias=bias, l2=l2)
    w, v = _point(objective.dim)
    exact = probe(objective, w, v, radius, _ALL, kind)  # a RuntimeWarning would fail the test
    naive = probe(BlackBox(objective), w, v, radius, _ALL, kind)
    # Both ends are near radius^2 for a penalty or a quadratic, and the naive central slope cancels them.
    assert exact.slope == pytest.approx(naive.slope, rel=1e-9, abs=1e-13 * radius * v @ v)
    assert exact.loss == pytest.approx(naive.loss, rel=1e-9)


@pytest.mark.parametrize("kind", ENDS)
@pytest.mark.parametrize("name", ["logistic", "svm-hinge", "svm-squared-hinge"])
def test_exact_slopes_survive_a_tiny_radius(name: str, kind: str) -> None:
    objective = model(name)
    features, target = objective.features, objective.target  # type: ignore[attr-defined]
    w, v = _point(objective.dim)
    scores, sign = features @ w, 2.0 * target - 1.0
    margin = np.maximum(0.0, 1.0 - sign * scores)
    by_score = {
        "logistic": 1.0 / (1.0 + np.exp(-scores)) - target,
        "svm-hinge": -sign * (margin > 0.0),
        "svm-squared-hinge": -sign * margin,
    }[name]
    slope, radius = np.mean(by_score * (features @ v)), 1e-14
    # The two ends differ by some 1e-14 of losses near 1: a naive slope is good to a few percent at best.
    assert probe(objective, w, v, radius, _ALL, kind).slope == pytest.approx(slope, rel=1e-12)
    assert probe(BlackBox(objective), w, v, radius, _ALL, kind).slope != pytest.approx(slope, rel=1e-4)


@pytest.mark.parametrize("kind", ENDS)
def test_loss_is_the_mean_of_both_ends(kind: str) -> None:
    found = probe(_Function(1, lambda x: float(x[0] ** 3)), np.ones(1), np.ones(1), 0.5, _ALL, kind)
    assert found.loss == pytest.approx((1.5**3 + (1.0 if kind == "forward" else 0.5**3)) / 2, rel=1e-15)


@pytest.mark.parametrize(("kind", "ends"), [("central", [1.5, 0.5]), ("forward", [1.5, 1.0])])
def test_both_ends_have_the_same_samples(kind: str, ends: list[float]) -> None:
    box = BlackBox(_Function(1, lambda x: float(x[0])))
    batch = np.array([0, 0])
    probe(box, np.ones(1), np.ones(1), 0.5, batch, kind)
    assert [point[0] for point in box.points] == ends
    assert all(asked is batch for asked in box.batches)


def test_an_objective_with_pairs_is_asked_pairs() -> None:
    class Paired(_Function):
        def pair(self, w: Vector, v: Vector, radius: float, batch: Indices | slice) -> tuple[float, float]:
            return 5.0, 3.0

    assert probe(Paired(1, lambda x: 0.0), np.ones(1), np.ones(1), 0.5, _ALL, "central") == (2.0, 4.0)


@pytest.mark.parametrize("kind", ENDS)
@pytest.mark.parametrize("exact", [True, False])
def test_probing_changes_neither_w_nor_v(kind: str, exact: bool) -> None:
    objective = model("mlp", bias=True)
    w, v = _point(objective.dim)
    before = w.copy(), v.copy()
    probe(objective if exact else BlackBox(objective), w, v, 1e-4, _BATCH, kind)
    np.testing.assert_array_equal((w, v), before)


@pytest.mark.parametrize("kind", ENDS)
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), np.float32(1.0), np.ones(1), None])
def test_a_black_box_that_gives_no_loss_is_refused(kind: str, bad: object) -> None:
    box = _Function(1, lambda x: bad)  # type: ignore[arg-type, return-value]
    with pytest.raises(ObjectiveError, match="the objective"):
        probe(box, np.ones(1), np.ones(1), 1e-4, _ALL, kind)


@pytest.mark.parametrize("black_box", [False, True])
def test_three_points_give_the_curvature_of_a_quadratic(black_box: bool) -> None:
    curvature = np.array([0.5, 1.0, 3.0, 8.0])
    inner = QuadraticObjective(np.random.default_rng(0).standard_normal((9, 4)), curvature)
    objective = BlackBox(inner) if black_box else inner
    w, v = np.arange(4.0), np.random.default_rng(1).standard_normal((3, 4))
    found = probes(objective, w, v, 1e-2, slice(None), "three-point")
    central = probes(objective, w, v, 1e-2, slice(None), "central")
    np.testing.assert_allclose(found.slopes, central.slopes, rtol=1e-9)
    np.testing.assert_allclose(found.losses, central.losses, rtol=1e-9)
    assert found.curvatures is not None
    np.testing.assert_allclose(found.curvatures, (v**2) @ curvature, rtol=1e-7)
    assert not isinstance(objective, BlackBox) or len(objective.points) == 7 + 6


def test_noise_has_a_quarter_of_its_variance_in_central_slopes() -> None:
    """F is noise alone, of variance 1: 2 / mu^2 forward, 1 / (2 mu^2) central."""
    rng, w, v = np.random.default_rng(5), np.zeros(3), np.ones(3)
    noise = _Function(3, lambda x: float(rng.standard_normal()))
    found = {kind: np.var([probe(noise, w, v, 0.1, _ALL, kind).slope for _ in range(4000)]) for kind in ENDS}
    assert found["forward"] == pytest.approx(200.0, rel=0.1)
    assert found["central"] == pytest.approx(50.0, rel=0.1)
