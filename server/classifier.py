"""``ZOFedClassifier``: the built-in models as a scikit-learn estimator, trained across simulated clients."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, check_random_state, validate_data

from zofedht.common.choices import UNSAID
from zofedht.common.config.run_config import RunConfig, dashed
from zofedht.common.data.dataset import Dataset
from zofedht.common.data.partition import split
from zofedht.common.errors import ConfigError
from zofedht.common.models.mlp import MlpObjective
from zofedht.common.models.table import ModelOptions, build_model
from zofedht.common.objective.base import Objective
from zofedht.common.typing import Features, Vector
from zofedht.server.inprocess import run_in_process

__all__ = ["ZOFedClassifier"]

# Safe first step sizes for rows of mean square length 1. A step along v multiplies the error by 1 - eta v'Hv. Its mean
# square is below 1 for eta < 2 / (trace H + 2 max H); both are at most the largest curvature of the loss.
_STEP_SIZES = {"logistic": 1.0, "svm-hinge": 0.3, "svm-squared-hinge": 0.1, "mlp": 1.0}

_PROBABILISTIC = ("logistic", "mlp")
_KEYS = {
    "model", "partition", "clients_per_round", "algorithm", "rounds", "local_steps", "batch_size", "radius",
    "subspace_weight", "memory", "l2", "hidden_units",
}  # fmt: skip


class ZOFedClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier trained by function values only, by clients that each hold a shard of the rows.

    Several classes are trained one against the rest, in one run for each class. Rows are divided by their root mean
    square length, so that a step size means the same in any unit of the features. Features of different sizes need a
    StandardScaler first.

    Parameters
    ----------
    model : {"logistic", "svm-hinge", "svm-squared-hinge", "mlp"}
    num_clients : int
        Clients that the rows are dealt to, at most one for each row.
    partition : {"iid", "sorted", "sorted-binary", "thirds", "dirichlet"}
        The rule by which rows are dealt.
    clients_per_round : int
        Slots of a round.
    step_size : float, "auto" or None
        The first step size; "auto" measures it in the first rounds. None takes 1 for logistic and mlp, 0.3 for
        svm-hinge and 0.1 for svm-squared-hinge.
    algorithm, rounds, local_steps, batch_size, radius, subspace_weight, memory, l2, hidden_units
        As the run config keys of these names.
    fit_intercept : bool
        Whether rows get a column of ones.
    random_state : int, RandomState or None
        The seed of the run.

    Attributes
    ----------
    classes_ : (classes,)
        The labels, sorted.
    n_features_in_ : int
        Columns of X.
    n_iter_ : int
        Rounds of the longest run.
    n_evaluations_ : int
        Evaluations of a loss on one row, in all runs.
    coef_, intercept_ : (1 or classes, features), (1 or classes,)
        Of the linear models.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = make_pipeline(StandardScaler(), ZOFedClassifier(num_clients=10, rounds=20, random_state=0)).fit(X, y)
    >>> bool(model.score(X, y) > 0.9)
    True
    """

    def __init__(
        self,
        model: str = "logistic",
        *,
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
        hidden_units: int = 10,
        fit_intercept: bool = True,
        random_state: Any = None,
    ) -> None:
        self.model = model
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
        self.hidden_units = hidden_units
        self.fit_intercept = fit_intercept
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> ZOFedClassifier:
        """Train on rows and their labels.

        Parameters
        ----------
        X : (rows, features), dense or sparse
        y : (rows,)

        Returns
        -------
        ZOFedClassifier
            This object.

        Raises
        ------
        ConfigError
            For a wrong parameter.
        ValueError
            For unusable rows or labels.
        RoundError
            When the steps diverge.
        """
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=np.float64)
        check_classification_targets(y)
        self.classes_, labels = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"y must hold at least 2 classes, got {len(self.classes_)} class: {self.classes_[0]!r}")
        square = X.multiply(X) if sparse.issparse(X) else np.square(X)
        self._length = float(np.sqrt(square.sum() / X.shape[0])) or 1.0
        rows = self._rows(X)
        positives = [1] if len(self.classes_) == 2 else range(len(self.classes_))
        config = self._config(rows)
        models, results = [], []
        for positive in positives:
            target = (labels == positive).astype(np.float64)
            dealt = split(labels, target, config.partition, config.num_clients, config.seed, config.dirichlet_alpha)
            data = Dataset(rows, target, labels)
            clients: list[Objective] = [build_model(config.model, data.take(own), self._options()) for own in dealt]
            results.append(run_in_process(config, clients))
            models.append(results[-1].x)
        self._weights = np.stack(models)
        self.n_iter_ = max(result.state.round for result in results)
        self.n_evaluations_ = sum(result.state.totals.evaluations for result in results)
        if self.model != "mlp":
            self.coef_ = self._weights[:, : self.n_features_in_] / self._length
            self.intercept_ = self._weights[:, -1] if self.fit_intercept else np.zeros(len(models))
        return self

    def _config(self, rows: Features) -> RunConfig:
        if self.model not in _STEP_SIZES:
            raise ConfigError([f"model must be one of {', '.join(_STEP_SIZES)}, got {self.model!r}"])
        seed = self.random_state
        if not isinstance(seed, int | np.integer):
            seed = check_random_state(seed).randint(2**31 - 1)
        named = {dashed(name): value for name, value in self.get_params(deep=False).items() if name in _KEYS}
        named |= {
            "seed": int(seed),
            "num-clients": min(self.num_clients, rows.shape[0]),
            "step-size": _STEP_SIZES[self.model] if self.step_size is None else self.step_size,
            "evaluate-every": 0,
        }
        return RunConfig.from_mapping(named)

    def _options(self) -> ModelOptions:
        return ModelOptions(self.hidden_units, mlp_bias=self.fit_intercept, l2=self.l2)  # rows have norm 1: _rows

    def _rows(self, X: Features) -> Features:
        """Return rows of mean square length 1 on the training set, with the column of ones of a linear model."""
        scaled = X / self._length
        if not self.fit_intercept or self.model == "mlp":  # a network has its own biases
            return scaled
        ones = np.ones((X.shape[0], 1))
        return sparse.hstack([scaled, ones], format="csr") if sparse.issparse(X) else np.hstack([scaled, ones])

    def decision_function(self, X: Any) -> Vector:
        """Return scores: (rows,) for two classes, positive for the second class, else (rows, classes)."""
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
        if self.model == "mlp":
            nothing, rows = np.zeros(X.shape[0]), self._rows(X)
            network = MlpObjective(
                Dataset(rows, nothing, nothing.astype(np.intp)), self.hidden_units, self.fit_intercept
            )
            scores = np.stack([network.scores(weights, rows) for weights in self._weights], axis=1)
        else:
            scores = X @ self.coef_.T + self.intercept_
        return scores[:, 0] if len(self.classes_) == 2 else scores

    def predict(self, X: Any) -> Any:
        """Return the label of each row, (rows,)."""
        scores = self.decision_function(X)
        return self.classes_[(scores > 0.0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)]

    @available_if(lambda self: self.model in _PROBABILISTIC)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Any:
        """Return probabilities, (rows, classes), with sum 1 in each row; of models with the logistic loss only."""
        chances = expit(self.decision_function(X))
        if chances.ndim == 1:
            return np.stack([1.0 - chances, chances], axis=1)
        total = chances.sum(axis=1, keepdims=True)
        return np.where(total > 0.0, chances / np.where(total > 0.0, total, 1.0), 1.0 / chances.shape[1])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
