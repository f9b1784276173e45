"""Parameters in place that go to a client which joins late, in parts that fit into a message.

The server asks in four ways:

held    arrays: the trail. Answer: how many of its lengths the client need not follow.
copy    arrays: the trail. Answer: the digest of the parameters at its end, of which the client keeps a copy.
take    start, digest of the trail. Answer: the bytes of the copy from there on.
give    start, digest of the parameters. Arrays: the trail (with the first part alone), a part.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zofedht.common.errors import MessageError
from zofedht.common.typing import Vector

__all__ = [
    "PART",
    "PART_BYTES",
    "SNAPSHOT_VERBS",
    "decode_held",
    "decode_part",
    "encode_held",
    "encode_part",
    "part_of",
    "trail_of",
]

SNAPSHOT_VERBS = ("", "held", "copy", "take", "give")

PART_BYTES = 2**22
"""Bytes of a part, the last of which may be shorter."""

PART = "part"
"""Under this name the answer to ``take`` has its bytes."""

_HELD = "held"


def encode_held(length: int) -> dict[str, Any]:
    """Return the answer to ``held``."""
    return {_HELD: length}


def decode_held(told: Mapping[str, Any]) -> int:
    """Read it back. Raises MessageError."""
    length = told.get(_HELD)
    if isinstance(length, bool) or not isinstance(length, int) or length < 0:
        raise MessageError(f"{_HELD} must be a number of step lengths, got {str(length)[:80]!r}")
    return length


def encode_part(data: bytes) -> dict[str, Any]:
    """Return the answer to ``take``."""
    return {PART: data}


def decode_part(told: Mapping[str, Any], left: int) -> bytes:
    """Read it back, where so many bytes are left. Raises MessageError for a part that is shorter or longer than asked.

    A client that sent a byte at a time would hold a round up for hours.
    """
    data, size = told.get(PART), min(left, PART_BYTES)
    if not isinstance(data, bytes) or len(data) != size:
        got = len(data) if isinstance(data, bytes) else type(data).__name__
        raise MessageError(f"{PART} must be {size} bytes of the parameters, got {got}")
    return data


def trail_of(arrays: Sequence[NDArray[Any]]) -> Vector:
    """Return the trail, the first array of a question. Raises MessageError."""
    if not arrays or arrays[0].ndim != 1 or arrays[0].dtype != np.float64:
        raise MessageError("a question about a snapshot must begin with the trail, a vector of float64")
    return arrays[0]


def part_of(arrays: Sequence[NDArray[Any]]) -> bytes:
    """Return the part that is given, the last array of a question. Raises MessageError."""
    if not arrays or arrays[-1].ndim != 1 or arrays[-1].dtype != np.uint8 or arrays[-1].size > PART_BYTES:
        raise MessageError(f"a part of the parameters must be at most {PART_BYTES} bytes")
    return arrays[-1].tobytes()
