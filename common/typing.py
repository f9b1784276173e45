"""Names for the array types that travel through the code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from scipy import sparse  # a device whose rows are dense, or its own, never loads it

__all__ = ["Features", "Indices", "Matrix", "Vector", "is_sparse", "is_whole"]

Vector: TypeAlias = NDArray[np.float64]
"""A float64 array of one axis."""

Matrix: TypeAlias = NDArray[np.float64]
"""A float64 array of two axes."""

Indices: TypeAlias = NDArray[np.intp]
"""Row numbers."""

Features: TypeAlias = "Matrix | sparse.csr_matrix[Any] | sparse.csr_array[Any]"
"""Rows of samples: dense, or sparse by rows and never densified."""


def is_sparse(rows: Any) -> bool:
    """Return whether rows are one of SciPy's sparse matrices by rows, without loading SciPy."""
    return hasattr(rows, "indptr")


def is_whole(value: Any, least: int) -> TypeGuard[int]:
    """Return whether a value is a whole number, NumPy's included, of at least ``least``."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and bool(value >= least)
