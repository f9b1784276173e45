"""``ZOFedRegressor``: a linear model of a number as a scikit-learn estimator, trained across simulated clients."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from zofedht.common.choices import UNSAID
from zofedht.common.data.dataset import Dataset
from zofedht.common.errors import ConfigError
from zofedht.common.models.losses import ScoreLoss
from zofedht.common.models.weighted_losses import ABSOLUTE, SQUARED, Quantile, RegressionObjective
from zofedht.common.typing import Features, Vector
from zofedht.server.estimators.shared import Estimator, length_of

__all__ = ["ZOFedRegressor"]

_STEP_SIZES = {
    "squared": 0.1,
    "absolute": 0.1,
    "quantile": 0.1,
}
# For rows of mean square length 1, and targets of standard deviation 1.


class ZOFedRegressor(RegressorMixin, Estimator):  # type: ignore[misc]
    """A linear model trained by function values only, by clients that each hold a shard of the rows.

    Rows are divided by their root mean square length, and targets by their standard deviation. Features of different
    sizes need a StandardScaler first.

    Parameters
    ----------
    loss : {"squared", "absolute", "quantile"}
        (a - y)^2 / 2, |a - y|, or q (y - a) below y and (1 - q) (a - y) above it.
    quantile : float
        q, of the quantile loss.
    num_clients, partition, clients_per_round, step_size, algorithm, rounds, local_steps, batch_size, radius
        As those of ZOFedClassifier; partitions sort the rows by their targets.
    subspace_weight, memory, l2, fit_intercept, warm_start, random_state
        As those of ZOFedClassifier.

    Attributes
    ----------
    n_features_in_, n_iter_, n_evaluations_, loss_curve_
        As those of ZOFedClassifier.
    coef_, intercept_ : (features,), float

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = make_pipeline(StandardScaler(), ZOFedRegressor(random_state=0)).fit(X, y)
    >>> bool(model.score(X, y) > 0.45)
    True
    """

    def __init__(
        self,
        loss: str = "squared",
        *,
        quantile: float = 0.5,
        num_clients: int = 5,
        partition: str = "iid",
        clients_per_round: int = 5,
        algorithm: str = "zofedht",
        rounds: int = 50,
        local_steps: int | str = UNSAID,
        batch_size: int = 64,
        step_size: float | str | None = None,
        radius: float | str = UNSAID,
        subspace_weight: float | str = UNSAID,
        memory: int | str = UNSAID,
        l2: float = 0.0,
        fit_intercept: bool = True,
        warm_start: bool = False,
        random_state: Any = None,
    ) -> None:
        self.loss = loss
        self.quantile = quantile
        self.num_clients = num_clients
        self.partition = partition
        self.clients_per_round = clients_per_round
        self.algorithm = algorithm
        self.rounds = rounds
        self.local_steps = local_steps
        self.batch_size = batch_size
        self.step_size = step_size
        self.radius = radius
        self.subspace_weight = subspace_weight
        self.memory = memory
        self.l2 = l2
        self.fit_intercept = fit_intercept
        self.warm_start = warm_start
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> ZOFedRegressor:
        """Train on rows and their targets.

        Parameters
        ----------
        X : (rows, features), dense or sparse
        y : (rows,)
        sample_weight : (rows,), optional
            The weight of each row's loss.
        groups : (rows,), optional
            The site of each row; each site is one client.

        Returns
        -------
        ZOFedRegressor
            This object.

        Raises
        ------
        ConfigError
            For a wrong parameter.
        ValueError
            For unusable rows or targets.
        RoundError
            When the steps diverge.
        """
        anew = not (self.warm_start and self._begun())
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=np.float64, y_numeric=True, reset=anew)
        if anew:
            self._forget()
        return self._fit(X, np.asarray(y, dtype=np.float64), sample_weight, groups, further=False)

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> ZOFedRegressor:
        """Train for ``rounds`` more rounds on these rows, from the model so far; the first call sets all scales."""
        first = not self._begun()
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=np.float64, y_numeric=True, reset=first)
        if first:
            self._forget()
        return self._fit(X, np.asarray(y, dtype=np.float64), sample_weight, groups, further=not first)

    def _loss(self) -> ScoreLoss:
        if not isinstance(self.loss, str) or self.loss not in _STEP_SIZES:
            raise ConfigError([f"loss must be one of {', '.join(_STEP_SIZES)}, got {self.loss!r}"])
        number = isinstance(self.quantile, int | float | np.floating) and not isinstance(self.quantile, bool)
        if not number or not 0 < self.quantile < 1:
            raise ConfigError([f"quantile must be greater than 0 and less than 1, got {self.quantile!r}"])
        return {"squared": SQUARED, "absolute": ABSOLUTE, "quantile": Quantile(float(self.quantile))}[self.loss]

    def _fit(self, X: Features, y: Vector, sample_weight: Any, groups: Any, *, further: bool) -> ZOFedRegressor:
        loss = self._loss()
        step = _STEP_SIZES[self.loss] if self.step_size is None else self.step_size
        config, sites = self._for_groups(self._config(X.shape[0], **{"step-size": step}), groups, X.shape[0])
        weights = self._weights_of(sample_weight, X)
        if not self._begun():
            self._length = length_of(X, weights)
            self._middle = float(np.average(y, weights=weights)) if self.fit_intercept else 0.0
            self._spread = length_of((y - self._middle)[:, None], weights)
        rows, target = self._scaled(X, ones=self.fit_intercept), (y - self._middle) / self._spread
        if weights is not None:  # w |a - y| is |w a - w y|, and so with squares of the root
            factors = np.sqrt(weights) if self.loss == "squared" else weights
            rows = sparse.diags_array(factors) @ rows
            target = target * factors
        order = np.argsort(np.argsort(y, kind="stable"), kind="stable")
        data = Dataset(rows, target, order)
        halves = (order >= len(y) // 2).astype(np.float64)
        clients = [
            RegressionObjective(data.take(own), loss, self.l2) for own in self._deal(config, sites, order, halves)
        ]
        trained = self._train(config, clients, self._x if self._begun() else None)
        self._x = trained.x
        self._fits += 1
        self._note([trained], further=further)
        with np.errstate(over="ignore"):
            self.coef_ = self._spread * (self._x[: self.n_features_in_] / self._length)
        self.intercept_ = self._middle + (self._spread * float(self._x[-1]) if self.fit_intercept else 0.0)
        return self

    def predict(self, X: Any) -> Vector:
        """Return the prediction for each row, (rows,)."""
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
        rows = self._scaled(X, ones=self.fit_intercept)
        found: Vector = self._middle + self._spread * np.asarray(rows @ self._x)
        return found

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
