"""Clients that misbehave on purpose, over the real transport. Run by ``tests.server.grpc.processes.Site.evil``.

main([deed, address, name, I/N, mark file, amount])
"""

from __future__ import annotations

import io
import json
import os
import pickle
import sys
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import numpy as np
from flwr.client import Client
from flwr.common import (
    EvaluateIns,
    EvaluateRes,
    FitIns,
    FitRes,
    GetParametersIns,
    GetParametersRes,
    GetPropertiesIns,
    GetPropertiesRes,
    Parameters,
    ndarrays_to_parameters,
    parameters_to_ndarrays,
)
from flwr.proto.transport_pb2 import ClientMessage

from tests.waiting import until
from zofedht.client.join import patience
from zofedht.client.join.connection import Connection
from zofedht.client.join.resident import JoinOptions, ResidentClient
from zofedht.client.join.transport import stay_joined
from zofedht.common.errors import ZofedhtError
from zofedht.common.privacy.masking import pack_parts, read_parts
from zofedht.common.terminal.logs import shown
from zofedht.common.wire.pieces import Assembly


class Evil(Client):
    """An honest client whose answers are changed on the way out."""

    def __init__(self, deed: str, honest: Client, mark: Path, amount: float) -> None:
        self._deed = deed
        self._honest = honest
        self._mark = mark
        self._amount = amount

    def get_properties(self, ins: GetPropertiesIns) -> GetPropertiesRes:
        result = self._honest.get_properties(ins)
        changes = {
            "other-n": {"dimension": 7},
            "vast-n": {"dimension": 2**31 - 1},
            "many-shares": {"shard-index": 0, "shard-count": 10**6},
            "too-many-shares": {"shard-index": 0, "shard-count": 10**7},
            "other-count": {"shard-index": 0, "shard-count": 7},
            "other-draws": {"draw-digest": "0" * 16},
            "other-protocol": {"protocol": 99},
            "ill-typed": {"name": 5},
        }
        result.properties |= changes.get(self._deed, {})
        if self._deed == "nameless":
            del result.properties["name"]
        return result

    def get_parameters(self, ins: GetParametersIns) -> GetParametersRes:
        result = self._honest.get_parameters(ins)
        starts = {"nan-start": [np.full(4, np.nan)], "other-start": [np.zeros(5)], "no-start": []}
        if self._deed in starts:
            self._mark.touch()
            result.parameters = ndarrays_to_parameters(starts[self._deed])
        return result

    def evaluate(self, ins: EvaluateIns) -> EvaluateRes:
        result = self._answered(ins)
        if self._deed == "other-parameters" and isinstance(part := result.metrics.get("part"), bytes):
            result.metrics["part"] = bytes([part[0] ^ 1]) + part[1:]
        return result

    def _answered(self, ins: EvaluateIns) -> EvaluateRes:
        result = self._honest.evaluate(ins)
        if self._deed == "false-loss":
            result.metrics = {"loss": "none of your business"}
        return result

    def fit(self, ins: FitIns) -> FitRes:
        round_ = int(str(ins.config["round"]))
        if self._deed == f"gone-{ins.config.get('stage')}" and ins.config["round"] == 1:
            os._exit(0)
        if self._deed == "garbage-shares":
            result = self._honest.fit(ins)
            if ins.config.get("stage") == "shares":
                told = result.metrics["payload"]
                assert isinstance(told, bytes)
                sealed = read_parts(told, sealed=dict)["sealed"]
                result.metrics["payload"] = pack_parts(sealed=dict.fromkeys(sealed, b"garbage"))
            return result
        if self._deed == "counting":
            return self._honest.fit(ins)
        if self._deed == "paced":
            time.sleep(self._amount)
            return self._honest.fit(ins)
        if self._deed == "other-directions":
            changed = FitIns(ins.parameters, ins.config | {"seed": int(str(ins.config["seed"])) + 1})
            return self._honest.fit(changed)
        if round_ < 2:  # first it is good, so that all of its ways are known to work
            return self._honest.fit(ins)
        self._mark.write_text(str(round_))
        if self._deed == "hang":
            time.sleep(3600)
        if self._deed == "slow":
            until(lambda: not self._mark.parent.exists() or self._mark.with_suffix(".go").exists(), "leave to go on")
        result = self._honest.fit(ins)
        self._spoil(result)
        return result

    def _spoil(self, result: FitRes) -> None:
        [move] = parameters_to_ndarrays(result.parameters) or [np.zeros(1)]
        match self._deed:
            case "nan":
                move[0] = np.nan
            case "shape":
                move = np.zeros(move.size + 1)
            case "matrix":
                move = np.zeros((move.size, 1))
            case "single":
                move = move.astype(np.float32)
            case "wrong-round":
                result.metrics["round"] = 10**6
            case "for-another":
                result.metrics |= {"slot": int(str(result.metrics["slot"])) + 1, "client": "c0"}
            case "no-metrics":
                result.metrics = {}
            case "huge":
                move = np.zeros(int(self._amount) // 8)
        result.parameters = ndarrays_to_parameters([move])
        match self._deed:
            case "junk":
                result.parameters = Parameters([b"\x00\xff" * 300], "numpy.ndarray")
            case "pickle":
                result.parameters = Parameters([pickle.dumps({"os": "system"})], "numpy.ndarray")
            case "object":
                file = io.BytesIO()
                np.save(file, np.array([{}, []], dtype=object), allow_pickle=True)
                result.parameters = Parameters([file.getvalue()], "numpy.ndarray")
            case "claims":
                file = io.BytesIO()
                np.save(file, np.zeros(8))
                claimed = file.getvalue().replace(b"(8,), }" + b" " * 12, b"(9999999999999,), }")
                result.parameters = Parameters([claimed], "numpy.ndarray")


@dataclass(frozen=True)
class Counting(Connection):
    """A line that counts the bytes of the rounds' messages, each with gRPC's five bytes before it, in a file."""

    file: Path = Path()

    def channel(self) -> Any:
        return _CountingChannel(super().channel(), self.file)


class _CountingChannel:
    def __init__(self, channel: grpc.Channel, file: Path) -> None:
        self._channel = channel
        self._file = file
        self._bytes = {"fit_ins": 0, "fit_res": 0}

    def __enter__(self) -> _CountingChannel:
        return self

    def __exit__(self, *_: object) -> None:
        self._channel.close()

    def stream_stream(self, method: str, response_deserializer: Any) -> Any:
        assembly, pieces = Assembly(lambda: 2**30), []

        def serialize(piece: bytes) -> bytes:
            pieces.append(piece)
            data = assembly.take(piece)
            if data is not None:
                self._count(ClientMessage.FromString(data), *map(len, pieces))
                pieces.clear()
            return piece

        def deserialize(data: bytes) -> Any:
            message = response_deserializer(data)
            self._count(message, len(data))
            return message

        return self._channel.stream_stream(method, request_serializer=serialize, response_deserializer=deserialize)

    def _count(self, message: Any, *sizes: int) -> None:
        kind = message.WhichOneof("msg")
        if kind in self._bytes:
            self._bytes[kind] += sum(size + 5 for size in sizes)
            self._file.write_text(json.dumps(self._bytes))


def main(argv: Sequence[str]) -> int:
    """Join and misbehave; exit as the honest command does."""
    deed, address, name, share, mark, amount = argv
    if share.startswith("data:"):
        options = JoinOptions(name, uuid.uuid4().hex, data=share.removeprefix("data:"))
    elif share.startswith("box:"):
        options = JoinOptions(name, uuid.uuid4().hex, objective=share.removeprefix("box:"))
    else:
        index, _, count = share.partition("/")
        options = JoinOptions(name, uuid.uuid4().hex, int(index), int(count))
    if deed == "hasty":
        patience._SAME_NAME_PATIENCE = float(amount)
    honest = ResidentClient(options, _say).to_client()
    evil = Evil(deed, honest, Path(mark), float(amount))
    line = Counting(address, None, file=Path(mark)) if deed == "counting" else Connection(address, None)
    try:
        with shown():
            stay_joined(line, evil, report=_say, connected=lambda up: _say("joined") if up else None)
    except ZofedhtError as error:
        _say(f"error: {error}")
        return 2
    _say("the run is over")
    return 0


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
