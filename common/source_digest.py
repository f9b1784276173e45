"""Digests of what a run was made from: rows, files and code. A resumed run must go on with the same."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np

from zofedht.common.typing import is_sparse

__all__ = ["digest_of"]

_CHUNK = 2**20


def digest_of(*parts: Any) -> str:
    """Return 32 hexadecimal digits that depend on each part: an array, a sparse matrix, bytes, or a file's content."""
    found = hashlib.blake2b(digest_size=16)
    for part in parts:
        if isinstance(part, Path):
            with part.open("rb") as file:
                while chunk := file.read(_CHUNK):
                    found.update(chunk)
            continue
        pieces = [part.data, part.indices, part.indptr] if is_sparse(part) else [part]
        for piece in pieces:
            if isinstance(piece, bytes):
                found.update(b"bytes%d:" % len(piece) + piece)
                continue
            array = np.ascontiguousarray(piece)
            found.update(f"{array.dtype.str}{array.shape}:".encode())
            found.update(array.reshape(-1).view(np.uint8).data)
    return found.hexdigest()
