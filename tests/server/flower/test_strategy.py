"""The Strategy by itself, and under a stock Flower Server."""

from __future__ import annotations

import logging

import numpy as np
import pytest
from flwr.common import Code, EvaluateRes, Status
from flwr.common import parameters_to_ndarrays as unpack
from flwr.server import History, Server
from flwr.server.client_manager import SimpleClientManager

from tests.helpers import small
from tests.server.flower.loopback import Loopback, manager, nodes
from zofedht.client.steps.worker import BasisStore
from zofedht.common.config.run_config import RunConfig
from zofedht.common.errors import RoundError
from zofedht.common.shards import members_of
from zofedht.server.core.coordinator import Coordinator
from zofedht.server.core.state import initial_state
from zofedht.server.evaluation.evaluate import CentralEvaluator
from zofedht.server.flower.strategy import ZofedhtStrategy, over_nodes
from zofedht.server.inprocess import run_in_process
from zofedht.server.records.run_folder import sha256_of_x

CONFIG = small(train_rows=240, step_size=1.0)
DIMENSION = 65


@pytest.fixture(autouse=True)
def quiet() -> None:
    logging.getLogger("flwr").setLevel(logging.ERROR)


def strategy(proxies: list[Loopback], config: RunConfig = CONFIG, *, evaluates: bool = True) -> ZofedhtStrategy:
    coordinator = Coordinator(config, initial_state(config, np.zeros(DIMENSION)))
    homes = over_nodes(members_of(config), {proxy.cid: proxy for proxy in proxies})
    return ZofedhtStrategy(coordinator, lambda: homes, CentralEvaluator(config) if evaluates else None)


def serve(ours: ZofedhtStrategy, proxies: list[Loopback], rounds: int = CONFIG.rounds) -> tuple[Server, History]:
    server = Server(client_manager=manager(proxies), strategy=ours)
    return server, server.fit(num_rounds=rounds, timeout=None)[0]


@pytest.mark.parametrize("count", [1, 2, 5])
def test_a_stock_server_ends_in_the_same_x(count: int):
    ours = strategy(nodes(count))
    server, history = serve(ours, nodes(count))
    expected = run_in_process(CONFIG)
    assert sha256_of_x(unpack(server.parameters)[0]) == sha256_of_x(expected.state.x)
    assert sha256_of_x(ours.coordinator.state.x) == sha256_of_x(expected.state.x)
    losses = dict(history.losses_centralized)
    assert losses[0] == expected.initial["train_loss"]
    assert losses[7] == expected.final["train_loss"]


def test_clients_evaluate_for_a_stock_server():
    """The server has no objective of its own here."""
    _, history = serve(strategy(nodes(2), evaluates=False), nodes(2))
    # Shards of 60 rows each: the mean over clients is the mean over rows, up to the order of sums.
    assert history.losses_distributed[-1][1] == pytest.approx(run_in_process(CONFIG).final["train_loss"], rel=1e-13)
    assert history.losses_centralized == []


def test_a_lost_basis_costs_a_stock_server_one_round():
    """It re-sends nothing within a round, so the slots are lost; in the next round Q is there."""
    config = CONFIG.replace(sampling="without-replacement", clients_per_round=4, memory=3)
    kept = {"bases": BasisStore()}
    node = Loopback("1", bases=lambda: kept["bases"])
    replies: list[int] = []

    def watch(state: object, record: object) -> None:
        replies.append(record.replies)
        if record.round == 3:
            kept["bases"] = BasisStore()

    ours = strategy([node], config.replace(min_replies=1, max_retries=1))
    ours.coordinator.observers.append(watch)
    serve(ours, [node], rounds=8)
    assert replies == [4] * 7  # round 4 failed once and was asked again
    assert [sum("basis" in ins.config for ins in node.fits if ins.config["round"] == r) for r in range(7)] == [
        *(0, 0, 0, 4, 4, 0, 4)
    ]


def test_a_stock_server_goes_on_after_a_lost_slot():
    class Breaking(Loopback):
        def fit(self, ins, timeout, group_id):
            raise ConnectionError("the stream was reset")

    config = CONFIG.replace(sampling="without-replacement", clients_per_round=4)
    proxies = [Loopback("1"), Breaking("2")]
    ours, failures = strategy(proxies, config), []
    ours.coordinator.observers.append(lambda state, record: failures.extend(record.failures))
    serve(ours, proxies)
    assert ours.coordinator.state.round == 7
    assert len(failures) == 14
    assert {failure["reason"] for failure in failures} == {"the stream was reset"}


def test_initial_parameters_are_the_x_of_the_state():
    assert not np.any(unpack(strategy([]).initialize_parameters(SimpleClientManager()))[0])


def test_clients_are_dealt_to_nodes_evenly():
    config = CONFIG.replace(sampling="without-replacement", num_clients=9, clients_per_round=9)
    ours = strategy(nodes(3), config)
    sent = ours.configure_fit(1, ours.initialize_parameters(SimpleClientManager()), SimpleClientManager())
    homes: dict[str, set[object]] = {}
    for proxy, ins in sent:
        homes.setdefault(proxy.cid, set()).add(ins.config["client"])
    assert sorted(sorted(map(str, clients)) for clients in homes.values()) == [
        ["0", "3", "6"],
        ["1", "4", "7"],
        ["2", "5", "8"],
    ]


def test_a_fit_config_holds_what_flower_can_carry():
    ours = strategy(nodes(2))
    for _, ins in ours.configure_fit(1, ours.initialize_parameters(SimpleClientManager()), SimpleClientManager()):
        assert all(type(value) in (bool, bytes, float, int, str) for value in ins.config.values())


def test_a_round_without_nodes_is_named():
    ours = strategy([])
    with pytest.raises(RoundError, match="round 1 has no client to draw from"):
        ours.configure_fit(1, ours.initialize_parameters(SimpleClientManager()), SimpleClientManager())


def test_the_mean_of_evaluations_weighs_clients_equally():
    answers = [
        (Loopback(str(index)), EvaluateRes(status=Status(Code.OK, ""), loss=loss, num_examples=rows, metrics={}))
        for index, (loss, rows) in enumerate([(1.0, 10), (2.0, 1000)])
    ]
    assert strategy([]).aggregate_evaluate(1, answers, []) == (1.5, {})
    unable = EvaluateRes(
        status=Status(Code.OK, ""), loss=float("nan"), num_examples=0, metrics={"cause": "raised", "reason": "cut"}
    )
    assert strategy([]).aggregate_evaluate(1, [*answers, (Loopback("2"), unable)], []) == (1.5, {})
    assert strategy([]).aggregate_evaluate(1, [], []) == (None, {})
