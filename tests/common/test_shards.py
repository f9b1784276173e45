"""Shards: a task names the data, and each client's part of it or what its factory makes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from common.config import RunConfig
from common.datasets import DataSpec, load_dataset
from common.errors import ConfigError, DataError, ObjectiveError
from common.objectives.linear import LinearObjective
from common.objectives.mlp import MlpObjective
from common.shards import client_names, config_of_task, held_out_objective, objective_of, train_objective

_CONFIG = RunConfig(num_clients=6, train_rows=600, partition="thirds", seed=4, l2=0.1)
_X = np.linspace(-1.0, 1.0, 65)  # digits: 64 pixels and the bias


def _linear(client: str, config: RunConfig = _CONFIG) -> LinearObjective:
    objective = objective_of(config.task, client)
    assert isinstance(objective, LinearObjective)
    return objective


def test_clients_are_named_by_their_partition() -> None:
    assert client_names(RunConfig(num_clients=3)) == ["0", "1", "2"]


def test_shards_hold_each_training_row_once() -> None:
    shards = [_linear(client) for client in client_names(_CONFIG)]
    data, _ = load_dataset(DataSpec(train_rows=600, seed=4))
    dealt = np.concatenate([np.column_stack([shard.features, shard.target]) for shard in shards])
    whole = np.column_stack([data.features, data.target])
    np.testing.assert_array_equal(dealt[np.lexsort(dealt.T)], whole[np.lexsort(whole.T)])


def test_shards_are_views_of_one_copy_of_the_data() -> None:
    train = train_objective(_CONFIG)
    assert isinstance(train, LinearObjective)
    for client in client_names(_CONFIG):
        assert np.shares_memory(_linear(client).features, train.features)


def test_training_loss_is_the_mean_over_all_rows_of_all_shards() -> None:
    shards = [_linear(client) for client in client_names(_CONFIG)]
    losses = [shard.evaluate(_X)["loss"] for shard in shards]
    mean = np.average(losses, weights=[len(shard) for shard in shards])
    assert train_objective(_CONFIG).evaluate(_X)["loss"] == pytest.approx(mean, rel=1e-13)


def test_test_rows_are_not_those_of_any_shard() -> None:
    held_out = held_out_objective(_CONFIG)
    _, test = load_dataset(DataSpec(train_rows=600, seed=4))
    assert isinstance(held_out, LinearObjective)
    np.testing.assert_array_equal(held_out.features, test.features)
    assert held_out.l2 == 0.1


def test_the_objective_of_a_client_is_kept_until_another_task_comes() -> None:
    first = _linear("2")
    assert _linear("2") is first
    other = _linear("2", _CONFIG.replace(seed=5))
    assert other is not first
    again = _linear("2")
    np.testing.assert_array_equal(again.features, first.features)


def test_the_task_says_which_model_and_how() -> None:
    config = _CONFIG.replace(model="mlp", hidden_units=3, mlp_bias=True)
    objective = objective_of(config.task, "0")
    assert isinstance(objective, MlpObjective)
    assert (objective.dim, objective.l2) == (65 * 3 + 3 + 3 + 1, 0.1)


@pytest.mark.parametrize("client", ["6", "-1", "one", "", "0x1", "1.0", "\u00b2"])
def test_a_client_without_a_partition_is_refused(client: str) -> None:
    with pytest.raises(DataError, match="has no partition: with num-clients = 6 they are 0 to 5"):
        objective_of(_CONFIG.task, client)


def test_a_task_gives_its_config_back() -> None:
    config = config_of_task(_CONFIG.task)
    assert config.task == _CONFIG.task
    assert (config.partition, config.num_clients, config.l2) == ("thirds", 6, 0.1)


@pytest.mark.parametrize("task", ["", "{", "null", "3", "[1]", '"text"'])
def test_a_task_that_is_no_config_is_refused(task: str) -> None:
    with pytest.raises(DataError, match="the task that came with a broadcast is not a config"):
        objective_of(task, "0")


def test_a_task_of_another_version_is_refused_by_its_keys() -> None:
    with pytest.raises(ConfigError, match="unknown key 'datasett'; did you mean 'dataset'"):
        objective_of('{"datasett": "digits"}', "0")


def test_own_objectives_are_made_for_each_client_and_need_no_data_set(
    write_module: Callable[[str, str], None],
) -> None:
    write_module(
        "valve_shards",
        """
        from common.objective import Objective

        class Valve(Objective):
            dim = 2
            def __init__(self, shard):
                self.shard = shard
                if shard.index == 2:
                    raise OSError("plant 2 is offline")
            def __len__(self):
                return 3
            def value(self, x, batch):
                return float(x @ x)
        """,
    )
    config = RunConfig(objective="valve_shards:Valve", dataset="/no/such/file", num_clients=3, seed=8)
    shard = objective_of(config.task, "1").shard  # type: ignore[attr-defined]
    assert (shard.client, shard.index, shard.count, shard.seed) == ("1", 1, 3, 8)
    assert objective_of(config.task, "1").shard is shard  # type: ignore[attr-defined]
    with pytest.raises(ObjectiveError, match="raised OSError for client 2: plant 2 is offline"):
        objective_of(config.task, "2")
