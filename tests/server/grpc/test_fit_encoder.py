"""x and Q are serialised once a round, and every client gets the message that it would have got anyway."""

from __future__ import annotations

import numpy as np
from flwr.common import FitIns, ndarrays_to_parameters, serde
from flwr.proto.transport_pb2 import ServerMessage

from zofedht.server.grpc.fit_encoder import FitEncoder


def plain(ins: FitIns) -> ServerMessage:
    return ServerMessage(fit_ins=serde.fit_ins_to_proto(ins))


def test_shared_and_plain_messages_are_equal():
    encoder = FitEncoder()
    for round_ in range(3):
        parameters = ndarrays_to_parameters([np.arange(5.0) + round_])
        basis = bytes([round_]) * 80
        for slot in range(4):
            config = {"slot": slot, "client": f"c{slot}", "loss": 0.5, "flag": slot > 1}
            with_basis = FitIns(parameters, config | {"basis": basis}) if slot % 2 else FitIns(parameters, config)
            assert ServerMessage.FromString(encoder.encode(with_basis)) == plain(with_basis)


def test_x_and_q_are_serialised_once_for_all_clients(monkeypatch):
    heavy = []
    to_proto = serde.fit_ins_to_proto

    def counted(ins: FitIns):
        if ins.parameters.tensors or "basis" in ins.config:
            heavy.append(ins)
        return to_proto(ins)

    monkeypatch.setattr(serde, "fit_ins_to_proto", counted)
    encoder = FitEncoder()
    parameters, basis = ndarrays_to_parameters([np.arange(5.0)]), b"q" * 80
    for slot in range(50):
        encoder.encode(FitIns(parameters, {"slot": slot, "basis": basis}))
    assert len(heavy) == 2
