"""What all readers of data files share: opening, decompressing, and one sentence for each failure.

A reader works inside ``opened``; whatever goes wrong with the bytes (missing, forbidden, truncated,
damaged) leaves it as a DataError that names the file.
"""

from __future__ import annotations

import bz2
import gzip
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from zofedht.common.errors import DataError

__all__ = ["COMPRESSIONS", "Part", "check_finite", "compact_csr", "opened"]

COMPRESSIONS: dict[str, Callable[[Path], Any]] = {".gz": gzip.open, ".bz2": bz2.open}
"""Suffix -> the function that opens such a file for reading bytes."""


class Part(NamedTuple):
    """Rows as a file holds them: features (rows, columns), dense of any real dtype or CSR; labels (rows,)."""

    features: Any
    labels: NDArray[Any]


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """Yield the bytes of a file, decompressed as its suffix says.

    Raises DataError when the file is missing, a folder, not permitted, truncated or damaged, also for
    what only shows while the body reads.
    """
    try:
        with COMPRESSIONS.get(path.suffix.lower(), _plain)(path) as file:
            yield cast(BinaryIO, file)
    except FileNotFoundError:
        raise DataError(f"data file '{path}' does not exist; check the path") from None
    except IsADirectoryError:
        raise DataError(f"data file '{path}' is a folder; name the file inside it") from None
    except PermissionError:
        raise DataError(f"data file '{path}' may not be read by this user; change its permissions") from None
    except EOFError:
        raise DataError(
            f"data file '{path}' must hold a whole compressed stream, got one that ends before its end"
            " marker (truncated); fetch the file again"
        ) from None
    except (OSError, zlib.error) as error:
        raise DataError(
            f"data file '{path}' must be readable, got '{error}'; a damaged file is cured by fetching it"
            " again, a wrong suffix by renaming it"
        ) from error


def _plain(path: Path) -> BinaryIO:
    return path.open("rb")


def check_finite(values: Any, path: Path) -> None:
    """Raise DataError naming row and column (from 1) of the first entry that is NaN or infinite."""
    entries = values.data if sparse.issparse(values) else values
    if entries.dtype.kind != "f":
        return
    finite = np.isfinite(entries)
    if finite.all():
        return
    first = int(np.argmin(finite))
    if sparse.issparse(values):
        row = int(np.searchsorted(values.indptr, first, side="right")) - 1
        column, value = int(values.indices[first]), entries[first]
    else:
        table = entries.reshape(len(entries), -1)
        row, column = divmod(first, table.shape[1])
        value = table[row, column]
    raise DataError(
        f"data file '{path}' must hold finite numbers, got {value} at row {row + 1}, column {column + 1}"
        " (both counted from 1, without a header); mend or drop the row"
    )


def compact_csr(data: Any, indices: Any, indptr: Any, shape: tuple[int, int], path: Path) -> Any:
    """Return a checked float64 CSR array with int32 indices; liblinear and many others take no wider ones.

    Raises DataError where int32 is too narrow or the three arrays do not fit together.
    """
    limit = np.iinfo(np.int32).max
    if data.dtype.kind not in "biuf" or any(array.dtype.kind not in "iu" for array in (indices, indptr)):
        raise DataError(
            f"data file '{path}' must hold a CSR matrix of real data and integer indices and indptr, got"
            f" dtypes {data.dtype}, {indices.dtype} and {indptr.dtype}; write it again from a csr_array"
        )
    if max(*shape, len(data), int(np.max(indices, initial=0))) > limit:
        raise DataError(
            f"data file '{path}' must have at most {limit} rows, columns and non-zeros, got {len(data)}"
            f" non-zeros in shape {shape}; renumber the features or split the file"
        )
    try:
        matrix = sparse.csr_array(
            (np.asarray(data, np.float64), np.asarray(indices, np.int32), np.asarray(indptr, np.int32)),
            shape=shape,
        )
        matrix.check_format(full_check=True)
    except (ValueError, TypeError) as error:
        raise DataError(
            f"data file '{path}' must hold a valid CSR matrix, got '{error}' for shape {shape};"
            " write it again from a scipy.sparse.csr_array"
        ) from error
    matrix.sum_duplicates()  # also sorts each row
    return matrix
