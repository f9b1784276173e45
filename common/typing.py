"""Names for the array types that travel through the code."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

__all__ = ["Features", "Indices", "Matrix", "Vector"]

Vector: TypeAlias = NDArray[np.float64]
"""A float64 array of one axis."""

Matrix: TypeAlias = NDArray[np.float64]
"""A float64 array of two axes."""

Indices: TypeAlias = NDArray[np.intp]
"""Row numbers."""

Features: TypeAlias = "Matrix | sparse.csr_matrix[Any] | sparse.csr_array[Any]"
"""Rows of samples: dense, or sparse by rows and never densified."""
