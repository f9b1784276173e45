"""Reader of IDX, the format of MNIST and its relatives.

An images file is a header of four big-endian uint32 (2051, images, rows, columns) and one byte for each pixel. A labels
file is (2049, labels) and one byte for each label. A damaged header may promise terabytes, so only the bytes count.
"""

from __future__ import annotations

import math
import struct
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from zofedht.common.files.reading import RawRows, opened, unusable

__all__ = ["LABELS_MARK", "PIXELS_MARK", "read_idx"]

PIXELS_MARK = "idx3-ubyte"
"""The end of an images file's name, before .gz."""

LABELS_MARK = "idx1-ubyte"
"""The end of a labels file's name, before .gz."""

_PIXELS_MAGIC = 0x00000803  # unsigned bytes, three axes
_LABELS_MAGIC = 0x00000801  # unsigned bytes, one axis
_CHUNK = 1 << 20


def read_idx(path: Path) -> RawRows:
    """Read an images file and the labels file beside it: (images, pixels) and (images,), both uint8.

    Raises DataError for a wrong magic number, an axis of length zero, too few or too many bytes, a missing labels
    file, or another number of labels than of images.
    """
    images = _read_bytes(path, _PIXELS_MAGIC, axes=3)
    labels_path = _labels_beside(path)
    labels = _read_bytes(labels_path, _LABELS_MAGIC, axes=1)
    if len(labels) != len(images):
        rule = f"have as many labels as '{path.name}' has images, {len(images)}"
        raise unusable(labels_path, rule, len(labels), "put the two files of one set side by side")
    return RawRows(images.reshape(len(images), -1), labels)


def _labels_beside(path: Path) -> Path:
    name = path.name.replace("images", "labels").replace("idx3", "idx1")
    plain = name.removesuffix(".gz")
    candidates = [path.with_name(name), path.with_name(plain), path.with_name(plain + ".gz")]
    found = next((candidate for candidate in candidates if candidate.is_file()), None)
    if found is None or found == path:
        got, way_out = f"no '{name}' in '{path.parent}'", "put it there"
        raise unusable(path, "have its labels beside it", got, way_out)
    return found


def _read_bytes(path: Path, magic: int, axes: int) -> NDArray[np.uint8]:
    """Return the body of one IDX file in its shape, if the header agrees with the bytes."""
    size = 4 + 4 * axes
    with opened(path) as file:
        head = file.read(size)
        if len(head) < size:
            rule = f"begin with an IDX header of {size} bytes"
            raise unusable(path, rule, f"{len(head)} bytes", "fetch the file again")
        found, *shape = struct.unpack(f">{axes + 1}I", head)
        if found != magic:
            way_out = "is it another kind of file, or compressed without a .gz suffix?"
            raise unusable(path, f"begin with the IDX magic number {magic}", found, way_out)
        if 0 in shape:
            raise unusable(path, "have no axis of length zero", f"shape {tuple(shape)}", "fetch the file again")
        expected = math.prod(shape)
        body = bytearray()  # grows with the file, not with the promise of the header
        while len(body) <= expected and (chunk := file.read(_CHUNK)):
            body += chunk
    if len(body) != expected:
        more = "or more " if len(body) > expected else ""
        rule = f"have {expected} bytes after its header, for the shape {tuple(shape)}"
        raise unusable(path, rule, f"{len(body)} {more}(damaged or truncated)", "fetch the file again")
    return np.frombuffer(body, np.uint8).reshape(shape)
