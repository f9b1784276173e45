"""Rows of samples without their zeros."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from zofedht.common.typing import Features, Vector

__all__ = ["CompressedRows", "compressed_rows"]


class CompressedRows(NamedTuple):
    """Row i has ``values[bounds[i]:bounds[i + 1]]`` in ``columns[bounds[i]:bounds[i + 1]]``."""

    bounds: NDArray[np.int64]
    columns: NDArray[np.int32]
    values: Vector


def compressed_rows(features: Features) -> CompressedRows:
    """Return the rows of dense or sparse features; sparse features of these types are not copied."""
    from scipy import sparse

    rows = sparse.csr_array(features)
    return CompressedRows(
        rows.indptr.astype(np.int64, copy=False), rows.indices.astype(np.int32, copy=False), rows.data
    )
