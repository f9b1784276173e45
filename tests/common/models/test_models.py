"""Built-in models: their losses are the formulas of their docstrings, dense or sparse."""

from __future__ import annotations

from decimal import Decimal, localcontext

import numpy as np
import pytest

from tests.common.samples import MODEL_CASES, model, samples
from zofedht.common.models.losses import HINGE, LOGISTIC, SQUARED_HINGE, ScoreLoss, softplus
from zofedht.common.models.mlp import MlpObjective
from zofedht.common.models.quadratic import QuadraticObjective
from zofedht.common.models.table import BUILDERS, ModelOptions, build_model
from zofedht.common.typing import Matrix, Vector

_BATCH = np.array([3, 0, 3, 21, 39])


def _sigmoid(a: Matrix) -> Matrix:
    return 1.0 / (1.0 + np.exp(-a))


def _formula(name: str, x: Vector, rows: Matrix, y: Vector, bias: bool) -> float:
    """The mean loss, written as in the paper and without care for overflow; the mlp has 4 hidden units."""
    margin = np.maximum(0.0, 1.0 - (2.0 * y - 1.0) * (rows @ x)) if name.startswith("svm") else None
    if name == "svm-hinge":
        return float(np.mean(margin))
    if name == "svm-squared-hinge":
        return float(np.mean(margin**2 / 2.0))
    if name == "quadratic":
        return float(np.mean(np.sum((x - rows) ** 2, axis=1) / 2.0))
    if name == "logistic":
        p = _sigmoid(rows @ x)
    else:
        columns = rows.shape[1]
        first, rest = x[: columns * 4].reshape(columns, 4), x[columns * 4 :]
        b, u, d = (rest[:4], rest[4:8], rest[8]) if bias else (np.zeros(4), rest, 0.0)
        p = _sigmoid(_sigmoid(rows @ first + b) @ u + d)
    return float(np.mean(-y * np.log(p) - (1.0 - y) * np.log(1.0 - p)))


@pytest.mark.parametrize(("name", "bias", "l2"), MODEL_CASES)
@pytest.mark.parametrize("features", ["dense", "sparse"])
def test_value_is_the_formula(name: str, bias: bool, l2: float, features: str) -> None:
    objective, data = model(name, features, bias=bias, l2=l2), samples()
    x = np.random.default_rng(4).standard_normal(objective.dim)
    for batch in (_BATCH, slice(None)):
        rows, y = np.asarray(data.features)[batch], data.target[batch]
        wanted = _formula(name, x, rows, y, bias) + l2 / 2.0 * x @ x
        assert objective.value(x, batch) == pytest.approx(wanted, rel=1e-12)


@pytest.mark.parametrize(("name", "bias", "l2"), MODEL_CASES)
@pytest.mark.parametrize("features", ["dense", "sparse"])
def test_evaluation_covers_the_whole_shard(name: str, bias: bool, l2: float, features: str) -> None:
    objective = model(name, features, bias=bias, l2=l2)
    x = np.random.default_rng(4).standard_normal(objective.dim)
    metrics = objective.evaluate(x)
    assert metrics["loss"] == pytest.approx(objective.value(x, slice(None)), rel=1e-13)
    assert ("accuracy" in metrics) == (name != "quadratic")
    assert all(type(value) is float for value in metrics.values())


@pytest.mark.parametrize(("name", "bias", "l2"), MODEL_CASES)
@pytest.mark.parametrize("features", ["dense", "sparse"])
def test_a_gradient_has_the_slopes_of_the_value(name: str, bias: bool, l2: float, features: str) -> None:
    objective = model(name, features, bias=bias, l2=l2)
    rng = np.random.default_rng(4)
    x = rng.standard_normal(objective.dim)
    for batch in (_BATCH, slice(None)):
        value, gradient = objective.value_and_gradient(x, batch)
        assert value == pytest.approx(objective.value(x, batch), rel=1e-12)
        for v in rng.standard_normal((3, objective.dim)):
            slope = objective.difference(x, v, 1e-6, -1e-6, batch)[0] / 2e-6
            assert gradient @ v == pytest.approx(slope, rel=1e-7, abs=1e-9)


@pytest.mark.parametrize("name", ["logistic", "svm-hinge", "svm-squared-hinge"])
def test_accuracy_is_the_share_of_right_signs(name: str) -> None:
    objective, data = model(name), samples()
    x = np.random.default_rng(4).standard_normal(objective.dim)
    right = [(row @ x > 0) == bool(y) for row, y in zip(np.asarray(data.features), data.target, strict=True)]
    assert objective.evaluate(x)["accuracy"] == sum(right) / len(right)


@pytest.mark.parametrize(
    ("name", "dim"), [("logistic", 7), ("svm-hinge", 7), ("svm-squared-hinge", 7), ("quadratic", 7)]
)
def test_linear_models_have_a_parameter_for_each_column(name: str, dim: int) -> None:
    objective = model(name)
    assert (objective.dim, len(objective)) == (dim, 40)
    assert objective.zeros().shape == (dim,)


@pytest.mark.parametrize(("bias", "dim"), [(False, 39_300), (True, 39_351)])
def test_mlp_has_the_papers_number_of_parameters_on_mnist(bias: bool, dim: int) -> None:
    data = samples(rows=2, columns=785)
    assert build_model("mlp", data, ModelOptions(hidden_units=50, mlp_bias=bias)).dim == dim


def _network(columns: int, hidden: int, *, bias: bool = True, unit_rows: bool = True, rows: int = 60) -> MlpObjective:
    data = samples(rows=rows, columns=columns)
    objective = build_model("mlp", data, ModelOptions(hidden, bias, unit_rows=unit_rows))
    assert isinstance(objective, MlpObjective)
    return objective


def _parts(objective: MlpObjective, x: Vector, columns: int) -> tuple[Matrix, Vector, Vector]:
    """Return W, u and all biases of x."""
    first, hidden, biases = columns * objective.hidden, objective.hidden, objective.hidden if objective.bias else 0
    rest = x[first:]
    u = rest[biases : biases + hidden]
    return x[:first].reshape(columns, hidden), u, np.concatenate([rest[:biases], rest[biases + hidden :]])


@pytest.mark.parametrize(("unit_rows", "variance"), [(True, 1.0), (False, 1 / 90)])
@pytest.mark.parametrize("bias", [False, True])
def test_the_networks_start_follows_the_documented_law(bias: bool, unit_rows: bool, variance: float) -> None:
    objective = _network(90, 1000, bias=bias, unit_rows=unit_rows)
    weights, u, biases = _parts(objective, objective.initial(np.random.default_rng(8)), 90)
    for entries, wanted in ((weights.ravel(), variance), (u, 1 / 1000)):
        count = entries.size  # tolerances: five standard errors of normal entries
        assert np.mean(entries**2) == pytest.approx(wanted, rel=5 * np.sqrt(2 / count))
        assert abs(np.mean(entries)) < 5 * np.sqrt(wanted / count)
    assert biases.shape == ((1001,) if bias else (0,))
    assert not biases.any()


def test_hidden_units_differ_at_the_start() -> None:
    objective = _network(7, 5)
    x = objective.initial(np.random.default_rng(8))
    weights, u, _ = _parts(objective, x, 7)
    assert len(np.unique(weights[0])) == len(np.unique(u)) == 5
    along = np.eye(objective.dim)[:5]  # the first column's weight of each unit
    slopes = [objective.difference(x, v, 1e-4, -1e-4, slice(None))[0] / 2e-4 for v in along]
    assert np.min(np.abs(np.diff(np.sort(slopes)))) > 1e-6
    zero = [objective.difference(objective.zeros(), v, 1e-4, -1e-4, slice(None))[0] for v in along]
    assert zero == [0.0] * 5  # the saddle that the start is there to avoid


@pytest.mark.parametrize("columns", [3, 785])
@pytest.mark.parametrize("unit_rows", [True, False])
def test_inputs_of_hidden_units_are_of_order_one(columns: int, unit_rows: bool) -> None:
    rows = np.random.default_rng(1).standard_normal((60, columns))  # standardised columns
    if unit_rows:
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    objective = _network(columns, 50, unit_rows=unit_rows)
    weights, _, _ = _parts(objective, objective.initial(np.random.default_rng(8)), columns)
    assert 0.7 < np.std(rows @ weights) < 1.4


def test_every_model_can_be_built_without_options() -> None:
    for name in BUILDERS:
        objective = build_model(name, samples())
        assert np.isfinite(objective.value(objective.zeros(), slice(None)))


def test_the_quadratics_minimum_is_the_mean_centre() -> None:
    centres = np.random.default_rng(6).standard_normal((30, 4))
    objective, minimum = QuadraticObjective(centres), centres.mean(axis=0)
    # Around the mean the loss is the variance plus half the squared distance.
    away = np.array([0.3, -0.2, 0.1, 0.5])
    assert objective.value(minimum, slice(None)) == pytest.approx(0.5 * centres.var(axis=0).sum(), rel=1e-12)
    rise = objective.value(minimum + away, slice(None)) - objective.value(minimum, slice(None))
    assert rise == pytest.approx(0.5 * away @ away, rel=1e-12)


def test_softplus_neither_overflows_nor_loses_its_tail() -> None:
    a = np.array([-1e4, -700.0, -40.0, 0.0, 40.0, 1e4])
    wanted = [0.0, np.exp(-700.0), np.exp(-40.0), np.log(2.0), 40.0 + np.exp(-40.0), 1e4]
    np.testing.assert_allclose(softplus(a), wanted, rtol=1e-15)


_SCORES = np.array([-300.0, -20.0, -1.0, -1e-3, 0.0, 0.7, 1.0, 5.0, 40.0, 300.0])
_DELTAS = np.array([1e-12, 1e-7, 1e-3, 0.5, 1.0, 1.0000001, 3.0, 100.0])


@pytest.mark.parametrize("y", [0.0, 1.0])
@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("loss", [LOGISTIC, HINGE, SQUARED_HINGE], ids=["logistic", "hinge", "squared hinge"])
def test_loss_differences_are_accurate_however_small_or_large(loss: ScoreLoss, sign: float, y: float) -> None:
    """Against 60-digit decimals. The tolerance: some roundings of the change, or of the scores where it is large."""
    scores, delta = (grid.ravel() for grid in np.meshgrid(_SCORES, sign * _DELTAS))
    got = loss.difference(scores, delta, np.full_like(scores, y))
    with localcontext() as context:
        context.prec = 60
        high, low = (
            [_exact_loss(loss, a, y) for a in ends] for ends in (_plus(scores, delta), _plus(scores, 0 * delta))
        )
        wanted = np.array([float(above - below) for above, below in zip(high, low, strict=True)])
    steep = 1.0 if loss is not SQUARED_HINGE else 1.0 + np.abs(scores) + np.abs(delta)
    size = np.abs(delta) + np.where(_near_kink_or_large(scores, delta), np.abs(scores) + 1.0, 0.0)
    assert np.all(np.abs(got - wanted) <= 8 * np.finfo(np.float64).eps * steep * size)


def _plus(scores: Vector, delta: Vector) -> list[Decimal]:
    return [Decimal(float(a)) + Decimal(float(d)) for a, d in zip(scores, delta, strict=True)]


def _exact_loss(loss: ScoreLoss, a: Decimal, y: float) -> Decimal:
    if loss is LOGISTIC:
        return (1 + a.exp()).ln() - Decimal(y) * a
    margin = max(Decimal(0), 1 - (2 * Decimal(y) - 1) * a)
    return margin if loss is HINGE else margin * margin / 2


def _near_kink_or_large(scores: Vector, delta: Vector) -> np.ndarray:
    """Where margins must be subtracted (a kink lies between the ends), or the plain difference is taken."""
    ends = np.abs(scores), np.abs(scores + delta)
    across = (np.minimum(*ends) <= 1.0) & (np.maximum(*ends) >= 1.0)
    return across | (np.abs(delta) > 1.0)
