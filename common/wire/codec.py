"""Messages to arrays and Flower's scalars and back: the only place that reads what a peer has sent.

A message is a dataclass, and its fields say their keys, rules and layouts. It goes as a list of arrays and a mapping of
scalars (bool, bytes, float, int, str), which is what Flower's FitIns and FitRes carry. Arrays that are no parameters of
the model go as little-endian bytes, row by row. Shapes are checked against the number of bytes before anything is
allocated, and no pickle is ever read.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from zofedht.common.errors import CAUSES, Cause, MessageError, ObjectiveError
from zofedht.common.plain_text import MOST_TEXT, printable
from zofedht.common.typing import Vector
from zofedht.common.wire.arrays import numbers_of, packed
from zofedht.common.wire.clients import Hello
from zofedht.common.wire.fields import Field, constants_of, fields_of, made
from zofedht.common.wire.messages import Broadcast, Update

__all__ = [
    "MOST_METRICS",
    "STATE_DIGEST",
    "Config",
    "Encoded",
    "check_metrics",
    "decode",
    "decode_metrics",
    "decode_state_digest",
    "encode",
    "encode_no_metrics",
]

Config = dict[str, bool | bytes | float | int | str]
"""Flower's scalar mapping."""

_Message = TypeVar("_Message")

_WANTED = {bool: "true or false", int: "a whole number", float: "a number", str: "a text", bytes: "bytes"}
_MOST_BITS = 64
MOST_METRICS = 32
"""Metrics of an evaluation."""

STATE_DIGEST = "state-digest"
"""Under this name the metrics hold the digest of parameters in place."""

_MOST_SHOWN = 80  # characters of a value


class Encoded(NamedTuple):
    """A message as Flower carries it."""

    arrays: list[Vector]
    scalars: Config


def encode(message: Any) -> Encoded:
    """Return the arrays and the scalars of a message; what equals its default is left out."""
    encoded = Encoded([], {})
    _encode(message, encoded)
    return encoded


def _encode(message: Any, encoded: Encoded) -> None:
    values = message.__dict__
    kind: Any = type(message)
    for field in fields_of(kind):
        value = values[field.name]
        if value is field.constant and not field.required:
            continue
        if field.layout == "scalar":
            if field.required or value != field.default():
                encoded.scalars[field.key] = value
        elif field.layout == "nested":
            # All slots of a round have one spec: it is read once.
            latest, scalars = _LATEST[0]
            if latest is not value:
                nested = Encoded([], {})
                _encode(value, nested)
                scalars = nested.scalars
                if len(scalars) > _FEW:
                    _LATEST[0] = value, scalars
            encoded.scalars.update(scalars)
        elif value is not None and field.layout != "apart":
            dtype = field.dtype or values.get("dtype", "float64")
            if field.layout == "packed":
                encoded.scalars[field.key] = packed(numbers_of(value), dtype)
            elif value.size:
                encoded.arrays.append(value.astype(dtype, copy=False))


_FEW = 4  # scalars of an address
_LATEST: list[tuple[Any, Config]] = [(None, {})]
"""The latest spec that was encoded, and its scalars; one assignment, so that threads see both or neither."""


def decode(kind: type[_Message], scalars: Mapping[str, Any], arrays: Sequence[Any] = (), **apart: Any) -> _Message:
    """Read a message of this kind back; ``apart`` holds the fields that neither scalars nor arrays carry.

    Raises MessageError, naming key and value, when a key is missing or ill-typed, a value breaks its rule, an array has
    another size or type, or the fields do not fit together.
    """
    message: _Message = _read(kind, scalars, arrays, apart)
    if isinstance(message, Broadcast | Update | Hello):
        message.check()
    return message


def _read(kind: Any, scalars: Mapping[str, Any], arrays: Sequence[Any], apart: Mapping[str, Any]) -> Any:
    values = dict(constants_of(kind))
    for field in fields_of(kind):
        name, layout = field.name, field.layout
        if layout == "scalar" or layout == "packed":
            if field.key in scalars:
                value = scalars[field.key]
                if layout == "scalar":
                    values[name] = _checked(value, field)
                else:
                    values[name] = _unpacked(value, field, values, field.dtype or values.get("dtype", "float64"))
            elif field.required:
                raise MessageError(f"the message has no {field.key!r}; server and client may be of different versions")
            elif name not in values:
                values[name] = field.default()
        elif layout == "nested":
            values[name] = _nested(field.kind, scalars)
        elif layout == "apart":
            values[name] = apart[name]
        else:
            dtype = field.dtype or values.get("dtype", "float64")
            values[name] = _vector(arrays, field, dtype) if arrays else field.default()
    return made(kind, values)


def _nested(kind: Any, scalars: Mapping[str, Any]) -> Any:
    """Return a nested message; the latest of its kind is kept, since all slots of a round have one spec."""
    try:
        said = repr([scalars.get(field.key) for field in fields_of(kind)])  # equal for no two values that differ
    except ValueError:  # an integer of too many digits to be written, which no field takes
        return _read(kind, scalars, (), {})
    latest = _READ.get(kind)
    if latest is None or latest[0] != said:
        latest = _READ[kind] = said, _read(kind, scalars, (), {})
    return latest[1]


_READ: dict[Any, tuple[str, Any]] = {}
"""By kind of nested message: what the latest one was read from, and the same read."""


def _checked(value: Any, field: Field) -> Any:
    """Return a scalar. Raises MessageError unless it has the type of its field and keeps its rule."""
    kind, key = field.kind, field.key
    allowed: Any = (int, float) if kind is float else kind
    if not isinstance(value, allowed) or isinstance(value, bool) != (kind is bool):
        raise MessageError(f"{key} must be {_WANTED[kind]}, got {_shown(value)}")
    if isinstance(value, int) and value.bit_length() > _MOST_BITS:
        raise MessageError(f"{key} must be a number of at most {_MOST_BITS} bits, got {value.bit_length()} bits")
    if kind is float:
        value = float(value)
        if field.rule and not math.isfinite(value):
            raise MessageError(f"{key} must be a finite number, got {value}")
    if field.rule and (complaint := field.rule(value)):
        raise MessageError(f"{key} {complaint}" if not isinstance(value, str) else f"{key} {complaint[:500]}")
    return value


def _shown(value: Any) -> str:
    if isinstance(value, str | bytes) and len(value) > _MOST_SHOWN:
        return f"{value[:_MOST_SHOWN]!r}..."
    return repr(value)


def _vector(arrays: Sequence[Any], field: Field, dtype: str) -> Vector:
    if len(arrays) != 1:
        raise MessageError(f"the message must hold one array, {field.name}, got {len(arrays)}")
    array = arrays[0]
    if not isinstance(array, np.ndarray) or array.dtype != dtype or array.ndim != 1:
        kind = f"{array.dtype} {array.shape}" if isinstance(array, np.ndarray) else type(array).__name__
        raise MessageError(f"{field.name} must be a {dtype} vector, got {kind}")
    return array.astype(np.float64, copy=False)


def _unpacked(data: Any, field: Field, values: Mapping[str, Any], dtype: str) -> Any:
    """Return the array, or the items, that were packed. Raises MessageError for another number of bytes."""
    assert field.shape is not None  # it is packed
    shape, sent = field.shape(values), np.dtype(dtype).newbyteorder("<")
    unit = sent.itemsize * math.prod(shape[1:])
    fits = isinstance(data, bytes) and (len(data) % unit == 0 if shape[0] < 0 else len(data) == unit * shape[0])
    if not fits:
        got = f"{len(data)} bytes" if isinstance(data, bytes) else type(data).__name__
        wanted = " x ".join("any number" if length < 0 else str(length) for length in shape)
        size = f"{unit} bytes each" if shape[0] < 0 else f"{unit * shape[0]} bytes"
        raise MessageError(f"{field.key} must hold {wanted} {dtype} numbers = {size}, got {got}")
    numbers = np.frombuffer(data, dtype=sent).reshape(shape).astype(np.float64, copy=False)
    return tuple(_item(row, field.kind) for row in numbers) if field.many else numbers


def _item(row: Vector, kind: Any) -> Any:
    """Return the item of a row: a number for each of its fields, and the rest for its vector."""
    fields = fields_of(kind)
    numbers = [int(number) if number.is_integer() else number for number in row[: len(fields) - 1].tolist()]
    return kind(*(_checked(*pair) for pair in zip(numbers, fields, strict=False)), row[len(numbers) :])


def decode_state_digest(metrics: Mapping[str, Any]) -> str:
    """Read the digest of parameters in place that came with the metrics, or an empty text."""
    told = metrics.get(STATE_DIGEST, "")
    if not isinstance(told, str) or len(told) > _MOST_BITS:
        raise MessageError(f"{STATE_DIGEST} must be a digest, got {_shown(told)}")
    return told


def encode_no_metrics(cause: Cause, reason: str) -> Config:
    """Return what is sent in the place of metrics by a client that has none."""
    return {"cause": cause, "reason": reason}


def check_metrics(metrics: Mapping[str, Any]) -> None:
    """Raise ObjectiveError with the client's cause and reason where these stand in the place of metrics."""
    cause, reason = metrics.get("cause"), metrics.get("reason")
    if isinstance(cause, str) and isinstance(reason, str):  # a metric may have any name
        if cause not in CAUSES:
            raise MessageError(f"cause must be one of {', '.join(CAUSES)}, got {_shown(cause)}")
        raise ObjectiveError(printable(reason), cause=cause)


def decode_metrics(metrics: Mapping[str, Any]) -> dict[str, float]:
    """Read the metrics of an evaluation.

    Raises ObjectiveError as ``check_metrics``, MessageError unless all are numbers, ``loss`` is among them, and their
    names are few and plain.
    """
    check_metrics(metrics)
    metrics = {name: value for name, value in metrics.items() if name != STATE_DIGEST}
    if len(metrics) > MOST_METRICS:
        raise MessageError(f"there must be at most {MOST_METRICS} metrics, got {len(metrics)}")
    if odd := [key for key in metrics if printable(key) != key]:
        raise MessageError(f"a metric's name must have at most {MOST_TEXT} printable characters, got {_shown(odd[0])}")
    if "loss" not in metrics:
        raise MessageError("the metrics have no 'loss'")
    wrong = [key for key, value in metrics.items() if isinstance(value, bool) or not isinstance(value, int | float)]
    if wrong:
        raise MessageError(f"{_shown(wrong[0])} must be a number, got {_shown(metrics[wrong[0]])}")
    return {key: float(value) for key, value in metrics.items()}
