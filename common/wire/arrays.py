"""Numbers as bytes and back, rounded and digested; what a peer sent is checked first, and never a pickle.

NumPy's own reader evaluates the header as Python text and allocates the shape that it claims. Here the
header must be the very text that ``numpy.save`` writes for a little-endian vector of floats, and the shape must
agree with the bytes that are there; the numbers are then looked at in place.
"""

from __future__ import annotations

import functools
import hashlib
import io
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zofedht.common.errors import MessageError
from zofedht.common.typing import Matrix, Vector

__all__ = [
    "basis_digest",
    "decode_vector",
    "decode_vectors",
    "encode_vector",
    "numbers_of",
    "packed",
    "rounded",
    "vector_digest",
]

_MAGIC = b"\x93NUMPY"
_LENGTH_BYTES = {1: 2, 2: 4, 3: 4}  # of the header's length, by major version
_MOST_HEADER = 1024
_HEADER = re.compile(
    rb"\{'descr': '(?P<dtype>[^']*)', 'fortran_order': (?:True|False), 'shape': \((?P<shape>[0-9, ]*)\), \} *\n"
)


def encode_vector(vector: NDArray[Any]) -> bytes:
    """Return the bytes that ``numpy.save`` writes for a vector, (n,), for a tenth of the time."""
    return _header(vector.dtype.str, len(vector)) + vector.tobytes()


@functools.lru_cache(maxsize=16)
def _header(dtype: str, size: int) -> bytes:
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": dtype, "fortran_order": False, "shape": (size,)})
    return header.getvalue()


def decode_vector(data: bytes, what: str, dtypes: Sequence[str] = ("float64",)) -> NDArray[Any]:
    """Return the vector of one of these types in .npy bytes as a read-only view of them.

    ``what`` names it in a complaint. Raises MessageError when the bytes are anything else.
    """
    start = len(_MAGIC) + 2
    if len(data) < start or not data.startswith(_MAGIC) or data[len(_MAGIC)] not in _LENGTH_BYTES:
        raise MessageError(f"{what} must be a .npy array, got {len(data)} bytes that are none")
    width = _LENGTH_BYTES[data[len(_MAGIC)]]
    length = int.from_bytes(data[start : start + width], "little")
    body = start + width + length
    if length > _MOST_HEADER or body > len(data):
        raise MessageError(f"{what} must have a whole .npy header, got one of {length} bytes in {len(data)}")
    sent, size = _claimed(data[start + width : body], what, tuple(dtypes))
    if sent.itemsize * size != len(data) - body:
        raise MessageError(f"{what} must hold {size} {sent} numbers, got {len(data) - body} bytes")
    return np.frombuffer(data, dtype=sent.newbyteorder("<"), offset=body)


@functools.lru_cache(maxsize=16)
def _claimed(header: bytes, what: str, dtypes: tuple[str, ...]) -> tuple[np.dtype[Any], int]:
    """Return type and number that a header claims; the vectors of a round have one header."""
    found = _HEADER.fullmatch(header)
    if found is None:
        raise MessageError(f"{what} must have a plain .npy header, got {header[:80]!r}")
    shape, dtype = found["shape"].decode(), found["dtype"].decode(errors="replace")
    size = re.fullmatch(r"([0-9]{1,15}),", shape)
    sent = next((np.dtype(name) for name in dtypes if np.dtype(name).newbyteorder("<").str == dtype), None)
    if sent is None or size is None:
        raise MessageError(f"{what} must be a {' or '.join(dtypes)} vector, got {dtype[:20]} of shape ({shape[:60]})")
    return sent, int(size[1])


def decode_vectors(
    tensors: Sequence[bytes], what: str, most: int = 1, dtypes: Sequence[str] = ("float64",)
) -> list[NDArray[Any]]:
    """Return the vectors of a message, none to ``most``. Raises MessageError for more, and as ``decode_vector``."""
    if len(tensors) > most:
        count = "one array" if most == 1 else f"{most} arrays"
        raise MessageError(f"the message must hold at most {count}, {what}, got {len(tensors)}")
    return [decode_vector(data, what, dtypes) for data in tensors]


def packed(array: Matrix | Vector, dtype: str = "float64") -> bytes:
    """Return numbers as little-endian bytes, row by row."""
    return np.ascontiguousarray(array, dtype=np.dtype(dtype).newbyteorder("<")).tobytes()


def numbers_of(value: Matrix | Vector | Sequence[Any]) -> Matrix | Vector:
    """Return what is packed: an array, or a row for each item: its numbers, then those of its vector."""
    if isinstance(value, np.ndarray):
        return value
    rows = [np.concatenate([np.atleast_1d(part) for part in vars(item).values()]) for item in value]
    return np.stack(rows) if rows else np.empty((0, 0))


def basis_digest(basis: Matrix | None) -> str:
    """Return the sha256 of Q's little-endian float64 bytes, row by row; empty without a basis."""
    if basis is None:
        return ""
    return hashlib.sha256(np.ascontiguousarray(basis, dtype="<f8").tobytes()).hexdigest()


def rounded(array: Matrix, dtype: str) -> Matrix:
    """Return the numbers as they arrive when they are sent as this type; float64 all the same.

    What is too large for the type becomes infinite.
    """
    if dtype == "float64":
        return array
    with np.errstate(over="ignore"):
        return array.astype(dtype).astype(np.float64)


def vector_digest(x: Vector) -> str:
    """Return a short digest of x's little-endian float64 bytes, quick enough for every round."""
    return hashlib.blake2b(np.ascontiguousarray(x, dtype="<f8").tobytes(), digest_size=16).hexdigest()
