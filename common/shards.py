"""From a run config to the objective of each logical client, with the data set kept once a process."""

from __future__ import annotations

import functools
import json

import numpy as np

from common.config import RunConfig
from common.datasets import DataSpec, load_dataset
from common.errors import DataError
from common.objective import Objective, Shard, load_objective
from common.objectives import ModelOptions, build_model
from common.partition import split

__all__ = ["client_names", "config_of_task", "held_out_objective", "objective_of", "train_objective"]


def client_names(config: RunConfig) -> list[str]:
    """Return the names of the logical clients, the partition numbers as texts."""
    return [str(index) for index in range(config.num_clients)]


def objective_of(task: str, client: str) -> Objective:
    """Return the objective of one logical client: its shard of the data set, or what its factory makes.

    ``task`` is ``RunConfig.task``. The objectives of the latest task are kept.

    Raises DataError or ObjectiveError.
    """
    return _latest(task).objective(client)


def train_objective(config: RunConfig) -> Objective:
    """Return the built-in objective on all training rows."""
    kept = _latest(config.task)
    return build_model(config.model, kept.train, kept.options)


def held_out_objective(config: RunConfig) -> Objective:
    """Return the built-in objective on the test rows."""
    kept = _latest(config.task)
    return build_model(config.model, kept.test, kept.options)


def config_of_task(task: str) -> RunConfig:
    """Return the config that a broadcast's task names.

    Raises DataError when it is not one, ConfigError when a key is wrong.
    """
    try:
        return RunConfig.from_mapping(json.loads(task))
    except (json.JSONDecodeError, TypeError, AttributeError) as error:
        raise DataError(f"the task that came with a broadcast is not a config: {error}") from error


class _Task:
    """A data set whose training rows stand shard by shard, so that a shard is a view and not a copy."""

    def __init__(self, config: RunConfig) -> None:
        self.config = config
        self.options = ModelOptions(hidden_units=config.hidden_units, mlp_bias=config.mlp_bias, l2=config.l2)
        self._made: dict[str, Objective] = {}
        if config.objective:
            return
        spec = DataSpec(
            dataset=config.dataset,
            data_dir=config.data_dir,
            train_rows=config.train_rows,
            positive_labels=config.positive_labels,
            preprocess=config.preprocess,
            seed=config.seed,
        )
        train, self.test = load_dataset(spec)
        shards = split(
            train.labels,
            train.target,
            config.partition,
            config.num_clients,
            config.seed,
            config.dirichlet_alpha,
        )
        self._bounds = np.concatenate([[0], np.cumsum([len(shard) for shard in shards])])
        self.train = train.take(np.concatenate(shards))

    def objective(self, client: str) -> Objective:
        if client not in self._made:
            self._made[client] = self._make(client)
        return self._made[client]

    def _make(self, client: str) -> Objective:
        count = self.config.num_clients
        if not client.isdecimal() or int(client) >= count:
            raise DataError(f"client {client!r} has no partition: with num-clients = {count} they are 0 to {count - 1}")
        index = int(client)
        if self.config.objective:
            shard = Shard(client=client, index=index, count=count, seed=self.config.seed)
            return load_objective(self.config.objective, shard)
        rows = slice(self._bounds[index], self._bounds[index + 1])
        return build_model(self.config.model, self.train.take(rows), self.options)


@functools.lru_cache(maxsize=1)
def _latest(task: str) -> _Task:
    return _Task(config_of_task(task))
