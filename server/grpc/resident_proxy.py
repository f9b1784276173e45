"""A joined client, as Flower's ClientProxy over its conversation."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

from flwr.common import (
    Code,
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
    Status,
    serde,
)
from flwr.proto.transport_pb2 import ClientMessage, ServerMessage

from zofedht.common.errors import MessageError
from zofedht.common.wire.clients import Hello, Member
from zofedht.common.wire.start import decode_start, decode_tensors
from zofedht.server.delivery.traffic import Meter
from zofedht.server.flower.proxies import PromptProxy
from zofedht.server.grpc.conversation import Conversation
from zofedht.server.grpc.fit_encoder import FitEncoder

__all__ = ["ResidentProxy"]


class ResidentProxy(PromptProxy):
    """A joined client: Flower's messages over its conversation."""

    def __init__(self, hello: Hello, conversation: Conversation, encoder: FitEncoder, meter: Meter) -> None:
        # The cid names the connection: a new connection is a new process without bases.
        super().__init__(f"{hello.name}@{hello.instance}")
        self.hello = hello
        self.serial = ""  # number of its certificate, where it has one
        self.shard_index = hello.shard_index
        self.member: Member | None = None  # made when it is first drawn from, and anew when it is dealt a shard
        self.conversation = conversation
        self._encoder = encoder
        self._meter = meter

    def fit_later(self, ins: FitIns, timeout: float) -> Future[FitRes]:
        return self.conversation.begin(self._encoder.encode(ins), _bounded(timeout), self._meter, _fit_res)

    def fit(self, ins: FitIns, timeout: float | None, group_id: int | None) -> FitRes:
        return self.fit_later(ins, _bounded(timeout)).result()

    def evaluate_later(self, ins: EvaluateIns, timeout: float) -> Future[EvaluateRes]:
        message = ServerMessage(evaluate_ins=serde.evaluate_ins_to_proto(ins)).SerializeToString()
        return self.conversation.begin(message, _bounded(timeout), read=_evaluate_res)

    def evaluate(self, ins: EvaluateIns, timeout: float | None, group_id: int | None) -> EvaluateRes:
        return self.evaluate_later(ins, _bounded(timeout)).result()

    def get_parameters(self, ins: GetParametersIns, timeout: float | None, group_id: int | None) -> GetParametersRes:
        result: GetParametersRes = self._ask("get_parameters", ins, timeout)
        if self.hello.tensors:
            if decode_tensors(result.parameters.tensors).text() != self.hello.tensors:
                raise MessageError("its parameters in place must be those of its introduction")
        else:
            decode_start(result.parameters.tensors, self.hello.dimension)
        return result

    def get_properties(self, ins: GetPropertiesIns, timeout: float | None, group_id: int | None) -> GetPropertiesRes:
        result: GetPropertiesRes = self._ask("get_properties", ins, timeout)
        return result

    def reconnect(self, ins: ReconnectIns, timeout: float | None, group_id: int | None) -> DisconnectRes:
        result: DisconnectRes = self._ask("reconnect", ins, timeout, answer="disconnect")
        return result

    def _ask(self, verb: str, ins: Any, timeout: float | None, answer: str = "") -> Any:
        message = ServerMessage(**{f"{verb}_ins": getattr(serde, f"{verb}_ins_to_proto")(ins)})
        answered = self.conversation.ask(message.SerializeToString(), _bounded(timeout))
        name = f"{answer or verb}_res"
        return getattr(serde, f"{name}_from_proto")(getattr(answered, name))


def _fit_res(message: ClientMessage) -> FitRes:
    """Return what Flower's reader does, whose look-ups of the status code take a third of its time."""
    told = message.fit_res
    status = Status(Code(told.status.code), told.status.message)
    parameters, metrics = serde.parameters_from_proto(told.parameters), serde.metrics_from_proto(told.metrics)
    return FitRes(status, parameters, told.num_examples, metrics)


def _evaluate_res(message: ClientMessage) -> EvaluateRes:
    return serde.evaluate_res_from_proto(message.evaluate_res)


def _bounded(timeout: float | None) -> float:
    return 300.0 if timeout is None else max(timeout, 0.01)
