"""Parameters in place over Flower's nodes: the bits of a run in process, whatever a node's process keeps."""

from __future__ import annotations

from typing import Any

import pytest

from tests.server.flower.loopback import Loopback, fit, nodes
from tests.server.test_in_place import NAMED
from zofedht.client.flower.numpy_client import ZofedhtClient
from zofedht.client.steps.worker import BasisStore
from zofedht.client.tensors.worker import PlaceWorker
from zofedht.common.config.run_config import RunConfig
from zofedht.common.shards import in_place_maker, objective_of
from zofedht.server.inprocess import run_in_process

OTHER_LAWS: list[dict[str, Any]] = [
    {"algorithm": "fedkseed", "pool-size": 6},
    {"algorithm": "meerkat", "refresh": 2, "directions": "per-slot"},
    {"algorithm": "subzero", "refresh": 3},
    {"algorithm": "zofedht", "memory": 2, "step-size": 0.01},
]


class Keeping(Loopback):
    """A node whose process lives on, and keeps what it works on."""

    place: PlaceWorker | None = None

    def _place_of(self, task: str) -> PlaceWorker:
        if self.place is None:
            make = in_place_maker(RunConfig.of_task(task))
            self.place = PlaceWorker(lambda question: make(question.shard_index))
        return self.place

    def _client(self) -> Any:
        objective = lambda question: objective_of(question.task, question.shard_index)  # noqa: E731
        return ZofedhtClient(objective, BasisStore(), place_of=self._place_of).to_client()


class Fresh(Keeping):
    """A node that starts a process for each message."""

    def _client(self) -> Any:
        self.place = None
        return super()._client()


@pytest.mark.parametrize("kind", [Keeping, Fresh])
@pytest.mark.parametrize("keys", [{}, {"algorithm": "decomfl", "probe": "gaussian", "step-size": 0.01}, *OTHER_LAWS])
def test_a_run_over_nodes_equals_that_in_process(kind: type[Loopback], keys: dict[str, Any]):
    config = RunConfig.from_mapping(NAMED | keys)
    there, here = fit(config, nodes(2, kind=kind)).state, run_in_process(config).state
    assert there.tensors == here.tensors
    assert there.tensors is not None
    assert there.tensors.present_round == config.rounds
    assert there.start is not None
    assert here.start is not None
    assert there.start.losses.tolist() == here.start.losses.tolist()


def test_a_slot_is_sent_the_trail_and_nothing_longer():
    config = RunConfig.from_mapping(NAMED)
    proxies = nodes(2, kind=Keeping)
    fit(config, proxies)
    longest = max(len(tensor) for node in proxies for ins in node.fits for tensor in ins.parameters.tensors)
    assert longest < 8 * config.rounds * config.local_steps + 200  # bytes, whatever n is
