"""ZOFedHT in somebody's own Flower app: the same x as in process, and what its author expects of a strategy."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord
from flwr.supercore.task_identity import TaskIdentity
from numpy.typing import NDArray

from tests.server.flower.grid import HomeGrid
from zofedht import FunctionObjective, Integer, Objective, Real, run
from zofedht.common.errors import ConfigError, MessageError, RoundError, ZofedhtError
from zofedht.flower import ZOFedHT, evaluate, train
from zofedht.server.records.history import read_history

NODES = {2**62 + 11: 1, 77: 2, 5: 0}
START = [np.zeros((2, 2)), np.ones(3, dtype=np.float64)]
SETTINGS: dict[str, Any] = {"step_size": 0.02, "local_steps": 4, "memory": 2, "radius": 1e-3, "seed": 3}
ROUNDS = 6


@pytest.fixture(autouse=True)
def _in_a_server_app(monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages are made within a task of Flower, which has numbers."""
    for name in ("_task_id", "_run_id", "_node_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)


def loss(arrays: list[NDArray[Any]], centre: float) -> float:
    weights, bias = arrays
    return float(np.sum((weights - centre) ** 2) + np.sum((bias + centre) ** 2))


def flat(x: NDArray[Any], centre: float) -> float:
    return loss([x[:4].reshape(2, 2), x[4:]], centre)


def of_node(context: Context) -> Any:
    return partial(loss, centre=float(context.node_config["partition-id"]))


def grid(nodes: dict[int, int] = NODES) -> HomeGrid:
    answers = {
        "train": lambda message, context: train(message, context, of_node(context)),
        "evaluate": lambda message, context: evaluate(message, context, of_node(context)),
    }
    return HomeGrid(nodes, answers)


def in_process(**changes: Any) -> NDArray[Any]:
    functions = [partial(flat, centre=float(index)) for index in range(3)]
    x0 = np.concatenate([array.ravel() for array in START])
    return run([lambda x, f=f: f(x) for f in functions], x0, rounds=ROUNDS, **SETTINGS | changes).x


def flattened(arrays: ArrayRecord) -> NDArray[Any]:
    return np.concatenate([array.ravel() for array in arrays.to_numpy_ndarrays()])


@pytest.mark.parametrize("changes", [{}, {"algorithm": "fedzo"}, {"uplink": "slopes", "directions": "shared"}], ids=str)
def test_x_equals_in_process(changes: dict[str, Any]):
    result = ZOFedHT(**SETTINGS | changes).start(grid(), ArrayRecord(START), num_rounds=ROUNDS)
    assert np.array_equal(flattened(result.arrays), in_process(**changes))


def test_arrays_keep_their_names_shapes_and_types():
    like = [array.astype(np.float32) for array in START]
    named = ArrayRecord(dict(zip(["layer.weight", "layer.bias"], ArrayRecord(like).values(), strict=True)))
    result = ZOFedHT(**SETTINGS).start(grid(), named, num_rounds=2)
    assert list(result.arrays) == ["layer.weight", "layer.bias"]
    assert [array.shape for array in result.arrays.to_numpy_ndarrays()] == [(2, 2), (3,)]
    assert {array.dtype.name for array in result.arrays.to_numpy_ndarrays()} == {"float32"}


def test_the_result_has_the_metrics_of_each_round():
    told: list[int] = []

    def central(round_: int, arrays: ArrayRecord) -> MetricRecord:
        told.append(round_)
        return MetricRecord({"centre": float(np.mean(flattened(arrays)))})

    result = ZOFedHT(**SETTINGS, evaluate_every=2).start(grid(), ArrayRecord(START), num_rounds=4, evaluate_fn=central)
    assert told == [0, 1, 2, 3, 4]
    assert sorted(result.evaluate_metrics_serverapp) == told
    losses = [result.train_metrics_clientapp[round_]["train_loss"] for round_ in (1, 2, 3, 4)]
    assert losses[-1] < losses[0]
    assert 4 in result.evaluate_metrics_clientapp


def test_the_authors_config_goes_to_the_nodes():
    seen = grid()
    config = ConfigRecord({"colour": "blue"})
    ZOFedHT(**SETTINGS).start(seen, ArrayRecord(START), num_rounds=2, train_config=config)
    told = [dict(message.content.config_records["config"]) for message in seen.sent]
    assert {said["colour"] for said in told if "colour" in said} == {"blue"}
    assert {said["server-round"] for said in told if "server-round" in said} >= {1, 2}


def test_a_node_that_breaks_costs_its_slot(tmp_path: Path):
    home = grid()
    home.broken.add(77)
    home.nodes[88] = 3
    with pytest.raises(RoundError, match="4 nodes"):
        ZOFedHT(**SETTINGS, num_clients=4).start(home, ArrayRecord(START), num_rounds=1, timeout=0.1)
    result = ZOFedHT(**SETTINGS, out=tmp_path / "run").start(home, ArrayRecord(START), num_rounds=2)
    assert np.all(np.isfinite(flattened(result.arrays)))
    assert [row["replies"] for row in read_history(tmp_path / "run" / "history.jsonl")] == [3, 3]


def test_a_loop_of_ones_own_takes_the_same_rounds():
    strategy, home, arrays = ZOFedHT(**SETTINGS, rounds=ROUNDS), grid(), ArrayRecord(START)
    for round_ in range(1, ROUNDS + 1):
        replies = home.send_and_receive(strategy.configure_train(round_, arrays, ConfigRecord(), home))
        arrays, metrics = strategy.aggregate_train(round_, replies)
        assert metrics["evaluations"] > 0
        told = home.send_and_receive(strategy.configure_evaluate(round_, arrays, ConfigRecord(), home))
        assert strategy.aggregate_evaluate(round_, told)["loss"] >= 0.0
    assert np.array_equal(flattened(arrays), in_process())
    with pytest.raises(RoundError, match="rounds = 6 are done; give rounds=N"):
        strategy.configure_train(ROUNDS + 1, arrays, ConfigRecord(), home)


class Valve(Objective):
    """Has bounds and a scale: x is searched in other units than its author's."""

    dim = 7
    bounds = (0.0, 50.0)
    scale = 10.0

    def value(self, x: NDArray[Any], batch: Any) -> float:
        return float(np.sum((x / 10.0 - 2.0) ** 2))


def test_an_objective_with_units_ends_in_its_own_units():
    answers = {
        "train": lambda message, context: train(message, context, Valve()),
        "evaluate": lambda message, context: evaluate(message, context, Valve()),
    }
    start = ArrayRecord([np.full(7, 5.0)])
    result = ZOFedHT(**SETTINGS).start(HomeGrid(NODES, answers), start, num_rounds=ROUNDS)
    expected = run([Valve(), Valve(), Valve()], np.full(7, 5.0), rounds=ROUNDS, **SETTINGS)
    assert np.array_equal(flattened(result.arrays), expected.x)
    losses = [metrics["loss"] for metrics in result.evaluate_metrics_clientapp.values()]
    assert losses[-1] == pytest.approx(expected.fun)


def test_named_parameters_are_searched_in_a_loop_of_ones_own():
    def named() -> FunctionObjective:
        parameters = {"valve": Real(0, 1), "teeth": Integer(8, 40)}
        return FunctionObjective(lambda valve, teeth: (valve - 0.7) ** 2 + (teeth - 20) ** 2, parameters=parameters)

    answers = {
        "train": lambda message, context: train(message, context, named()),
        "evaluate": lambda message, context: evaluate(message, context, named()),
    }
    home, start = HomeGrid(NODES, answers), ArrayRecord([np.array([0.2, 10.0])])
    keys = {key: value for key, value in SETTINGS.items() if key != "radius"}  # that of an integer is half a step
    strategy, arrays = ZOFedHT(**keys, rounds=ROUNDS), start
    for round_ in range(1, ROUNDS + 1):
        replies = home.send_and_receive(strategy.configure_train(round_, arrays, ConfigRecord(), home))
        arrays, _ = strategy.aggregate_train(round_, replies)
    expected = run([named(), named(), named()], {"valve": 0.2, "teeth": 10}, rounds=ROUNDS, **keys)
    assert np.array_equal(flattened(arrays), expected.last)


def test_samples_are_drawn_for_a_function_of_a_batch():
    rows = np.arange(20.0)

    def of_batch(arrays: list[NDArray[Any]], batch: Any) -> float:
        return float(np.mean((rows[batch] - arrays[0][0]) ** 2))

    answers = {
        "train": lambda message, context: train(message, context, of_batch, samples=20),
        "evaluate": lambda message, context: evaluate(message, context, of_batch, samples=20),
    }
    result = ZOFedHT(**SETTINGS, batch_size=5).start(HomeGrid(NODES, answers), ArrayRecord([np.zeros(2)]), num_rounds=3)
    assert result.train_metrics_clientapp[1]["evaluations"] == 3 * 4 * 2 * 5  # nodes, steps, ends, samples


@pytest.mark.parametrize("wrong", [{"objective": "a:b"}, {"dataset": "digits"}, {"rounds": -1}, {"no_such_key": 1}])
def test_wrong_settings_are_refused(wrong: dict[str, Any]):
    with pytest.raises(ConfigError):
        ZOFedHT(**wrong)


def test_messages_of_another_strategy_are_refused():
    from flwr.app import RecordDict

    message = Message(RecordDict({"arrays": ArrayRecord(START)}), dst_node_id=1, message_type="train")
    with pytest.raises(MessageError, match="from another strategy"):
        train(message, Context(0, 1, {}, RecordDict(), {}), lambda arrays: 0.0)


def test_a_nodes_words_stay_on_the_node(caplog: pytest.LogCaptureFixture):
    def broken(arrays: list[NDArray[Any]]) -> float:
        raise ValueError("hunter2 in /vault/rows.csv")

    replies: list[Message] = []

    def kept(reply: Message) -> Message:
        replies.append(reply)
        return reply

    answers = {
        "train": lambda message, context: kept(train(message, context, broken)),
        "evaluate": lambda message, context: kept(evaluate(message, context, broken)),
    }
    with pytest.raises(ZofedhtError):
        ZOFedHT(**SETTINGS, max_retries=0).start(HomeGrid(NODES, answers), ArrayRecord(START), num_rounds=1)
    told = [str(dict(reply.content.config_records["zofedht"])) for reply in replies]
    assert any("the objective raised ValueError (test_message_strategy.py" in text for text in told)
    assert not [text for text in told if "hunter2" in text]
    assert "hunter2 in /vault/rows.csv" in caplog.text


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ((None, ArrayRecord(START)), "grid must be the Grid that ServerApp's main gets, got None"),
        ((grid(), None), r"initial_arrays must be an ArrayRecord .* got None; make one as ArrayRecord"),
        ((grid(), ArrayRecord()), "initial_arrays must be an ArrayRecord with at least one array"),
    ],
)
def test_wrong_arguments_of_start_are_one_sentence(given: tuple[Any, Any], words: str):
    with pytest.raises(ConfigError, match=words):
        ZOFedHT(**SETTINGS).start(*given)
