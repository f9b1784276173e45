"""ZOFedRegressor does what scikit-learn asks of a regressor, for three losses."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import LinearRegression, QuantileRegressor
from sklearn.utils.estimator_checks import check_estimator

from tests.server.estimators.drawn import DRAWN
from zofedht import ConfigError, ZOFedRegressor

RNG = np.random.default_rng(0)
X = RNG.normal(size=(400, 5))
Y = 40.0 + X @ np.array([3.0, -2.0, 0.0, 1.0, 0.5]) + RNG.exponential(2.0, 400)
QUICK: dict[str, Any] = {"rounds": 60, "local_steps": 30, "batch_size": 32, "random_state": 0}


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["squared", pytest.param("absolute", marks=pytest.mark.engine), "quantile"])
def test_it_passes_the_checks_of_scikit_learn(loss: str) -> None:
    rounds = 30 if loss == "quantile" else 10  # a check asks for a good fit
    few = {"num_clients": 2, "clients_per_round": 1}  # the checks fit some two hundred times
    regressor = ZOFedRegressor(loss, rounds=rounds, local_steps=20, batch_size=16, **few)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # those checks provoke warnings
        results = check_estimator(regressor, on_fail=None, on_skip=None, expected_failed_checks=DRAWN)
    assert len(results) > 40
    failed = [(r["check_name"], r["exception"]) for r in results if r["status"] not in ("passed", "skipped", "xfail")]
    assert failed == []
    assert sum(r["status"] == "skipped" for r in results) <= 3  # what needs other packages


def test_squares_lead_to_the_mean() -> None:
    fitted = ZOFedRegressor(**QUICK).fit(X, Y)
    exact = LinearRegression().fit(X, Y)
    np.testing.assert_allclose(fitted.coef_, exact.coef_, atol=0.3)
    assert fitted.intercept_ == pytest.approx(exact.intercept_, abs=0.3)
    assert fitted.score(X, Y) > 0.95 * exact.score(X, Y)


@pytest.mark.parametrize(("loss", "q"), [("absolute", 0.5), ("quantile", 0.5), ("quantile", 0.9)])
def test_absolute_values_lead_to_quantiles(loss: str, q: float) -> None:
    fitted = ZOFedRegressor(loss, quantile=q, **QUICK).fit(X, Y)
    exact = QuantileRegressor(quantile=q, alpha=0.0).fit(X, Y)
    assert np.mean(fitted.predict(X) > Y) == pytest.approx(q, abs=0.06)
    np.testing.assert_allclose(fitted.coef_, exact.coef_, atol=0.6)


def test_the_units_of_rows_and_targets_do_not_matter() -> None:
    one = ZOFedRegressor(**QUICK).fit(X, Y).predict(X)
    for scale in (2.0**515, 2.0**-550):  # some 1e155 and 1e-165
        other = ZOFedRegressor(**QUICK).fit(scale * X, Y).predict(scale * X)
        np.testing.assert_allclose(other, one, rtol=1e-9)
    moved = ZOFedRegressor(**QUICK).fit(X, 1024.0 * Y).predict(X)
    np.testing.assert_allclose(moved, 1024.0 * one, rtol=1e-9)


@pytest.mark.parametrize("loss", ["squared", "absolute", "quantile"])
def test_weights_count_rows(loss: str) -> None:
    """A row of weight 0 might as well be missing, and heavy rows decide."""
    half = np.arange(400) % 2 == 0
    spoilt = np.where(half, Y, -1e3)
    fitted = ZOFedRegressor(loss, quantile=0.5, **QUICK).fit(X, spoilt, sample_weight=half.astype(float))
    assert np.mean(np.abs(fitted.predict(X[half]) - Y[half])) < 3.0
    equal = ZOFedRegressor(loss, **QUICK).fit(X, Y, sample_weight=np.full(400, 7.0))
    np.testing.assert_array_equal(equal.coef_, ZOFedRegressor(loss, **QUICK).fit(X, Y).coef_)


def test_sparse_rows_give_what_dense_rows_give() -> None:
    kept, weights = np.where(np.abs(X) > 1.0, X, 0.0), RNG.random(400)
    dense = ZOFedRegressor(**QUICK).fit(kept, Y, sample_weight=weights)
    thin = ZOFedRegressor(**QUICK).fit(sparse.csr_array(kept), Y, sample_weight=weights)
    np.testing.assert_allclose(thin.coef_, dense.coef_, rtol=1e-6, atol=1e-9)


def test_partial_fit_goes_on() -> None:
    model = ZOFedRegressor(**(QUICK | {"rounds": 8}))
    scores = [model.partial_fit(X, Y).score(X, Y) for _ in range(6)]
    assert scores[-1] > scores[0]
    assert len(model.loss_curve_) == 48
    assert model.loss_curve_[-1] < model.loss_curve_[0]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"loss": "huber"}, "loss must be one of squared, absolute, quantile, got 'huber'"),
        ({"loss": "quantile", "quantile": 1.0}, "quantile must be greater than 0 and less than 1, got 1.0"),
        ({"warm_start": 1}, "warm_start must be True or False, got 1"),
    ],
)
def test_a_wrong_parameter_is_named(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        ZOFedRegressor(**changes).fit(X, Y)


def test_a_warm_start_needs_as_many_features() -> None:
    model = ZOFedRegressor(warm_start=True, rounds=2).fit(np.eye(6), np.arange(6.0))
    with pytest.raises(ValueError, match="X has 3 features, but ZOFedRegressor is expecting 6 features"):
        model.fit(np.eye(6)[:, :3], np.arange(6.0))
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
        ZOFedRegressor(rounds=2).fit(np.eye(6), np.arange(6.0), groups=groups)
