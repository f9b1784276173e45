"""``ZOFedClassifier``: the built-in models as a scikit-learn estimator, trained across simulated clients."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import expit
from sklearn.base import ClassifierMixin
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from zofedht.common.choices import UNSAID
from zofedht.common.data.dataset import Dataset
from zofedht.common.errors import ConfigError
from zofedht.common.models.mlp import MlpObjective
from zofedht.common.models.table import ModelOptions
from zofedht.common.typing import Features, Vector
from zofedht.server.estimators.shared import Estimator, length_of
from zofedht.server.estimators.weighted import loss_of_rows

__all__ = ["ZOFedClassifier"]

# Safe first step sizes for rows of mean square length 1. A step along v multiplies the error by 1 - eta v'Hv. Its mean
# square is below 1 for eta < 2 / (trace H + 2 max H); both are at most the largest curvature of the loss.
_STEP_SIZES = {"logistic": 1.0, "svm-hinge": 0.3, "svm-squared-hinge": 0.1, "mlp": 1.0}


class ZOFedClassifier(ClassifierMixin, Estimator):  # type: ignore[misc]
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
    class_weight : dict, "balanced" or None
        Weights of the classes; "balanced" gives each class the same weight in all.
    warm_start : bool
        Whether ``fit`` goes on from the model of the fit before, if the classes are the same.
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
    loss_curve_ : list of float
        The mean loss of each round's probes, the mean over the runs; ``partial_fit`` appends to it.
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

    classes_: Any

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
        class_weight: Any = None,
        warm_start: bool = False,
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
        self.class_weight = class_weight
        self.warm_start = warm_start
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> ZOFedClassifier:
        """Train on rows and their labels.

        Parameters
        ----------
        X : (rows, features), dense or sparse
        y : (rows,)
        sample_weight : (rows,), optional
            The weight of each row's loss.
        groups : (rows,), optional
            The site of each row, by name or number. Each site is one client, in the place of ``num_clients`` and
            ``partition``.

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
        anew = not (self.warm_start and self._begun())
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=np.float64, reset=anew)
        check_classification_targets(y)
        classes = np.unique(y)
        if len(classes) < 2:
            raise ValueError(f"y must hold at least 2 classes, got {len(classes)} class: {classes[0]!r}")
        if anew or not np.array_equal(classes, self.classes_):
            self._forget()
            self.classes_ = classes
        return self._fit(X, y, sample_weight, groups, further=False)

    def partial_fit(
        self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None, groups: Any = None
    ) -> ZOFedClassifier:
        """Train for ``rounds`` more rounds on these rows, from the model so far.

        The first call needs ``classes``, all labels that will come, unless y has them all.
        """
        first = not self._begun()
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=np.float64, reset=first)
        check_classification_targets(y)
        if first:
            self._forget()
            self.classes_ = np.unique(y if classes is None else classes)
            if len(self.classes_) < 2:
                raise ValueError(f"classes must hold at least 2 labels, got {len(self.classes_)} class")
        elif classes is not None and not np.array_equal(np.unique(classes), self.classes_):
            raise ValueError(f"classes must be those of the first call, {self.classes_}, got {classes}")
        if unknown := sorted(set(np.unique(y).tolist()) - set(self.classes_.tolist())):
            raise ValueError(f"y must hold labels of the first call, {self.classes_}, got {unknown[0]!r}")
        return self._fit(X, y, sample_weight, groups, further=not first)

    def _fit(self, X: Features, y: Any, sample_weight: Any, groups: Any, *, further: bool) -> ZOFedClassifier:
        if not isinstance(self.model, str) or self.model not in _STEP_SIZES:
            raise ConfigError([f"model must be one of {', '.join(_STEP_SIZES)}, got {self.model!r}"])
        step = _STEP_SIZES[self.model] if self.step_size is None else self.step_size
        hidden = {"model": self.model, "hidden-units": self.hidden_units, "step-size": step}
        config, sites = self._for_groups(self._config(X.shape[0], **hidden), groups, X.shape[0])
        weights = self._weights_of(sample_weight, X)
        if self.class_weight is not None:
            of_classes = compute_sample_weight(self.class_weight, y)
            weights = self._weights_of(of_classes if weights is None else weights * of_classes, X)
        if not self._begun():
            self._length = length_of(X, weights)
        labels = np.searchsorted(self.classes_, y)
        rows = self._scaled(X, ones=self.fit_intercept and self.model != "mlp")  # a network has its own biases
        trained = []
        for run in range(1 if len(self.classes_) == 2 else len(self.classes_)):
            target = (labels == (1 if len(self.classes_) == 2 else run)).astype(np.float64)
            dealt = self._deal(config, sites, labels, target)
            data = Dataset(rows, target, labels)
            options = ModelOptions(self.hidden_units, mlp_bias=self.fit_intercept, l2=self.l2)  # rows have norm 1
            clients = [loss_of_rows(self.model, data, own, weights, options) for own in dealt]
            trained.append(self._train(config, clients, self._x[run] if self._begun() else None))
        self._x = np.stack([one.x for one in trained])
        self._fits += 1
        self._note(trained, further=further)
        if self.model != "mlp":
            with np.errstate(over="ignore"):  # features of 1e-308 have such coefficients
                self.coef_ = self._x[:, : self.n_features_in_] / self._length
            self.intercept_ = self._x[:, -1] if self.fit_intercept else np.zeros(len(trained))
        return self

    def decision_function(self, X: Any) -> Vector:
        """Return scores: (rows,) for two classes, positive for the second class, else (rows, classes)."""
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
        rows = self._scaled(X, ones=self.fit_intercept and self.model != "mlp")
        if self.model == "mlp":
            unlabelled = Dataset(rows, np.zeros(X.shape[0]), np.zeros(X.shape[0], dtype=np.intp))
            network = MlpObjective(unlabelled, self.hidden_units, self.fit_intercept)
            scores = np.stack([network.scores(weights, rows) for weights in self._x], axis=1)
        else:
            scores = np.asarray(rows @ self._x.T)
        return scores[:, 0] if len(self.classes_) == 2 else scores

    def predict(self, X: Any) -> Any:
        """Return the label of each row, (rows,)."""
        scores = self.decision_function(X)
        return self.classes_[(scores > 0.0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)]

    @available_if(lambda self: self.model in ("logistic", "mlp"))  # type: ignore[untyped-decorator]
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
