"""The trajectory: the server's last moves, and the orthonormal basis of what they span."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from zofedht.common.blas import one_thread
from zofedht.common.typing import Matrix, Vector

__all__ = ["basis_of"]

_RELATIVE_ZERO = 1e-12
"""A move this much shorter than the longest one is rounding, not a direction that was travelled."""


def basis_of(moves: Sequence[Vector]) -> Matrix:
    """Return Q, (n, tau') with tau' <= len(moves): orthonormal columns that span the moves.

    QR would return invented axes for zero or repeated columns, and one NaN would poison all: columns
    that are not finite or relatively zero are dropped, the others scaled to unit length, and the rank is
    cut at the singular values that rounding alone explains. Without a usable move tau' = 0.

    Source: Algorithm 1, line 3 (span of the last tau moves).
    """
    dimension = moves[0].shape[0] if moves else 0
    # The largest entry is divided out first: squares of tiny moves would underflow, of huge ones overflow.
    sizes = [float(np.max(np.abs(move))) for move in moves]
    longest = max((size for size in sizes if np.isfinite(size)), default=0.0)
    columns = [
        move / size
        for move, size in zip(moves, sizes, strict=True)
        if np.isfinite(size) and size > _RELATIVE_ZERO * longest
    ]
    if not columns:
        return np.empty((dimension, 0))
    with one_thread():
        matrix = np.stack([column / np.linalg.norm(column) for column in columns], axis=1)
        left, singular, _ = np.linalg.svd(matrix, full_matrices=False)
        rank = int(np.sum(singular > singular[0] * max(matrix.shape) * np.finfo(np.float64).eps))
        return np.ascontiguousarray(left[:, :rank])
