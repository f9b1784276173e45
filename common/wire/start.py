"""Where a client begins: its starting point, its scale and bounds, and the space of its parameters, as arrays.

The arrays are [start], or [start, scale, lower, upper]; the text of the space follows as bytes where parameters have
names.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zofedht.common.errors import MessageError
from zofedht.common.objective.units import Units
from zofedht.common.space.space import MOST_SPACE_TEXT, Space
from zofedht.common.tensors.agreement import MOST_BLOCKS_TEXT, Tensors
from zofedht.common.typing import Vector
from zofedht.common.wire.arrays import decode_vector, decode_vectors

__all__ = ["Beginning", "decode_start", "decode_tensors", "encode_start", "encode_tensors"]

_WITH_UNITS = 4


class Beginning(NamedTuple):
    """start: (n,), in search units."""

    start: Vector
    units: Units | None = None
    space: Space | None = None


def encode_start(told: Beginning) -> list[NDArray[Any]]:
    """Return the arrays."""
    arrays: list[NDArray[Any]] = [told.start]
    if told.units is not None:
        arrays += [told.units.scale, told.units.lower, told.units.upper]
    if told.space is not None:
        arrays.append(np.frombuffer(told.space.text.encode(), dtype=np.uint8))
    return arrays


def decode_start(tensors: Sequence[bytes], dimension: int = 0) -> Beginning:
    """Read the .npy bytes of the arrays back; ``dimension`` is n where it is known.

    Raises MessageError when they are none of these, and ObjectiveError where scale, bounds or the space are malformed.
    """
    space = None
    if len(tensors) in (2, _WITH_UNITS + 1):
        *tensors, text = tensors
        space = Space.of_text(_text(text))
    vectors = decode_vectors(tensors, "the starting point", _WITH_UNITS)
    if len(vectors) not in (1, _WITH_UNITS) or not np.all(np.isfinite(vectors[0])):
        raise MessageError("it must be one vector of finite numbers, with scale and both bounds where there are some")
    start = vectors[0]
    if dimension and start.shape != (dimension,):
        raise MessageError(f"its start must have the n = {dimension} of its introduction, got {start.shape[0]}")
    if any(vector.shape != start.shape for vector in vectors):
        raise MessageError("scale and bounds must be as long as the starting point")
    if space is not None and space.dim != len(start):
        raise MessageError(f"the space of its parameters must have n = {len(start)} coordinates, got {space.dim}")
    return Beginning(start, Units(*vectors[1:]) if len(vectors) > 1 else None, space)


def encode_tensors(tensors: Tensors) -> list[NDArray[Any]]:
    """Return what is told of parameters in place, in the place of a start: one array of bytes."""
    return [np.frombuffer(tensors.text().encode(), dtype=np.uint8)]


def decode_tensors(tensors: Sequence[bytes]) -> Tensors:
    """Read it back. Raises MessageError when it is something else."""
    if len(tensors) != 1:
        raise MessageError(f"parameters in place must be told as one array, got {len(tensors)}")
    return Tensors.of_text(_text(tensors[0], "the blocks of its parameters", MOST_BLOCKS_TEXT))


def _text(data: bytes, what: str = "the space of its parameters", most: int = MOST_SPACE_TEXT) -> str:
    array = decode_vector(data, what, ("uint8",))
    if array.size > most:
        raise MessageError(f"{what} must have at most {most} bytes, got {array.size}")
    try:
        return array.tobytes().decode()
    except UnicodeDecodeError as error:
        raise MessageError(f"{what} must be UTF-8 ({error})") from error
