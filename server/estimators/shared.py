"""What the scikit-learn estimators share: the scale of rows, the deal to clients, and the training of one target."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight

from zofedht.common.config.run_config import RunConfig, dashed
from zofedht.common.data.partition import split
from zofedht.common.errors import ConfigError
from zofedht.common.objective.base import Objective
from zofedht.common.rules import check_whole
from zofedht.common.typing import Features, Indices, Matrix, Vector
from zofedht.server.core.round_record import RoundRecord
from zofedht.server.core.state import ServerState, initial_state
from zofedht.server.inprocess import run_in_process

__all__ = ["Estimator", "Trained", "length_of"]

_KEYS = {
    "partition", "clients_per_round", "algorithm", "rounds", "local_steps", "batch_size", "radius",
    "subspace_weight", "memory", "l2",
}  # fmt: skip


class Trained(NamedTuple):
    """x: (n,). losses: of each round, of its probes."""

    x: Vector
    rounds: int
    evaluations: int
    losses: list[float]


def length_of(X: Features, weights: Vector | None = None) -> float:
    """Return the root mean square length of the rows, of any size that float64 has; 1 where all are 0.

    ``weights`` have mean 1: a row of weight 2 counts as two rows.
    """
    largest = float(abs(X).max()) if X.shape[0] else 0.0
    if largest == 0.0:
        return 1.0
    parts: Any = X / largest  # squares of 1e155 overflow, and those of 1e-165 vanish
    square = parts.multiply(parts) if sparse.issparse(parts) else np.square(parts)
    total = square.sum() if weights is None else weights @ np.asarray(square.sum(axis=1)).ravel()
    return largest * float(np.sqrt(total / X.shape[0]))


class Estimator(BaseEstimator):  # type: ignore[misc]
    """Rows, groups, weights and seeds; a subclass has the parameters, and what a row's loss is."""

    loss_curve_: list[float]
    _x: Matrix | Vector  # what was trained, in the scale of the rows
    _length: float
    _fits: int  # of this model until now

    def _config(self, rows: int, **more: Any) -> RunConfig:
        """Return the run config of a fit on so many rows. Raises ConfigError for a wrong parameter."""
        for name in ("warm_start", "fit_intercept"):
            if not isinstance(getattr(self, name), bool | np.bool_):
                raise ConfigError([f"{name} must be True or False, got {getattr(self, name)!r}"])
        check_whole("num_clients", self.num_clients, 1, error=lambda text: ConfigError([text]))
        if isinstance(self.algorithm, str) and RunConfig(algorithm=self.algorithm).asks_points:
            text = (
                f"algorithm must take local steps in an estimator, got {self.algorithm!r}, which asks for values of F"
            )
            raise ConfigError([f"{text} (zofedht is the default)"])
        seed = self.random_state
        if not isinstance(seed, int | np.integer):
            seed = check_random_state(seed).randint(2**31 - 1)
        named = {dashed(name): value for name, value in self.get_params(deep=False).items() if name in _KEYS}
        seeds = {"seed": (int(seed) + self._fits) % 2**63, "num-clients": min(int(self.num_clients), rows)}
        return RunConfig.from_mapping(named | seeds | {"evaluate-every": 0} | more)

    def _for_groups(self, config: RunConfig, groups: Any, rows: int) -> tuple[RunConfig, list[Indices] | None]:
        """Return the config with a client for each group, and the rows of each. Raises ValueError."""
        if groups is None:
            return config, None
        named = np.asarray(groups)
        if named.shape != (rows,):
            raise ValueError(f"groups must name the site of each of {rows} rows, got an array of shape {named.shape}")
        for row, name in enumerate(named.tolist()):
            if name is None or name != name:
                raise ValueError(f"groups must name the site of every row, got {name!r} for row {row}")
        try:
            _, members = np.unique(named, return_inverse=True)
        except TypeError as error:
            raise ValueError("groups must hold texts or numbers, and not both") from error
        sites = [np.flatnonzero(members == site) for site in range(int(members.max()) + 1)]
        changes: dict[str, Any] = {"num_clients": len(sites)}
        if config.clients_per_round >= len(sites):
            changes |= {"clients_per_round": len(sites), "sampling": "without-replacement"}
        return config.replace(**changes), sites

    def _weights_of(self, sample_weight: Any, X: Features) -> Vector | None:
        """Return the weights with mean 1, or None for equal ones. Raises ValueError."""
        if sample_weight is None:
            return None
        weights: Vector = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        return None if np.all(weights == weights[0]) else weights / weights.mean()

    def _deal(self, config: RunConfig, sites: list[Indices] | None, labels: Indices, target: Vector) -> list[Indices]:
        """Return the rows of each client: those of its group, or as the partition deals them."""
        if sites is not None:
            return sites
        return split(labels, target, config.partition, config.num_clients, config.seed, config.dirichlet_alpha)

    def _train(self, config: RunConfig, clients: Sequence[Objective], start: Vector | None) -> Trained:
        """Train one x, from ``start`` where it is given."""
        state = None if start is None else initial_state(config.fitted(len(start)), start)
        losses: list[float] = []

        def watch(_: ServerState, record: RoundRecord) -> None:
            losses.append(record.train_loss)

        done = run_in_process(config, clients, state=state, observers=[watch])
        return Trained(done.x, done.state.round, done.state.totals.evaluations, losses)

    def _note(self, trained: Sequence[Trained], *, further: bool) -> None:
        """Keep what the runs have cost, and the curve of their mean loss; ``further``: after that of before."""
        self.n_iter_ = max(one.rounds for one in trained)
        self.n_evaluations_ = sum(one.evaluations for one in trained)
        curve = np.mean([one.losses for one in trained], axis=0).tolist()
        self.loss_curve_ = [*self.loss_curve_, *curve] if further else curve

    def _scaled(self, X: Features, *, ones: bool) -> Features:
        """Return rows of mean square length 1 on the training set, with a column of ones where that is wanted."""
        scaled = X / self._length
        if not ones:
            return scaled
        column = np.ones((X.shape[0], 1))
        return sparse.hstack([scaled, column], format="csr") if sparse.issparse(X) else np.hstack([scaled, column])

    def _forget(self) -> None:
        """Begin a model anew."""
        self._fits = 0
        for name in ("_x", "_length"):
            self.__dict__.pop(name, None)

    def _begun(self) -> bool:
        return hasattr(self, "_x")
