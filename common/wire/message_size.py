"""How long a message is as Flower's protobuf, without making it: for engines that have no wire.

The fields are those of Flower's FitIns and FitRes; a test compares the sizes with those of real messages.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from zofedht.common.wire.arrays import numbers_of
from zofedht.common.wire.fields import fields_of
from zofedht.common.wire.messages import Broadcast, Update

__all__ = ["broadcast_bytes", "fit_ins_size", "fit_res_size", "update_bytes"]

_TENSOR_TYPE = "numpy.ndarray"
_NPY_HEADER = 128  # a vector's header up to 10^40 numbers


class _Length(int):
    """The number of bytes of a scalar that was not made."""


def broadcast_bytes(message: Broadcast) -> int:
    """Return the size of a Broadcast as Flower's FitIns, without making it."""
    return fit_ins_size(*_counted(message))


def update_bytes(message: Update) -> int:
    """Return the size of an Update as Flower's FitRes, without making it."""
    tensors, scalars = _counted(message)
    return fit_res_size(tensors, message.examples, scalars)


def _counted(message: Any) -> tuple[list[int], dict[str, object]]:
    """Return the lengths of the arrays, and the scalars, with a length in the place of packed numbers."""
    tensors: list[int] = []
    scalars: dict[str, object] = {}
    _count(message, tensors, scalars)
    return tensors, scalars


def _count(message: Any, tensors: list[int], scalars: dict[str, object]) -> None:
    kind: Any = type(message)
    for field in fields_of(kind):
        value = getattr(message, field.name)
        if field.layout == "nested":
            _count(value, tensors, scalars)
        elif field.layout == "scalar":
            if field.required or value != field.default():
                scalars[field.key] = value
        elif value is not None and field.layout != "apart":
            size = numbers_of(value).size * np.dtype(field.dtype or getattr(message, "dtype", "float64")).itemsize
            if field.layout == "packed":
                scalars[field.key] = _Length(size)
            elif size:
                tensors.append(size + _NPY_HEADER)


def fit_ins_size(tensors: Iterable[int], config: Mapping[str, object]) -> int:
    """Return the bytes of a FitIns with tensors of these lengths."""
    return _field(_parameters_size(tensors)) + _map_size(config)


def fit_res_size(
    tensors: Iterable[int], examples: int, metrics: Mapping[str, object], code: int = 0, status: str = "Success"
) -> int:
    """Return the bytes of a FitRes with tensors of these lengths; ``code`` and ``status`` are its status."""
    # Zero and an empty text are not sent.
    said = (1 + _varint(code) if code else 0) + (_field(len(status.encode())) if status else 0)
    count = 1 + _varint(examples) if examples else 0
    return _field(said) + _field(_parameters_size(tensors)) + count + _map_size(metrics)


def _map_size(scalars: Mapping[str, object]) -> int:
    return sum(_field(_field(len(key.encode())) + _field(_scalar_size(value))) for key, value in scalars.items())


def _parameters_size(tensors: Iterable[int]) -> int:
    return sum(_field(size) for size in tensors) + _field(len(_TENSOR_TYPE))


def _scalar_size(value: object) -> int:
    """Return the bytes of Flower's Scalar; a member of a oneof is there even if it is zero."""
    match value:
        case _Length():
            return _field(int(value))
        case bool():
            return 2
        case float():
            return 9
        case int():
            return 1 + _varint(value << 1 if value >= 0 else ((-value) << 1) - 1)  # zigzag
        case str():
            return _field(len(value.encode()))
        case bytes():
            return _field(len(value))
        case _:
            raise TypeError(f"a scalar must be a bool, a number, a text or bytes, got {type(value).__name__}")


def _field(length: int) -> int:
    """Return the bytes of a field with so many bytes in it: its tag, its length and they."""
    return 1 + _varint(length) + length


def _varint(value: int) -> int:
    return max(1, ((value % 2**64).bit_length() + 6) // 7)
