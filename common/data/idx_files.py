"""Reader of IDX, the format of MNIST and its relatives.

An images file is a header of four big-endian uint32 (2051, images, rows, columns) and one byte for
each pixel; a labels file is (2049, labels) and one byte for each label. The header is never believed
before the bytes are there: a damaged one may promise terabytes.
"""

from __future__ import annotations

import math
import struct
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from zofedht.common.data.reading import Part, opened
from zofedht.common.errors import DataError

__all__ = ["LABELS_MARK", "PIXELS_MARK", "read_idx"]

PIXELS_MARK = "idx3-ubyte"
"""The end of an images file's name, before .gz."""

LABELS_MARK = "idx1-ubyte"
"""The end of a labels file's name, before .gz."""

_PIXELS_MAGIC = 0x00000803  # unsigned bytes, three axes
_LABELS_MAGIC = 0x00000801  # unsigned bytes, one axis
_CHUNK = 1 << 20


def read_idx(path: Path) -> Part:
    """Read an images file and the labels file beside it: (images, pixels) and (images,), both uint8.

    Raises DataError for a wrong magic number, an axis of length zero, too few or too many bytes, a
    missing labels file, or labels of another number.
    """
    images = _read_bytes(path, _PIXELS_MAGIC, axes=3)
    labels_path = _labels_beside(path)
    labels = _read_bytes(labels_path, _LABELS_MAGIC, axes=1)
    if len(labels) != len(images):
        raise DataError(
            f"data file '{labels_path}' must have as many labels as '{path.name}' has images, {len(images)},"
            f" got {len(labels)}; put the two files of one set side by side"
        )
    return Part(images.reshape(len(images), -1), labels)


def _labels_beside(path: Path) -> Path:
    name = path.name.replace("images", "labels").replace("idx3", "idx1")
    plain = name.removesuffix(".gz")
    candidates = [path.with_name(name), path.with_name(plain), path.with_name(plain + ".gz")]
    found = next((candidate for candidate in candidates if candidate.is_file()), None)
    if found is None or found == path:
        raise DataError(
            f"data file '{path}' needs its labels beside it, and there is no '{name}' in '{path.parent}'; put it there"
        )
    return found


def _read_bytes(path: Path, magic: int, axes: int) -> NDArray[np.uint8]:
    """Return the body of one IDX file in its shape, once the header agrees with the bytes."""
    size = 4 + 4 * axes
    with opened(path) as file:
        head = file.read(size)
        if len(head) < size:
            raise DataError(
                f"data file '{path}' must begin with an IDX header of {size} bytes, got {len(head)} bytes;"
                " fetch the file again"
            )
        found, *shape = struct.unpack(f">{axes + 1}I", head)
        if found != magic:
            raise DataError(
                f"data file '{path}' must begin with the IDX magic number {magic}, got {found};"
                " is it another kind of file, or compressed without a .gz suffix?"
            )
        if 0 in shape:
            raise DataError(
                f"data file '{path}' must have no axis of length zero, got shape {tuple(shape)}; fetch the file again"
            )
        expected = math.prod(shape)
        body = bytearray()  # grows with what is there, not with what the header promises
        while len(body) <= expected and (chunk := file.read(_CHUNK)):
            body += chunk
    if len(body) != expected:
        more = "or more " if len(body) > expected else ""
        raise DataError(
            f"data file '{path}' must have {expected} bytes after its header, as the shape {tuple(shape)}"
            f" says, got {len(body)} {more}(damaged or truncated); fetch the file again"
        )
    return np.frombuffer(body, np.uint8).reshape(shape)
