"""How long a message is as Flower's protobuf, without making it: for engines that have no wire.

The fields are those of Flower's FitIns and FitRes; a test compares the sizes with those of real messages.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

__all__ = ["Length", "fit_ins_size", "fit_res_size", "npy_size"]

_TENSOR_TYPE = "numpy.ndarray"
_NPY_HEADER = 128  # a vector's header up to 10^40 numbers


class Length(int):
    """The number of bytes of a scalar that was not made."""


def npy_size(size: int) -> int:
    """Return the bytes of a vector as a tensor, whose numbers take so many bytes."""
    return size + _NPY_HEADER


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
        case Length():
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
