"""The bytes of an engine without a wire are those of the protobuf that Flower would send."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from flwr.common import Code, FitIns, FitRes, Status, serde
from flwr.common import ndarrays_to_parameters as pack

from tests.common.samples import orthonormal
from tests.helpers import broadcast, changed, reply
from zofedht.common.wire.arrays import basis_digest
from zofedht.common.wire.codec import encode
from zofedht.common.wire.message_size import broadcast_bytes, update_bytes
from zofedht.common.wire.messages import Broadcast, TrailStep, Update

TRAIL = {
    "x": np.empty(0), "size": 3000, "x_digest": "ab" * 16, "memory": 5,
    "trail": (TrailStep(0.3, 1.0, 1.0, 5, np.ones(50)),) * 3, "local_steps": 50,
}  # fmt: skip


def sent(message: Broadcast) -> int:
    arrays, config = encode(message)
    return serde.fit_ins_to_proto(FitIns(pack(arrays), config)).ByteSize()


def answered(message: Update) -> int:
    arrays, metrics = encode(message)
    result = FitRes(Status(Code.OK, "Success"), pack(arrays), message.examples, metrics)
    return serde.fit_res_to_proto(result).ByteSize()


@pytest.mark.parametrize("dimension", [3, 10, 16, 100, 3000])
@pytest.mark.parametrize("rank", [None, 0, 3])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"seed": 2**63 - 1, "client": "plant-ü", "task": "x" * 300},
        {"uplink": "slopes", "slot": 4},
        TRAIL,
        {"dtype": "float32"},
    ],
)
def test_a_broadcast_is_as_long_as_its_fit_ins(dimension: int, rank: int | None, changes: dict[str, Any]):
    message = changed(broadcast(dimension=dimension), **changes)
    if rank is not None:
        basis = orthonormal(dimension, rank)
        message = replace(message, basis_version=2, basis_rank=rank, basis_digest=basis_digest(basis), basis=basis)
    assert broadcast_bytes(message) == sent(message)


@pytest.mark.parametrize("size", [1, 10, 17, 100, 3000])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"examples": 0, "evaluations": 10**9, "loss": float("nan"), "round": 70_000},
        {"status": "failed", "reason": "kaputt: ü" * 40, "move": None},
        {"dtype": "float32"},
        {"move": None, "slopes": np.arange(50.0), "sketch": np.arange(4.0)},
    ],
)
def test_an_update_is_as_long_as_its_fit_res(size: int, changes: dict[str, Any]):
    update = reply(broadcast(), **({"move": np.arange(float(size))} | changes))
    assert update_bytes(update) == answered(update)


def test_only_flowers_scalars_have_a_length():
    with pytest.raises(TypeError, match="a scalar must be a bool, a number, a text or bytes, got list"):
        broadcast_bytes(broadcast(task=[1]))
