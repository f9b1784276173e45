"""Broadcast and Update to and from arrays and scalars: the only place that knows the key names.

A message is a list of arrays and a mapping of scalars (bool, bytes, float, int, str), which
is what Flower's FitIns and FitRes carry. Q goes as little-endian float64 bytes, row by row. Shapes are
checked against the number of bytes before anything is allocated, and no pickle is ever read.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, cast

import numpy as np

from zofedht.common.choices import KERNELS, ON_ERROR, PROBES, SLOPES, UPLINKS, WIRE_DTYPES
from zofedht.common.errors import CAUSES, Cause, MessageError, ObjectiveError
from zofedht.common.objective.agreement import DIGEST_BYTES
from zofedht.common.typing import Matrix, Vector
from zofedht.common.wire.message_size import fit_ins_size, fit_res_size
from zofedht.common.wire.messages import (
    NO_BASIS,
    OWN_ROWS,
    Broadcast,
    Hello,
    Question,
    Status,
    TrailStep,
    Update,
)

__all__ = [
    "Config",
    "broadcast_bytes",
    "check_figures",
    "decode_broadcast",
    "decode_figures",
    "decode_hello",
    "decode_question",
    "decode_update",
    "encode_basis",
    "encode_broadcast",
    "encode_hello",
    "encode_no_figures",
    "encode_question",
    "encode_update",
    "trail_step_bytes",
    "update_bytes",
]

Config = dict[str, bool | bytes | float | int | str]
"""Flower's scalar mapping."""

_TRAIL_STEP = struct.Struct("<ddq")  # weight, gain, version; the lengths follow

_STATUSES: tuple[Status, ...] = ("ok", "basis-missing", "x-missing", "failed", "stopped")


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
        "kernel": message.kernel,
        "weight": message.weight,
        "gain": message.gain,
        "basis-version": message.version,
        "task": message.task,
        "uplink": message.uplink,
    }
    if message.direction_slot is not None:
        config["direction-slot"] = message.direction_slot
    if message.dtype != "float64":
        config["dtype"] = message.dtype
    if message.x_digest:
        config |= {"x-digest": message.x_digest, "memory": message.memory}
    if message.trail is not None:
        steps = b"".join(_trail_step(step) for step in message.trail)
        config |= {"dimension": message.size, "trail-rounds": len(message.trail), "trail": steps}
    if message.needs_basis:
        config |= {"basis-digest": message.digest, "basis-rank": message.rank}
    if message.on_error != "drop-slot":
        config["on-error"] = message.on_error
    if message.units:
        config["units"] = message.units
    if message.basis is not None:
        config["basis"] = encode_basis(message.basis, message.dtype)
    return [] if message.trail is not None else [_narrowed(message.x, message.dtype)], config


def trail_step_bytes(steps: int) -> int:
    """Return the bytes of one round of a trail with so many local steps."""
    return _TRAIL_STEP.size + 8 * steps


def _read_trail_step(data: bytes) -> TrailStep:
    weight, gain, version = _TRAIL_STEP.unpack_from(data)
    lengths = np.frombuffer(data, dtype="<f8", offset=_TRAIL_STEP.size).astype(np.float64)
    return TrailStep(weight, gain, version, lengths)


def _trail_step(step: TrailStep) -> bytes:
    return _TRAIL_STEP.pack(step.weight, step.gain, step.version) + _to_bytes(step.lengths)


def encode_basis(basis: Matrix, dtype: str = "float64") -> bytes:
    """Return Q as little-endian bytes, row by row."""
    return _to_bytes(basis, dtype)


def _narrowed(array: Vector, dtype: str) -> Vector:
    """Return an array of this type, which holds the numbers already."""
    return array.astype(dtype, copy=False)


def _to_bytes(array: Matrix, dtype: str = "float64") -> bytes:
    return np.ascontiguousarray(array, dtype=np.dtype(dtype).newbyteorder("<")).tobytes()


def decode_broadcast(arrays: Sequence[Any], config: Mapping[str, Any]) -> Broadcast:
    """Read a Broadcast back.

    Raises MessageError when a key is missing or ill-typed, a name is unknown, or when x or the basis has a wrong size.
    """
    read = _Reader(config)
    trail = read.trail() if "trail" in config else None
    dtype = read.dtype()
    x = _vector(arrays, "x", dtype) if trail is None else np.empty(0)
    dimension = x.shape[0] if trail is None else read.integer("dimension", least=1)
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
        kernel=read.choice("kernel", KERNELS),
        weight=read.number("weight"),
        gain=read.number("gain"),
        version=version,
        digest=read.text("basis-digest") if has_basis else "",
        rank=rank,
        basis=_basis(config["basis"], dimension, rank, dtype) if "basis" in config else None,
        task=read.text("task"),
        on_error=read.choice("on-error", ON_ERROR) if "on-error" in config else "drop-slot",
        units=read.text("units") if "units" in config else "",
        uplink=read.choice("uplink", UPLINKS),
        x_digest=read.text("x-digest") if "x-digest" in config else "",
        memory=read.integer("memory", least=0) if "memory" in config else 0,
        trail=trail,
        dtype=dtype,
        size=0 if trail is None else dimension,
        direction_slot=read.integer("direction-slot", least=0) if "direction-slot" in config else None,
    )


def encode_update(message: Update) -> tuple[list[Vector], int, Config]:
    """Return ([move] or [], examples, metrics); slopes are in the metrics, where a scalar costs no header."""
    metrics: Config = {
        "round": message.round,
        "slot": message.slot,
        "client": message.client,
        "status": message.status,
        "reason": message.reason,
        "evaluations": message.evaluations,
        "loss": message.loss,
        "start-loss": message.start_loss,
    }
    if message.skipped:
        metrics["skipped"] = message.skipped
    if message.cause is not None:
        metrics["cause"] = message.cause
    if message.step is not None:
        metrics["step"] = message.step
    if message.slopes is not None and message.sketch is not None:
        metrics |= {"slopes": _to_bytes(message.slopes), "sketch": _to_bytes(message.sketch)}
    if message.move is not None:
        metrics["draws"] = message.draws
    if message.dtype != "float64":
        metrics["dtype"] = message.dtype
    return ([] if message.move is None else [_narrowed(message.move, message.dtype)]), message.examples, metrics


def decode_update(arrays: Sequence[Any], examples: int, metrics: Mapping[str, Any]) -> Update:
    """Read an Update back; whether its numbers can be used is for ``aggregation.screen`` to say.

    Raises MessageError when a key is missing or ill-typed, a name is unknown, or when the move is not a float64 vector.
    """
    read = _Reader(metrics)
    status = cast(Status, read.choice("status", _STATUSES))
    has_slopes = status == "ok" and "slopes" in metrics
    has_move = status == "ok" and not has_slopes
    return Update(
        round=read.integer("round", least=0),
        slot=read.integer("slot", least=0),
        client=read.text("client"),
        status=status,
        reason=read.text("reason"),
        cause=read.cause(),
        step=read.integer("step", least=0) if "step" in metrics else None,
        move=_vector(arrays, "move", read.dtype()) if has_move else None,
        dtype=read.dtype(),
        draws=read.text("draws") if has_move else "",
        slopes=read.vector("slopes") if has_slopes else None,
        sketch=read.vector("sketch") if has_slopes else None,
        examples=examples,
        evaluations=read.integer("evaluations", least=0),
        loss=read.number("loss"),
        start_loss=read.number("start-loss"),
        skipped=read.integer("skipped", least=0) if "skipped" in metrics else 0,
    )


def encode_question(question: Question) -> Config:
    """Return the config of a Question."""
    config = {key: getattr(question, key) for key in ("client", "partition", "seed", "task", "dimension")}
    return config | ({"units": question.units} if question.units else {})


def decode_question(config: Mapping[str, Any]) -> Question:
    """Read a Question back. Raises MessageError when a key is missing or ill-typed."""
    read = _Reader(config)
    return Question(
        client=read.text("client"),
        partition=read.integer("partition", least=OWN_ROWS),
        seed=read.integer("seed", least=0),
        task=read.text("task"),
        dimension=read.integer("dimension", least=0),
        units=read.text("units") if "units" in config else "",
    )


def encode_hello(hello: Hello) -> Config:
    """Return the properties of a Hello."""
    return {key: value for key, value in asdict(hello).items() if key not in ("units", "names") or value}


def decode_hello(properties: Mapping[str, Any]) -> Hello:
    """Read a Hello back. Raises MessageError when a key is missing or ill-typed."""
    read = _Reader(properties)
    dimension = read.integer("dimension", least=0)
    return Hello(
        name=read.text("name"),
        instance=read.text("instance"),
        source=read.choice("source", ("partition", "data", "objective")),
        partition=read.integer("partition", least=OWN_ROWS),
        partitions=read.integer("partitions", least=0),
        examples=read.integer("examples", least=0),
        dimension=dimension,
        protocol=read.integer("protocol"),
        version=read.text("version"),
        draws=read.text("draws"),
        units=read.told_units("units", dimension) if "units" in properties else b"",
        names=read.text("names") if "names" in properties else "",
    )


def encode_no_figures(cause: Cause, reason: str) -> Config:
    """Return what is sent in the place of figures by a client that has none."""
    return {"cause": cause, "reason": reason}


def check_figures(metrics: Mapping[str, Any]) -> None:
    """Raise ObjectiveError with the client's cause and reason where these stand in the place of figures."""
    if isinstance(metrics.get("cause"), str):  # a figure may have any name
        read = _Reader(metrics)
        raise ObjectiveError(read.text("reason"), cause=read.cause())


def decode_figures(metrics: Mapping[str, Any]) -> dict[str, float]:
    """Read the figures of an evaluation.

    Raises ObjectiveError as ``check_figures``, MessageError unless all are numbers and ``loss`` is among them.
    """
    check_figures(metrics)
    read = _Reader(metrics)
    return {"loss": read.number("loss")} | {key: read.number(key) for key in metrics}


def broadcast_bytes(message: Broadcast) -> int:
    """Return the size of a Broadcast as Flower's FitIns, without making it."""
    # The basis is counted, not copied: an in-process run counts thousands of messages.
    arrays, config = encode_broadcast(replace(message, basis=None))
    if message.basis is None:
        return fit_ins_size(arrays, config)
    return fit_ins_size(arrays, config | {"basis": np.empty(message.basis.shape, message.dtype)})


def update_bytes(message: Update) -> int:
    """Return the size of an Update as Flower's FitRes, without making it."""
    return fit_res_size(*encode_update(message))


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

    def vector(self, key: str) -> Vector:
        value = self._get(key)
        if not isinstance(value, bytes) or len(value) % 8:
            got = f"{len(value)} bytes" if isinstance(value, bytes) else type(value).__name__
            raise MessageError(f"{key} must be the bytes of float64 numbers, got {got}")
        return np.frombuffer(value, dtype="<f8").astype(np.float64, copy=False)

    def told_units(self, key: str, dimension: int) -> bytes:
        value = self._get(key)
        if not isinstance(value, bytes) or len(value) not in (0, DIGEST_BYTES, 24 * dimension):
            got = f"{len(value)} bytes" if isinstance(value, bytes) else type(value).__name__
            raise MessageError(
                f"{key} must hold scale and both bounds of {dimension} parameters, or a digest, got {got}"
            )
        return value

    def cause(self) -> Cause | None:
        return cast(Cause, self.choice("cause", CAUSES)) if "cause" in self._config else None

    def dtype(self) -> str:
        return self.choice("dtype", WIRE_DTYPES) if "dtype" in self._config else "float64"

    def trail(self) -> tuple[TrailStep, ...]:
        value, rounds = self._get("trail"), self.integer("trail-rounds", least=0)
        size = trail_step_bytes(self.integer("local-steps", least=1))
        if not isinstance(value, bytes) or len(value) != size * rounds:
            got = f"{len(value)} bytes" if isinstance(value, bytes) else type(value).__name__
            raise MessageError(f"trail must hold {rounds} rounds of {size} bytes, got {got}")
        return tuple(_read_trail_step(value[at : at + size]) for at in range(0, len(value), size))

    def choice(self, key: str, choices: Collection[str]) -> str:
        value = self.text(key)
        if value not in choices:
            raise MessageError(f"{key} must be one of {', '.join(choices)}, got {value!r}")
        return value


def _vector(arrays: Sequence[Any], what: str, dtype: str) -> Vector:
    if len(arrays) != 1:
        raise MessageError(f"the message must hold one array, {what}, got {len(arrays)}")
    array = arrays[0]
    if not isinstance(array, np.ndarray) or array.dtype != dtype or array.ndim != 1:
        kind = f"{array.dtype} {array.shape}" if isinstance(array, np.ndarray) else type(array).__name__
        raise MessageError(f"{what} must be a {dtype} vector, got {kind}")
    return array.astype(np.float64, copy=False)


def _basis(data: Any, dimension: int, rank: int, dtype: str) -> Matrix:
    sent = np.dtype(dtype).newbyteorder("<")
    expected = sent.itemsize * dimension * rank
    if not isinstance(data, bytes) or len(data) != expected:
        got = f"{len(data)} bytes" if isinstance(data, bytes) else type(data).__name__
        raise MessageError(f"the basis must hold {dimension} x {rank} {dtype} numbers = {expected} bytes, got {got}")
    return np.frombuffer(data, dtype=sent).reshape(dimension, rank).astype(np.float64, copy=False)
