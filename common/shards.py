"""From a run config to the objective of each client; a process keeps one data set."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from zofedht.common.choices import AUTO, CLIENTS_HOLD_DATA, parse_transforms
from zofedht.common.config.run_config import RunConfig
from zofedht.common.data.loading import DataSpec, load_described, load_rows, standard_columns
from zofedht.common.data.own_rows import load_own_rows, own_dataset
from zofedht.common.data.partition import split
from zofedht.common.errors import DataError
from zofedht.common.files.reading import FileRules, RawRows
from zofedht.common.models.table import ModelOptions, build_model
from zofedht.common.objective.base import Objective, Shard
from zofedht.common.objective.loading import code_of, load_objective
from zofedht.common.objective.scaling import in_search_units
from zofedht.common.source_digest import digest_of
from zofedht.common.tensors.loading import load_in_place
from zofedht.common.tensors.objective import InPlaceObjective
from zofedht.common.typing import Indices, Vector
from zofedht.common.wire.clients import Member

__all__ = [
    "about_data",
    "check_count",
    "held_out_objective",
    "in_place_maker",
    "lone_objective",
    "members_of",
    "objective_of",
    "own_objective",
    "own_rows",
    "rules_of",
    "shard_sizes",
    "source_digest",
    "train_objective",
    "with_standard_columns",
]


def members_of(config: RunConfig) -> list[Member]:
    """Return the clients of a simulation, named by the number of their shard; each is its own host."""
    return [Member(str(index), index, str(index)) for index in range(config.num_clients)]


def objective_of(task: str, index: int) -> Objective:
    """Return the objective of one shard: the model on its rows, or an objective of the config's factory.

    The objectives of the latest task are kept.

    Parameters
    ----------
    task : str
        ``RunConfig.task``.
    index : int
        The number of the shard, from 0.

    Raises
    ------
    DataError, ObjectiveError
        When the data or the factory cannot be used, or there is no such shard.
    """
    return _latest(task).objective(index)


def in_place_maker(config: RunConfig) -> Callable[[int], InPlaceObjective]:
    """Return the function from the number of a shard to its objective in place, each made once, at its start.

    It raises DataError or ObjectiveError where the factory cannot be used, or there is no such shard.
    """

    @functools.cache
    def make(index: int) -> InPlaceObjective:
        _check_index(config, index)
        if not config.objective:
            raise DataError("in-place needs objective = module:factory, which makes each client's InPlaceObjective")
        return load_in_place(config.objective, Shard(str(index), index, config.num_clients, seed=config.seed))

    return make


def lone_objective(config: RunConfig, index: int, *, fetch: bool = True) -> Objective:
    """Return the model on the rows of one shard, as ``objective_of`` does, and keep these rows only.

    ``fetch`` allows the download of a named set. Raises DataError.
    """
    _check_index(config, index)
    spec = replace(_spec(config), fetch=fetch)
    data = load_rows(spec, lambda labels, target: _deal(config, labels, target)[index])
    return build_model(config.model, data, _options(config))


def own_rows(config: RunConfig, path: str, dimension: int = 0) -> RawRows:
    """Return all rows of a client's own file, read as the config says.

    ``dimension`` is the server's n, or 0 if unknown: a sparse file may lack its last columns. Raises DataError.
    """
    columns = None
    if dimension and config.model != "mlp":
        columns = dimension - ("bias" in parse_transforms(config.preprocess))
    return load_own_rows(path, rules_of(config), columns)


def own_objective(config: RunConfig, rows: RawRows, *, settled: bool = True) -> Objective:
    """Return the config's model on a client's own rows, those of ``own_rows``.

    ``settled`` is False before the run begins: then positive labels may be unknown, and the target is made up. Raises
    DataError.
    """
    data = own_dataset(rows, config.positive_labels, config.preprocess, config.standardize_by, settled=settled)
    return build_model(config.model, data, _options(config))


def rules_of(config: RunConfig) -> FileRules:
    """Return how the config has files read."""
    return FileRules(
        config.features, config.label_column, config.csv_header, config.svmlight_indices, config.positive_labels
    )


def train_objective(config: RunConfig) -> Objective:
    """Return the built-in objective on all training rows."""
    kept = _latest(config.task)
    return build_model(config.model, kept.train, kept.options)


def held_out_objective(config: RunConfig) -> Objective:
    """Return the built-in objective on the test rows."""
    kept = _latest(config.task)
    return build_model(config.model, kept.test, kept.options)


def check_count(config: RunConfig, count: int) -> None:
    """Raise ConfigError or DataError unless a run of this config can have so many clients.

    Where the rows are the server's they are dealt to try it; ``config`` is then that of the latest task.
    """
    tried = config.replace(num_clients=count)
    if config.server_has_rows:
        rows = _latest(config.task).train
        _deal(tried, rows.labels, rows.target)


def about_data(config: RunConfig) -> tuple[str, ...]:
    """Return lines about the rows that the server has: what was read, and what was taken as what."""
    return _latest(config.task).about


def shard_sizes(config: RunConfig) -> list[int]:
    """Return the number of rows in each shard of the server's data set. Raises DataError where it has none."""
    return [int(size) for size in np.diff(_latest(config.task).bounds)]


def with_standard_columns(config: RunConfig) -> RunConfig:
    """Return the config in which mean and deviation of each column are said, where the rows are the server's.

    A resumed run then takes those that it began with, and the folder of the run says what x belongs to. Where there are
    too many columns to be told, they stay ``auto``, and each process computes them from the same rows. Raises DataError
    when the data cannot be used.
    """
    asked = "standardize" in parse_transforms(config.preprocess) and config.standardize_by == AUTO
    if not asked or not config.server_has_rows:
        return config
    return config.replace(standardize_by=standard_columns(_spec(config)))


def source_digest(config: RunConfig) -> str:
    """Return a digest of the rows that this process deals, or of the module of the config's objective.

    Empty where neither is here. Raises DataError when the data cannot be used.
    """
    if config.objective:
        return digest_of(code) if (code := code_of(config.objective)) else ""
    if config.dataset == CLIENTS_HOLD_DATA:
        return ""
    parts = _latest(config.task).train, _latest(config.task).test
    return digest_of(*(array for part in parts for array in (part.features, part.target, part.labels)))


class _Task:
    """A data set with its training rows in the order of the shards: a shard is a view and not a copy."""

    def __init__(self, config: RunConfig) -> None:
        self.config = config
        self.options = _options(config)
        self._made: dict[int, Objective] = {}
        if config.objective:
            return
        if config.dataset == CLIENTS_HOLD_DATA:
            raise DataError(
                f"dataset = {CLIENTS_HOLD_DATA} has rows only where clients join with --data;"
                " use it with `zofedht-server serve`"
            )
        train, self.test, self.about = load_described(_spec(config))
        shards = _deal(config, train.labels, train.target)
        self.bounds = np.concatenate([[0], np.cumsum([len(shard) for shard in shards])])
        self.train = train.take(np.concatenate(shards))

    def objective(self, index: int) -> Objective:
        if index not in self._made:
            self._made[index] = self._make(index)
        return self._made[index]

    def _make(self, index: int) -> Objective:
        _check_index(self.config, index)
        if self.config.objective:
            shard = Shard(client=str(index), index=index, count=self.config.num_clients, seed=self.config.seed)
            return in_search_units(load_objective(self.config.objective, shard, self.config.parameters))
        rows = slice(self.bounds[index], self.bounds[index + 1])
        return build_model(self.config.model, self.train.take(rows), self.options)


def _check_index(config: RunConfig, index: int) -> None:
    if not 0 <= index < config.num_clients:
        raise DataError.public(
            f"there is no shard {index}: with num-clients = {config.num_clients} they are 0 to {config.num_clients - 1}"
        )


def _spec(config: RunConfig) -> DataSpec:
    return DataSpec(
        dataset=config.dataset,
        data_dir=config.data_dir,
        train_rows=config.train_rows,
        positive_labels=config.positive_labels,
        preprocess=config.preprocess,
        standardize_by=config.standardize_by,
        seed=config.seed,
        rules=rules_of(config),
    )


def _deal(config: RunConfig, labels: Indices, target: Vector) -> list[Indices]:
    return split(labels, target, config.partition, config.num_clients, config.seed, config.dirichlet_alpha)


def _options(config: RunConfig) -> ModelOptions:
    unit_rows = "unit-norm" in parse_transforms(config.preprocess)
    return ModelOptions(config.hidden_units, config.mlp_bias, config.l2, unit_rows)


@functools.lru_cache(maxsize=1)
def _latest(task: str) -> _Task:
    return _Task(RunConfig.of_task(task))
