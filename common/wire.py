"""Broadcast and Update to and from arrays and scalars: the only place that knows the key names.

A message is a list of float64 arrays and a mapping of scalars (bool, bytes, float, int, str), which
is what Flower's FitIns and FitRes carry. Q goes as little-endian float64 bytes, row by row. Shapes are
checked against the number of bytes before anything is allocated, and no pickle is ever read.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, cast

import numpy as np

from common.errors import MessageError
from common.kernels import KERNELS
from common.messages import NO_BASIS, ON_ERROR, OWN_ROWS, Broadcast, Hello, Question, Status, Update
from common.noise import GENERATORS
from common.probes import PROBES
from common.slopes import SLOPES
from common.typing import Matrix, Vector

__all__ = [
    "Config",
    "broadcast_bytes",
    "decode_broadcast",
    "decode_figures",
    "decode_hello",
    "decode_question",
    "decode_update",
    "encode_basis",
    "encode_broadcast",
    "encode_hello",
    "encode_question",
    "encode_update",
    "update_bytes",
]

Config = dict[str, bool | bytes | float | int | str]
"""Flower's scalar mapping."""

_ARRAY_OVERHEAD = 128
"""Bytes of the .npy header in front of each array."""

_STATUSES: tuple[Status, ...] = ("ok", "basis-missing", "failed", "stopped")


def encode_broadcast(message: Broadcast) -> tuple[list[Vector], Config]:
    """Return ([x], config); the basis is in the config only where the message has one."""
    config: Config = {
        "round": message.round,
        "slot": message.slot,
        "client": message.client,
        "partition": message.partition,
        "seed": message.seed,
        "step-size": message.step_size,
        "radius": message.radius,
        "local-steps": message.local_steps,
        "batch-size": message.batch_size,
        "slope": message.slope,
        "probe": message.probe,
        "generator": message.generator,
        "kernel": message.kernel,
        "weight": message.weight,
        "gain": message.gain,
        "basis-version": message.version,
        "task": message.task,
    }
    if message.needs_basis:
        config |= {"basis-digest": message.digest, "basis-rank": message.rank}
    if message.on_error != "drop-slot":
        config["on-error"] = message.on_error
    if message.units:
        config["units"] = message.units
    if message.basis is not None:
        config["basis"] = encode_basis(message.basis)
    return [message.x], config


def encode_basis(basis: Matrix) -> bytes:
    """Return Q as little-endian float64 bytes, row by row."""
    return np.ascontiguousarray(basis, dtype="<f8").tobytes()


def decode_broadcast(arrays: Sequence[Any], config: Mapping[str, Any]) -> Broadcast:
    """Read a Broadcast back.

    Raises MessageError when a key is missing or ill-typed, a name is unknown, or when x or the basis has a wrong size.
    """
    x = _vector(arrays, "x")
    read = _Reader(config)
    version = read.integer("basis-version")
    has_basis = version != NO_BASIS
    rank = read.integer("basis-rank", least=0) if has_basis else 0
    return Broadcast(
        round=read.integer("round", least=0),
        slot=read.integer("slot", least=0),
        client=read.text("client"),
        partition=read.integer("partition", least=OWN_ROWS),
        x=x,
        seed=read.integer("seed", least=0),
        step_size=read.number("step-size"),
        radius=read.number("radius"),
        local_steps=read.integer("local-steps", least=1),
        batch_size=read.integer("batch-size", least=0),
        slope=read.choice("slope", SLOPES),
        probe=read.choice("probe", PROBES),
        generator=read.choice("generator", GENERATORS),
        kernel=read.choice("kernel", KERNELS),
        weight=read.number("weight"),
        gain=read.number("gain"),
        version=version,
        digest=read.text("basis-digest") if has_basis else "",
        rank=rank,
        basis=_basis(config["basis"], x.shape[0], rank) if "basis" in config else None,
        task=read.text("task"),
        on_error=read.choice("on-error", ON_ERROR) if "on-error" in config else "drop-slot",
        units=read.text("units") if "units" in config else "",
    )


def encode_update(message: Update) -> tuple[list[Vector], int, Config]:
    """Return ([move] or [], examples, metrics)."""
    metrics: Config = {
        "round": message.round,
        "slot": message.slot,
        "client": message.client,
        "status": message.status,
        "reason": message.reason,
        "evaluations": message.evaluations,
        "loss": message.loss,
    }
    if message.skipped:
        metrics["skipped"] = message.skipped
    return ([] if message.move is None else [message.move]), message.examples, metrics


def decode_update(arrays: Sequence[Any], examples: int, metrics: Mapping[str, Any]) -> Update:
    """Read an Update back; whether its numbers can be used is for ``aggregation.screen`` to say.

    Raises MessageError when a key is missing or ill-typed, a name is unknown, or when the move is not a float64 vector.
    """
    read = _Reader(metrics)
    status = cast(Status, read.choice("status", _STATUSES))
    return Update(
        round=read.integer("round", least=0),
        slot=read.integer("slot", least=0),
        client=read.text("client"),
        status=status,
        reason=read.text("reason"),
        move=_vector(arrays, "move") if status == "ok" else None,
        examples=examples,
        evaluations=read.integer("evaluations", least=0),
        loss=read.number("loss"),
        skipped=read.integer("skipped", least=0) if "skipped" in metrics else 0,
    )


def encode_question(question: Question) -> Config:
    """Return the config of a Question."""
    return {key: getattr(question, key) for key in ("client", "partition", "seed", "task", "dimension")}


def decode_question(config: Mapping[str, Any]) -> Question:
    """Read a Question back. Raises MessageError when a key is missing or ill-typed."""
    read = _Reader(config)
    return Question(
        client=read.text("client"),
        partition=read.integer("partition", least=OWN_ROWS),
        seed=read.integer("seed", least=0),
        task=read.text("task"),
        dimension=read.integer("dimension", least=0),
    )


def encode_hello(hello: Hello) -> Config:
    """Return the properties of a Hello."""
    return asdict(hello)


def decode_hello(properties: Mapping[str, Any]) -> Hello:
    """Read a Hello back. Raises MessageError when a key is missing or ill-typed."""
    read = _Reader(properties)
    return Hello(
        name=read.text("name"),
        instance=read.text("instance"),
        source=read.choice("source", ("partition", "data", "objective")),
        partition=read.integer("partition", least=OWN_ROWS),
        partitions=read.integer("partitions", least=0),
        examples=read.integer("examples", least=0),
        dimension=read.integer("dimension", least=0),
        protocol=read.integer("protocol"),
        version=read.text("version"),
        generator=read.text("generator"),
    )


def decode_figures(metrics: Mapping[str, Any]) -> dict[str, float]:
    """Read the figures of an evaluation. Raises MessageError unless all are numbers and ``loss`` is among them."""
    read = _Reader(metrics)
    return {"loss": read.number("loss")} | {key: read.number(key) for key in metrics}


def broadcast_bytes(message: Broadcast) -> int:
    """Return the size of a Broadcast on the wire, without the transport's own framing."""
    # The basis is counted, not copied: an in-process run counts thousands of messages.
    basis = 0 if message.basis is None else message.basis.nbytes + len("basis")
    return _payload_bytes(*encode_broadcast(replace(message, basis=None))) + basis


def update_bytes(message: Update) -> int:
    """Return the size of an Update on the wire, without the transport's own framing."""
    arrays, _, metrics = encode_update(message)
    return _payload_bytes(arrays, metrics)


def _payload_bytes(arrays: Sequence[Vector], config: Mapping[str, Any]) -> int:
    """Arrays with their headers, keys, texts, and 8 for a number."""
    total = sum(array.nbytes + _ARRAY_OVERHEAD for array in arrays)
    for key, value in config.items():
        total += len(key) + (
            len(value) if isinstance(value, bytes) else len(value.encode()) if isinstance(value, str) else 8
        )
    return total


class _Reader:
    """Typed access to a scalar mapping; every complaint names key and value."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._config = config

    def _get(self, key: str) -> Any:
        if key not in self._config:
            raise MessageError(f"the message has no {key!r}; server and client may be of different versions")
        return self._config[key]

    def integer(self, key: str, least: int | None = None) -> int:
        value = self._get(key)
        if isinstance(value, bool) or not isinstance(value, int) or (least is not None and value < least):
            bound = "" if least is None else f" of at least {least}"
            raise MessageError(f"{key} must be a whole number{bound}, got {value!r}")
        return value

    def number(self, key: str) -> float:
        value = self._get(key)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise MessageError(f"{key} must be a number, got {value!r}")
        return float(value)

    def text(self, key: str) -> str:
        value = self._get(key)
        if not isinstance(value, str):
            raise MessageError(f"{key} must be a text, got {value!r}")
        return value

    def choice(self, key: str, choices: Collection[str]) -> str:
        value = self.text(key)
        if value not in choices:
            raise MessageError(f"{key} must be one of {', '.join(choices)}, got {value!r}")
        return value


def _vector(arrays: Sequence[Any], what: str) -> Vector:
    if len(arrays) != 1:
        raise MessageError(f"the message must hold one array, {what}, got {len(arrays)}")
    array = arrays[0]
    if not isinstance(array, np.ndarray) or array.dtype != np.float64 or array.ndim != 1:
        kind = f"{array.dtype} {array.shape}" if isinstance(array, np.ndarray) else type(array).__name__
        raise MessageError(f"{what} must be a float64 vector, got {kind}")
    return array


def _basis(data: Any, dimension: int, rank: int) -> Matrix:
    expected = 8 * dimension * rank
    if not isinstance(data, bytes) or len(data) != expected:
        got = f"{len(data)} bytes" if isinstance(data, bytes) else type(data).__name__
        raise MessageError(f"the basis must hold {dimension} x {rank} float64 numbers = {expected} bytes, got {got}")
    return np.frombuffer(data, dtype="<f8").reshape(dimension, rank).astype(np.float64, copy=False)
