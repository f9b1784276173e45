"""Shards: a task names the data, and each client's part of it or what its factory makes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from zofedht.common.config.run_config import RunConfig
from zofedht.common.data.dataset import Dataset
from zofedht.common.data.loading import DataSpec, load_dataset
from zofedht.common.errors import ConfigError, DataError, MessageError, ObjectiveError
from zofedht.common.models.linear import LinearObjective
from zofedht.common.models.mlp import MlpObjective
from zofedht.common.models.quadratic import QuadraticObjective
from zofedht.common.models.table import ModelOptions, build_model
from zofedht.common.objective.loading import starting_point
from zofedht.common.shards import (
    held_out_objective,
    lone_objective,
    members_of,
    objective_of,
    own_objective,
    own_rows,
    train_objective,
)
from zofedht.common.wire.clients import Member

_CONFIG = RunConfig(num_clients=6, train_rows=600, partition="thirds", seed=4, l2=0.1)
_X = np.linspace(-1.0, 1.0, 65)  # digits: 64 pixels and the bias


def _linear(index: int, config: RunConfig = _CONFIG) -> LinearObjective:
    objective = objective_of(config.task, index)
    assert isinstance(objective, LinearObjective)
    return objective


def test_clients_have_the_number_of_their_shard() -> None:
    assert members_of(RunConfig(num_clients=3)) == [Member("0", 0, "0"), Member("1", 1, "1"), Member("2", 2, "2")]


def test_shards_hold_each_training_row_once() -> None:
    shards = [_linear(member.shard_index) for member in members_of(_CONFIG)]
    data, _ = load_dataset(DataSpec(train_rows=600, seed=4))
    dealt = np.concatenate([np.column_stack([shard.features, shard.target]) for shard in shards])
    whole = np.column_stack([data.features, data.target])
    np.testing.assert_array_equal(dealt[np.lexsort(dealt.T)], whole[np.lexsort(whole.T)])


def test_shards_are_views_of_one_copy_of_the_data() -> None:
    train = train_objective(_CONFIG)
    assert isinstance(train, LinearObjective)
    for member in members_of(_CONFIG):
        assert np.shares_memory(_linear(member.shard_index).features, train.features)


def test_training_loss_is_the_mean_over_all_rows() -> None:
    shards = [_linear(member.shard_index) for member in members_of(_CONFIG)]
    losses = [shard.evaluate(_X)["loss"] for shard in shards]
    mean = np.average(losses, weights=[len(shard) for shard in shards])
    assert train_objective(_CONFIG).evaluate(_X)["loss"] == pytest.approx(mean, rel=1e-13)


def test_no_shard_holds_test_rows() -> None:
    held_out = held_out_objective(_CONFIG)
    _, test = load_dataset(DataSpec(train_rows=600, seed=4))
    assert isinstance(held_out, LinearObjective)
    np.testing.assert_array_equal(held_out.features, test.features)
    assert held_out.l2 == 0.1


def test_objectives_are_kept_until_another_task() -> None:
    first = _linear(2)
    assert _linear(2) is first
    other = _linear(2, _CONFIG.replace(seed=5))
    assert other is not first
    again = _linear(2)
    np.testing.assert_array_equal(again.features, first.features)


def test_the_task_decides_the_model_and_its_options() -> None:
    config = _CONFIG.replace(model="mlp", hidden_units=3, mlp_bias=True)
    objective = objective_of(config.task, 0)
    assert isinstance(objective, MlpObjective)
    assert (objective.dim, objective.l2) == (65 * 3 + 3 + 3 + 1, 0.1)


@pytest.mark.parametrize("preprocess", ["bias,unit-norm", "unit-norm,bias", "bias", "none"])
def test_the_network_starts_at_one_point_everywhere(preprocess: str) -> None:
    config = _CONFIG.replace(model="mlp", hidden_units=3, mlp_bias=True, preprocess=preprocess, partition="sorted")
    everywhere = [objective_of(config.task, member.shard_index) for member in members_of(config)]
    everywhere += [lone_objective(config, 2), train_objective(config), held_out_objective(config)]
    points = [starting_point(objective, config.seed) for objective in everywhere]
    assert len({point.tobytes() for point in points if point is not None}) == 1
    assert points[0] is not None
    columns = 65 if "bias" in preprocess else 64
    wanted = 1.0 if "unit-norm" in preprocess else columns**-0.5
    assert np.std(points[0][: columns * 3]) == pytest.approx(wanted, rel=5 / np.sqrt(2 * columns * 3))


def test_own_rows_do_not_move_the_networks_start(tmp_path: Path) -> None:
    config = RunConfig(dataset="clients", model="mlp", hidden_units=3, preprocess="bias", positive_labels="1")
    points = []
    for index, scale in enumerate((1.0, 1e6)):
        rows = scale * np.random.default_rng(index).standard_normal((9 + index, 4))
        np.savez(tmp_path / f"{index}.npz", X=rows, y=np.arange(9 + index) % 2)
        points.append(
            starting_point(own_objective(config, own_rows(config, str(tmp_path / f"{index}.npz"))), config.seed)
        )
    np.testing.assert_array_equal(*points)


@pytest.mark.parametrize("index", [6, -1, -6, 2**40])
def test_a_missing_shard_is_refused(index: int) -> None:
    with pytest.raises(DataError, match=f"there is no shard {index}: with num-clients = 6 they are 0 to 5"):
        objective_of(_CONFIG.task, index)


def test_a_task_gives_its_config_back() -> None:
    config = RunConfig.of_task(_CONFIG.task)
    assert config.task == _CONFIG.task
    assert (config.partition, config.num_clients, config.l2) == ("thirds", 6, 0.1)


@pytest.mark.parametrize("task", ["", "{", "null", "3", "[1]", '"text"'])
def test_a_malformed_task_is_refused(task: str) -> None:
    with pytest.raises(MessageError, match="the task that came with a question is not a config"):
        objective_of(task, 0)


def test_a_task_with_unknown_keys_is_refused() -> None:
    with pytest.raises(ConfigError, match="unknown key 'datasett'; did you mean 'dataset'"):
        objective_of('{"datasett": "digits"}', 0)


def test_a_factory_makes_an_objective_for_each_client(
    write_module: Callable[[str, str], None],
) -> None:
    write_module(
        "valve_shards",
        """
        from zofedht.common.objective.base import Objective

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
    shard = objective_of(config.task, 1).shard  # type: ignore[attr-defined]
    assert (shard.client, shard.index, shard.count, shard.seed) == ("1", 1, 3, 8)
    assert objective_of(config.task, 1).shard is shard  # type: ignore[attr-defined]
    with pytest.raises(ObjectiveError, match="for client 2 raised OSError: plant 2 is offline"):
        objective_of(config.task, 2)


@pytest.mark.parametrize("make", [lambda config: objective_of(config.task, 0), train_objective, held_out_objective])
def test_clients_rows_need_a_served_run(make: Callable[[RunConfig], object]) -> None:
    with pytest.raises(DataError, match="dataset = clients has rows only where clients join with --data; use it with"):
        make(RunConfig(dataset="clients"))


# --- a client's own file


_SVM = "1 1:2 3:-1\n-1 2:4\n1 1:1 2:1\n"
_OWN = np.array([[2.0, 0.0, -1.0], [0.0, 4.0, 0.0], [1.0, 1.0, 0.0]])


def _own_file(folder: Path) -> str:
    path = folder / "rows.svm"
    path.write_text(_SVM)
    return str(path)


@pytest.mark.parametrize("dimension", [0, 4, 9])
def test_an_own_objective_takes_all_rows_of_the_file(tmp_path: Path, dimension: int) -> None:
    """A sparse file may lack its last columns: the server's n says how many there are, the bias among them."""
    config = RunConfig(dataset="clients", l2=0.1, positive_labels="1")
    own = own_objective(config, own_rows(config, _own_file(tmp_path), dimension))
    columns = dimension - 1 if dimension else 3
    dense = np.zeros((3, columns))
    dense[:, :3] = _OWN
    features = np.column_stack([dense, np.ones(3)])
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    target = np.array([1.0, 0.0, 1.0])
    wanted = build_model("logistic", Dataset(features, target, target.astype(np.intp)), ModelOptions(l2=0.1))
    x = np.linspace(-1.0, 1.0, columns + 1)
    assert isinstance(own, LinearObjective)
    assert (len(own), own.dim) == (3, columns + 1)
    assert own.evaluate(x) == pytest.approx(wanted.evaluate(x), rel=1e-13)


def test_columns_beyond_the_servers_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="at most 1 features"):
        own_rows(RunConfig(dataset="clients"), _own_file(tmp_path), 2)


def test_without_a_bias_n_is_the_number_of_columns(tmp_path: Path) -> None:
    config = RunConfig(dataset="clients", model="quadratic", preprocess="none", positive_labels="1")
    own = own_objective(config, own_rows(config, _own_file(tmp_path), 5))
    assert isinstance(own, QuadraticObjective)
    assert own.dim == 5


def test_the_n_of_an_mlp_does_not_decide_columns(tmp_path: Path) -> None:
    config = RunConfig(dataset="clients", model="mlp", hidden_units=3, positive_labels="1")
    own = own_objective(config, own_rows(config, _own_file(tmp_path), 15))
    assert isinstance(own, MlpObjective)
    assert own.dim == 4 * 3 + 3


def test_own_rows_take_labels_and_preprocessing_from_the_config(tmp_path: Path) -> None:
    config = RunConfig(dataset="clients", positive_labels="-1", preprocess="none")
    own = own_objective(config, own_rows(config, _own_file(tmp_path)))
    assert isinstance(own, LinearObjective)
    np.testing.assert_array_equal(own.target, [0.0, 1.0, 0.0])
    assert own.dim == 3


@pytest.mark.parametrize("keys", [{}, {"partition": "thirds", "train-rows": 300, "seed": 3}, {"preprocess": "none"}])
def test_a_shard_alone_equals_the_shard_of_the_set(keys: dict[str, Any]) -> None:
    config = RunConfig.from_mapping({"num-clients": 4} | keys)
    for index in range(4):
        alone, dealt = lone_objective(config, index), objective_of(config.task, index)
        assert isinstance(alone, LinearObjective)
        assert isinstance(dealt, LinearObjective)
        assert np.array_equal(alone.features, dealt.features)
        assert np.array_equal(alone.target, dealt.target)
