"""The trajectory: the server's last moves, and the orthonormal basis of what they span."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from zofedht.common.machine.blas import one_thread
from zofedht.common.typing import Matrix, Vector

__all__ = ["basis_of"]

_RELATIVE_ZERO = 1e-12
"""A move this much shorter than the longest one is rounding, not a direction that was travelled."""


def basis_of(moves: Sequence[Vector]) -> Matrix:
    """Return Q, (n, tau') with tau' <= len(moves): orthonormal columns that span the moves.

    Let U S V^T be the moves as columns of unit length. Q is their polar factor U V^T: the orthonormal columns
    nearest to them (Higham, "Computing the polar decomposition", 1986). It spans what U spans. But where the moves
    change a little, U turns by the change over the gaps between the singular values, Q only by the change over the
    smallest singular value, as the span does. So differences in the last bits of the moves do not grow.

    A move that is not finite, relatively zero, or in the span of the moves before it is dropped: QR would return an
    invented axis for it. Without a usable move tau' = 0.

    Source: Algorithm 1, line 6 (span of the last tau moves).
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
    with one_thread():
        matrix = _independent([column / np.linalg.norm(column) for column in columns], dimension)
        left, _, right = np.linalg.svd(matrix, full_matrices=False)
        return np.ascontiguousarray(left @ right)


def _independent(columns: Sequence[Vector], dimension: int) -> Matrix:
    """Return as a matrix the unit columns that do not lie in the span of the kept ones before them, but for rounding.

    Columns that depend on each other have no polar factor of as many orthonormal columns. A choice by size, as by
    pivoting or by U, could fall on others after a change of the last bits: repeated moves are equally long. Their
    order does not change.
    """
    frame = np.empty((len(columns), dimension))  # orthonormal rows that span the kept columns
    kept: list[Vector] = []
    tolerance = max(frame.shape) * np.finfo(np.float64).eps
    for column in columns:
        spanned = frame[: len(kept)]
        rest = column - (spanned @ column) @ spanned
        if np.linalg.norm(rest) > tolerance:
            rest -= (spanned @ rest) @ spanned  # a short rest carries what rounding left of the span
            frame[len(kept)] = rest / np.linalg.norm(rest)
            kept.append(column)
    return np.stack(kept, axis=1) if kept else np.empty((dimension, 0))
