"""Nodes without a network: a ClientProxy whose messages go through protobuf bytes and back."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable

from flwr.common import (
    DisconnectRes,
    EvaluateIns,
    EvaluateRes,
    FitIns,
    FitRes,
    GetParametersIns,
    GetParametersRes,
    GetPropertiesIns,
    GetPropertiesRes,
    ReconnectIns,
    serde,
)
from flwr.proto.transport_pb2 import ClientMessage, ServerMessage
from flwr.server.client_manager import SimpleClientManager
from flwr.server.client_proxy import ClientProxy

from zofedht.client.flower.numpy_client import ZofedhtClient
from zofedht.client.steps.worker import BasisStore
from zofedht.common.config.run_config import RunConfig
from zofedht.common.objective.base import Objective
from zofedht.common.shards import objective_of
from zofedht.common.wire.clients import Question
from zofedht.server.conduct import Result
from zofedht.server.flower.round_loop import FlowerRounds

__all__ = ["Loopback", "fit", "nodes"]

# One at a time, though the server asks in threads: Flower's NumPyClient reads arrays by ast.literal_eval, and CPython
# 3.11 counts how deep that is in one place for all threads (SystemError "AST constructor recursion depth mismatch",
# once in some hundred runs on a busy machine). Clients are processes of their own everywhere else.
_one_client = threading.Lock()


def _objective_of(question: Question) -> Objective:
    return objective_of(question.task, question.shard_index)


class Loopback(ClientProxy):
    """A node in this process. ``fits`` holds every FitIns that arrived; ``up`` and ``down`` count bytes of rounds."""

    def __init__(self, cid: str, bases: Callable[[], BasisStore] | None = None) -> None:
        super().__init__(cid)
        kept = BasisStore()
        self._bases = bases or (lambda: kept)
        self.fits: list[FitIns] = []
        self.up = self.down = 0

    def _client(self):
        return ZofedhtClient(_objective_of, self._bases()).to_client()

    def get_parameters(self, ins: GetParametersIns, timeout: float | None, group_id: int | None) -> GetParametersRes:
        sent = serde.get_parameters_ins_to_proto(ins).SerializeToString()
        arrived = serde.get_parameters_ins_from_proto(ServerMessage.GetParametersIns.FromString(sent))
        with _one_client:
            answer = serde.get_parameters_res_to_proto(self._client().get_parameters(arrived)).SerializeToString()
        return serde.get_parameters_res_from_proto(ClientMessage.GetParametersRes.FromString(answer))

    def fit(self, ins: FitIns, timeout: float | None, group_id: int | None) -> FitRes:
        sent = serde.fit_ins_to_proto(ins).SerializeToString()
        arrived = serde.fit_ins_from_proto(ServerMessage.FitIns.FromString(sent))
        self.fits.append(arrived)
        with _one_client:
            answer = serde.fit_res_to_proto(self._client().fit(arrived)).SerializeToString()
        self.up, self.down = self.up + len(answer), self.down + len(sent)
        return serde.fit_res_from_proto(ClientMessage.FitRes.FromString(answer))

    def evaluate(self, ins: EvaluateIns, timeout: float | None, group_id: int | None) -> EvaluateRes:
        sent = serde.evaluate_ins_to_proto(ins).SerializeToString()
        arrived = serde.evaluate_ins_from_proto(ServerMessage.EvaluateIns.FromString(sent))
        with _one_client:
            answer = serde.evaluate_res_to_proto(self._client().evaluate(arrived)).SerializeToString()
        return serde.evaluate_res_from_proto(ClientMessage.EvaluateRes.FromString(answer))

    def get_properties(self, ins: GetPropertiesIns, timeout: float | None, group_id: int | None) -> GetPropertiesRes:
        raise NotImplementedError

    def reconnect(self, ins: ReconnectIns, timeout: float | None, group_id: int | None) -> DisconnectRes:
        raise NotImplementedError


def nodes(count: int, seed: int = 0, kind: type[Loopback] = Loopback) -> list[Loopback]:
    """Return nodes with ids as arbitrary as Flower's."""
    draw = random.Random(seed)
    return [kind(str(draw.getrandbits(63))) for _ in range(count)]


def manager(proxies: list[Loopback]) -> SimpleClientManager:
    """Return a ClientManager that the nodes have joined in this order."""
    joined = SimpleClientManager()
    for proxy in proxies:
        joined.register(proxy)
    return joined


def fit(config: RunConfig, proxies: list[Loopback], **extras: object) -> Result:
    """Run a config over the nodes, as Flower would call it."""
    results: list[Result] = []
    server = FlowerRounds(
        config,
        manager(proxies),
        on_result=results.append,
        show_progress=False,
        **extras,  # type: ignore[arg-type]
    )
    server.fit(num_rounds=config.rounds, timeout=None)
    return results[0]
