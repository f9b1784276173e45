"""How long a message is as Flower's protobuf, without making it: for engines that have no wire.

The fields are those of Flower's FitIns and FitRes; a test compares the sizes with those of real messages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from zofedht.common.typing import Vector

__all__ = ["fit_ins_size", "fit_res_size"]

_TENSOR_TYPE = "numpy.ndarray"
_STATUS = "Success"  # what Flower says of every answer
_NPY_HEADER = 128  # a vector's header up to 10^40 numbers


def fit_ins_size(arrays: Sequence[Vector], config: Mapping[str, object]) -> int:
    """Return the bytes of a FitIns; an array in the config counts as its bytes."""
    return _field(_parameters_size(arrays)) + _map_size(config)


def fit_res_size(arrays: Sequence[Vector], examples: int, metrics: Mapping[str, object]) -> int:
    """Return the bytes of a FitRes whose status is OK."""
    count = 1 + _varint(examples) if examples else 0
    return _field(_field(len(_STATUS))) + _field(_parameters_size(arrays)) + count + _map_size(metrics)


def _map_size(scalars: Mapping[str, object]) -> int:
    return sum(_field(_field(len(key.encode())) + _field(_scalar_size(value))) for key, value in scalars.items())


def _parameters_size(arrays: Sequence[Vector]) -> int:
    return sum(_field(array.nbytes + _NPY_HEADER) for array in arrays) + _field(len(_TENSOR_TYPE))


def _scalar_size(value: object) -> int:
    """Return the bytes of Flower's Scalar; a member of a oneof is there even if it is zero."""
    match value:
        case bool():
            return 2
        case float():
            return 9
        case int():
            return 1 + _varint(value << 1 if value >= 0 else ((-value) << 1) - 1)  # zigzag
        case str():
            return _field(len(value.encode()))
        case bytes() | np.ndarray():
            return _field(value.nbytes if isinstance(value, np.ndarray) else len(value))
        case _:
            raise TypeError(f"a scalar must be a bool, a number, a text or bytes, got {type(value).__name__}")


def _field(length: int) -> int:
    """Return the bytes of a field with so many bytes in it: its tag, its length and they."""
    return 1 + _varint(length) + length


def _varint(value: int) -> int:
    return max(1, (value.bit_length() + 6) // 7)
