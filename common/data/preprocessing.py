"""Transforms of the features, applied in the order of the run config.

A transform has a dense and a sparse form. The dense forms work in place on one buffer with room for all columns, so the
peak of the memory is the source and one float64 result.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zofedht.common.data.standard import Standard
from zofedht.common.errors import DataError
from zofedht.common.machine.memory import lacking
from zofedht.common.typing import Features, Matrix, Vector, is_sparse

__all__ = ["TRANSFORMS", "Transform", "preprocess"]

_SAFE = (1e-200, 1e200)  # sums of squares in this range have neither over- nor underflowed


@dataclass(frozen=True)
class Transform:
    """One transform: how many columns it appends, and its two forms.

    dense(buffer, width, standard) changes the first ``width`` columns and the appended ones in place;
    sparse(matrix, standard) returns a new matrix. ``standard`` is what standardize takes.
    """

    appends: int
    dense: Callable[[Matrix, int, Standard | None], None]
    sparse: Callable[[Any, Standard | None], Any]


def preprocess(
    features: Any, transforms: tuple[str, ...], divisor: float = 1.0, standard: Standard | None = None
) -> Features:
    """Return features / divisor after the transforms: C-contiguous float64, or CSR with int32 indices.

    ``features`` are (rows, columns) of any real dtype, or CSR, and are not changed. ``standard`` is of features /
    divisor; without it standardize changes nothing.
    """
    chosen = [TRANSFORMS[name] for name in transforms]
    if is_sparse(features):
        from scipy import sparse

        matrix = sparse.csr_array(features, dtype=np.float64, copy=True)
        matrix.data /= divisor
        for transform in chosen:
            matrix = transform.sparse(matrix, standard)
        matrix.indices, matrix.indptr = matrix.indices.astype(np.int32), matrix.indptr.astype(np.int32)
        return matrix
    rows, width = features.shape
    shape = rows, width + sum(transform.appends for transform in chosen)
    if text := lacking(8 * shape[0] * shape[1], f"{rows:,} dense rows of {shape[1]:,} columns"):
        raise DataError(f"{text}; use fewer rows or columns, or a sparse file")
    buffer = np.empty(shape)
    np.divide(features, divisor, out=buffer[:, :width])
    for transform in chosen:
        transform.dense(buffer, width, standard)
        width += transform.appends
    return buffer


def _standardize_dense(buffer: Matrix, width: int, standard: Standard | None) -> None:
    if standard is not None:
        buffer[:, :width] -= standard.means
        buffer[:, :width] /= standard.deviations


def _standardize_sparse(matrix: Any, standard: Standard | None) -> Any:
    """Divide alone: a mean in the place of zeros would fill the matrix."""
    if standard is not None:
        matrix.data /= standard.deviations[matrix.indices]
    return matrix


def _bias_dense(buffer: Matrix, width: int, standard: Standard | None) -> None:
    buffer[:, width] = 1.0


def _bias_sparse(matrix: Any, standard: Standard | None) -> Any:
    from scipy import sparse

    ones = sparse.csr_array(np.ones((matrix.shape[0], 1)))
    return sparse.hstack([matrix, ones], format="csr")


def _unit_norm_dense(buffer: Matrix, width: int, standard: Standard | None) -> None:
    values = buffer[:, :width]
    with np.errstate(over="ignore", under="ignore"):
        squares = np.einsum("ij,ij->i", values, values)  # forms no copy of the squares
    unsafe = ~((squares > _SAFE[0]) & (squares < _SAFE[1]))
    if unsafe.any():
        scaled = values[unsafe]
        scaled /= _or_one(np.abs(scaled).max(axis=1))[:, None]
        values[unsafe] = scaled
        squares[unsafe] = np.einsum("ij,ij->i", scaled, scaled)
    values /= _or_one(np.sqrt(squares))[:, None]


def _unit_norm_sparse(matrix: Any, standard: Standard | None) -> Any:
    from scipy import sparse

    rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    data = matrix.data
    squares = _sums(rows, data, matrix.shape[0])
    unsafe = ~((squares > _SAFE[0]) & (squares < _SAFE[1]))
    if unsafe.any():
        peaks = np.zeros(matrix.shape[0])
        np.maximum.at(peaks, rows, np.abs(data))
        data = data / np.where(unsafe, _or_one(peaks), 1.0)[rows]
        squares = _sums(rows, data, matrix.shape[0])
    data = data / _or_one(np.sqrt(squares))[rows]
    return sparse.csr_array((data, matrix.indices, matrix.indptr), shape=matrix.shape)


def _sums(rows: NDArray[Any], data: Vector, count: int) -> Vector:
    with np.errstate(over="ignore", under="ignore"):
        sums: Vector = np.bincount(rows, weights=data * data, minlength=count).astype(np.float64, copy=False)
    return sums


def _or_one(norms: Vector) -> Vector:
    """Return the norms with 1 in place of 0, so that an all-zero row stays as it is."""
    return np.where(norms > 0.0, norms, 1.0)


TRANSFORMS: dict[str, Transform] = {
    "standardize": Transform(0, _standardize_dense, _standardize_sparse),  # each column to mean 0 and deviation 1
    "bias": Transform(1, _bias_dense, _bias_sparse),  # a column of ones at the end
    "unit-norm": Transform(0, _unit_norm_dense, _unit_norm_sparse),  # each row to L2 norm 1
}
