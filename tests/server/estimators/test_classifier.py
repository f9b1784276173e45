"""ZOFedClassifier does what scikit-learn asks of a classifier, in a Pipeline and in a GridSearchCV."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_iris, make_moons
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator
from sklearn.utils.estimator_checks import check_sample_weight_equivalence_on_dense_data as weights_on_dense_data
from sklearn.utils.estimator_checks import check_sample_weight_equivalence_on_sparse_data as weights_on_sparse_data

from tests.server.estimators.drawn import DRAWN
from zofedht import ZOFedClassifier, ZOFedRegressor
from zofedht.common.config.run_config import RunConfig
from zofedht.common.data.dataset import Dataset
from zofedht.common.data.partition import split
from zofedht.common.errors import ConfigError
from zofedht.common.models.table import build_model
from zofedht.server.inprocess import run_in_process

QUICK: dict[str, Any] = {"rounds": 10, "local_steps": 20, "batch_size": 16, "random_state": 0}
X, Y = load_breast_cancer(return_X_y=True)
X = StandardScaler().fit_transform(X)
WHOLE: dict[str, Any] = {"num_clients": 1, "clients_per_round": 1, "batch_size": 0, "rounds": 10}
LINEAR = ["logistic", "svm-hinge", "svm-squared-hinge"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "model", ["logistic", *(pytest.param(model, marks=pytest.mark.engine) for model in LINEAR[1:]), "mlp"]
)
def test_it_passes_the_checks_of_scikit_learn(model: str) -> None:
    few = {"num_clients": 2, "clients_per_round": 1}  # the checks fit some two hundred times
    classifier = ZOFedClassifier(model, rounds=5, local_steps=20, batch_size=16, **few)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # those checks provoke warnings
        results = check_estimator(classifier, on_fail=None, on_skip=None, expected_failed_checks=DRAWN)
    assert len(results) > 40
    failed = [(r["check_name"], r["exception"]) for r in results if r["status"] not in ("passed", "skipped", "xfail")]
    assert failed == []
    assert sum(r["status"] == "skipped" for r in results) <= 3  # what needs other packages


@pytest.mark.parametrize("check", [weights_on_dense_data, weights_on_sparse_data])
@pytest.mark.parametrize(
    "estimator", [ZOFedClassifier(**WHOLE), ZOFedClassifier("mlp", **WHOLE), ZOFedRegressor(**WHOLE)], ids=repr
)
def test_a_weight_of_two_is_a_row_twice(estimator: Any, check: Callable[[str, Any], None]) -> None:
    """Where nothing is drawn of the rows, in scikit-learn's own check."""
    check(type(estimator).__name__, estimator)


@pytest.mark.parametrize("model", [*LINEAR, "mlp"])
def test_two_classes_are_learnt(model: str) -> None:
    fitted = ZOFedClassifier(model, **(QUICK | {"rounds": 40 if model == "mlp" else 10})).fit(X, Y)
    assert fitted.score(X, Y) > 0.9
    assert fitted.decision_function(X).shape == (569,)
    assert fitted.n_iter_ == (40 if model == "mlp" else 10)
    assert fitted.n_evaluations_ == fitted.n_iter_ * 5 * 20 * 2 * 16


def test_a_network_learns_what_no_line_can() -> None:
    points, side = make_moons(200, noise=0.1, random_state=0)
    network = ZOFedClassifier("mlp", rounds=60, step_size=3.0, random_state=0, hidden_units=8).fit(points, side)
    assert network.score(points, side) > 0.83


def test_several_classes_are_one_against_the_rest() -> None:
    rows, labels = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])[labels]
    fitted = make_pipeline(StandardScaler(), ZOFedClassifier(**QUICK)).fit(rows, names)
    assert fitted.score(rows, names) > 0.8
    assert set(fitted.predict(rows)) <= set(names)
    assert fitted.decision_function(rows).shape == (150, 3)
    np.testing.assert_allclose(fitted.predict_proba(rows).sum(axis=1), 1.0)
    assert fitted[-1].coef_.shape == (3, 4)


def test_a_fit_is_a_run_on_the_same_rows() -> None:
    fitted = ZOFedClassifier(partition="sorted", num_clients=4, **QUICK).fit(X, Y)
    length = np.sqrt(np.sum(X**2) / len(X))
    data = Dataset(np.hstack([X / length, np.ones((569, 1))]), Y.astype(np.float64), Y)
    clients = [build_model("logistic", data.take(rows)) for rows in split(Y, data.target, "sorted", 4, 0, 0.5)]
    keys = {"num-clients": 4, "rounds": 10, "local-steps": 20, "batch-size": 16, "evaluate-every": 0}
    x = run_in_process(RunConfig.from_mapping(keys), clients).state.x
    np.testing.assert_array_equal(fitted.coef_[0], x[:-1] / length)
    np.testing.assert_array_equal(fitted.intercept_, x[-1:])


def test_coefficients_give_the_scores() -> None:
    fitted = ZOFedClassifier(**QUICK).fit(X, Y)
    np.testing.assert_allclose(fitted.decision_function(X), X @ fitted.coef_[0] + fitted.intercept_[0])
    bare = ZOFedClassifier(fit_intercept=False, **QUICK).fit(X, Y)
    assert bare.coef_.shape == (1, 30)
    np.testing.assert_array_equal(bare.intercept_, [0.0])


def test_the_unit_of_the_features_does_not_matter() -> None:
    one, other = (ZOFedClassifier(**QUICK).fit(scale * X, Y) for scale in (1.0, 1024.0))
    np.testing.assert_array_equal(one.predict(X), other.predict(1024.0 * X))


def test_sparse_rows_give_what_dense_rows_give() -> None:
    kept = np.where(np.abs(X) > 1.0, X, 0.0)
    dense = ZOFedClassifier(**QUICK).fit(kept, Y)
    thin = ZOFedClassifier(**QUICK).fit(sparse.csr_array(kept), Y)
    np.testing.assert_allclose(thin.coef_, dense.coef_, rtol=1e-6, atol=1e-9)
    np.testing.assert_array_equal(thin.predict(sparse.csr_array(kept)), dense.predict(kept))


def test_it_is_tuned_in_a_pipeline_and_pickled() -> None:
    pipeline = make_pipeline(StandardScaler(), ZOFedClassifier(**(QUICK | {"rounds": 4})))
    grid = {"zofedclassifier__step_size": [1e-6, 1.0], "zofedclassifier__algorithm": ["zofedht", "zofedavg-sgd"]}
    search = GridSearchCV(pipeline, grid, cv=2).fit(X, Y)
    assert search.best_params_["zofedclassifier__step_size"] == 1.0
    assert search.best_score_ > 0.85
    again = pickle.loads(pickle.dumps(search.best_estimator_))
    np.testing.assert_array_equal(again.predict(X), search.predict(X))


def test_one_seed_gives_one_model() -> None:
    def coefficients(seed: object) -> bytes:
        return ZOFedClassifier(**(QUICK | {"rounds": 2, "random_state": seed})).fit(X, Y).coef_.tobytes()

    assert coefficients(1) == coefficients(1) == coefficients(np.int64(1))
    assert coefficients(1) != coefficients(2)
    assert coefficients(np.random.RandomState(1)) == coefficients(np.random.RandomState(1))


@pytest.mark.parametrize("model", ["svm-hinge", "svm-squared-hinge"])
def test_a_support_vector_machine_has_no_probabilities(model: str) -> None:
    assert not hasattr(ZOFedClassifier(model), "predict_proba")


@pytest.mark.parametrize(
    ("changes", "error", "sentence"),
    [
        ({"model": "quadratic"}, ConfigError, "model must be one of logistic, .* got 'quadratic'"),
        ({"partition": "halves"}, ConfigError, "partition must be one of"),
        ({"rounds": 0}, ConfigError, "rounds must be at least 1"),
        ({"step_size": -1.0}, ConfigError, "step-size must be greater than 0"),
    ],
)
def test_a_wrong_parameter_is_named(changes: dict[str, Any], error: type[Exception], sentence: str) -> None:
    with pytest.raises(error, match=sentence):
        ZOFedClassifier(**changes).fit(X, Y)


def test_one_class_is_no_task() -> None:
    with pytest.raises(ValueError, match="at least 2 classes, got 1 class"):
        ZOFedClassifier().fit(X, np.ones(569))


def test_a_grid_may_be_a_numpy_range() -> None:
    X = np.random.default_rng(0).normal(size=(60, 2))
    y = (X[:, 0] > 0).astype(int)
    best = [
        GridSearchCV(ZOFedClassifier(random_state=0), {"rounds": grid}, cv=2, error_score="raise").fit(X, y).best_score_
        for grid in ([2, 4], np.arange(2, 6, 2))
    ]
    assert best[0] == best[1]


@pytest.mark.parametrize("model", [*LINEAR, "mlp"])
@pytest.mark.parametrize("scale", [1e155, 1e-165])
def test_features_of_any_size_are_learnt(model: str, scale: float) -> None:
    keys = QUICK | {"rounds": 40 if model == "mlp" else 10}
    fitted = ZOFedClassifier(model, **keys).fit(scale * X, Y)
    assert fitted.score(scale * X, Y) > 0.9
    assert fitted.score(scale * X, Y) == pytest.approx(ZOFedClassifier(model, **keys).fit(X, Y).score(X, Y), abs=0.01)


def test_each_group_is_a_client() -> None:
    """A site's rows stay together: with one slot a round, a round sees one site alone."""
    site = np.array(["north", "south", "west"])[np.arange(569) % 3]
    fitted = ZOFedClassifier(**QUICK).fit(X, Y, groups=site)
    length = np.sqrt(np.sum(X**2) / len(X))
    data = Dataset(np.hstack([X / length, np.ones((569, 1))]), Y.astype(np.float64), Y)
    clients = [build_model("logistic", data.take(np.flatnonzero(site == name))) for name in ("north", "south", "west")]
    keys = {"num-clients": 3, "clients-per-round": 3, "sampling": "without-replacement", "rounds": 10}
    keys |= {"local-steps": 20, "batch-size": 16, "evaluate-every": 0}
    x = run_in_process(RunConfig.from_mapping(keys), clients).x
    np.testing.assert_allclose(fitted.coef_[0], x[:-1] / length)
    with pytest.raises(ValueError, match=r"the site of each of 569 rows, got an array of shape \(3,\)"):
        ZOFedClassifier(**QUICK).fit(X, Y, groups=["a", "b", "c"])


@pytest.mark.parametrize("model", [*LINEAR, "mlp"])
def test_weights_decide_whom_to_believe(model: str) -> None:
    """Half of the labels are false; rows with weight 0 might as well be missing."""
    true = np.arange(569) % 2 == 0
    told = np.where(true, Y, 1 - Y)
    keys = QUICK | {"rounds": 40 if model == "mlp" else 10}
    for weight, least, most in ((true, 0.9, 1.0), (~true, 0.0, 0.1)):
        fitted = ZOFedClassifier(model, **keys).fit(X, told, sample_weight=weight.astype(float))
        assert least <= fitted.score(X, Y) <= most
    equal = ZOFedClassifier(model, **QUICK).fit(X, Y, sample_weight=np.full(569, 3.0))
    np.testing.assert_array_equal(equal.predict(X), ZOFedClassifier(model, **QUICK).fit(X, Y).predict(X))


def test_balanced_classes_weigh_the_same() -> None:
    rare = np.concatenate([np.flatnonzero(Y == 0)[:12], np.flatnonzero(Y == 1)])
    keys = QUICK | {"rounds": 20}
    weights: tuple[Any, ...] = (None, "balanced", {0: 30, 1: 1})
    plain, balanced, dear = (ZOFedClassifier(class_weight=one, **keys).fit(X[rare], Y[rare]) for one in weights)
    shares = [np.mean(model.predict(X[Y == 0]) == 0) for model in (plain, balanced, dear)]
    assert shares[1] > shares[0]
    assert shares[2] > shares[0]
    with pytest.raises(ValueError, match="at least one non-zero number"):
        ZOFedClassifier(**QUICK).fit(X, Y, sample_weight=np.zeros(569))


def test_partial_fit_and_warm_start_go_on() -> None:
    few = QUICK | {"rounds": 3}
    parts = ZOFedClassifier(**few)
    curves = []
    for rows in (slice(0, 200), slice(200, 400), slice(400, None)):
        parts.partial_fit(X[rows], Y[rows], classes=[0, 1])
        curves.append(len(parts.loss_curve_))
    assert curves == [3, 6, 9]
    assert parts.score(X, Y) > 0.85
    warm = ZOFedClassifier(warm_start=True, **few)
    losses = [warm.fit(X, Y).loss_curve_ for _ in range(4)]
    assert [len(curve) for curve in losses] == [3] * 4
    assert losses[3][0] < losses[0][0]
    cold = ZOFedClassifier(**few)
    assert cold.fit(X, Y).coef_.tobytes() == cold.fit(X, Y).coef_.tobytes()


def test_partial_fit_keeps_its_classes() -> None:
    model = ZOFedClassifier(**(QUICK | {"rounds": 1})).partial_fit(X[:9], Y[:9], classes=[0, 1, 2])
    assert model.decision_function(X).shape == (569, 3)
    with pytest.raises(ValueError, match=r"y must hold labels of the first call, \[0 1 2\], got 7"):
        model.partial_fit(X[:2], [0, 7])
    with pytest.raises(ValueError, match="classes must be those of the first call"):
        model.partial_fit(X[:2], [0, 1], classes=[0, 1])


def test_a_warm_start_needs_as_many_features() -> None:
    model = ZOFedClassifier(warm_start=True, rounds=2).fit(np.eye(6), np.arange(6) % 2)
    with pytest.raises(ValueError, match="X has 3 features, but ZOFedClassifier is expecting 6 features"):
        model.fit(np.eye(6)[:, :3], np.arange(6) % 2)
    assert model.n_features_in_ == 6


@pytest.mark.parametrize(
    ("groups", "sentence"),
    [
        ([0, 1, 2, np.nan, 1, 0], "groups must name the site of every row, got nan for row 3"),
        (["a", None, "b", "a", "b", "a"], "got None for row 1"),
        (np.array(["a", 1, "b", 2, "a", 1], dtype=object), "groups must hold texts or numbers, and not both"),
    ],
)
def test_every_row_belongs_to_a_group(groups: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        ZOFedClassifier(rounds=2).fit(np.eye(6), np.arange(6) % 2, groups=groups)
