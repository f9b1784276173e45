"""What all readers of data files share: opening, decompressing, and one grammar for all errors.

A reader works inside ``opened``. Every fault of the bytes (missing, forbidden, truncated, damaged) becomes a DataError
that names the file.
"""

from __future__ import annotations

import bz2
import gzip
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from zofedht.common.choices import AUTO
from zofedht.common.errors import DataError
from zofedht.common.typing import is_sparse

__all__ = ["COMPRESSIONS", "FileRules", "RawRows", "check_finite", "compact_csr", "opened", "unusable"]

COMPRESSIONS: dict[str, Callable[[Path], Any]] = {".gz": gzip.open, ".bz2": bz2.open}
"""Suffix -> the function that opens such a file for reading bytes."""


@dataclass(frozen=True)
class FileRules:
    """What the run config says of data files, each field as the key of its name; "auto" where the file decides."""

    features: str = AUTO
    label_column: str = AUTO
    csv_header: str = AUTO
    svmlight_indices: str = AUTO
    positive_labels: str = AUTO


class RawRows(NamedTuple):
    """Rows as a file holds them.

    Attributes
    ----------
    features : (rows, columns), dense of any real dtype, or CSR
    labels : (rows,)
    names : texts
        Of the columns; empty where the file has none.
    indices : (int, int) or None
        The least and the largest index that an svmlight file writes.
    label : str
        What the labels are called in the file.
    notes : texts
        What the reader took for what, where that could be said otherwise.
    classes : texts
        The different labels, where the file has texts; ``labels`` are then 1 for what ``positive-labels`` names, else
        0.
    """

    features: Any
    labels: NDArray[Any]
    names: tuple[str, ...] = ()
    indices: tuple[int, int] | None = None
    label: str = ""
    notes: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()


def unusable(source: Path | str, rule: str, got: object, way_out: str, *, public_text: str | None = None) -> DataError:
    """Return the error of a data file, or of what a text calls by its name, that breaks a rule."""
    what = source if isinstance(source, str) else f"data file '{source}'"
    return DataError(f"{what} must {rule}, got {got}; {way_out}", public_text=public_text)


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """Yield the bytes of a file, decompressed by its suffix.

    Raises DataError when the file is missing, a folder, not permitted, truncated or damaged, even when the fault shows
    only in the body of the context.
    """
    if path.exists() and not path.is_file() and not path.is_dir():  # it might never end
        raise DataError(f"data file '{path}' must be a regular file, and it is a pipe or a device; write it to a file")
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
        rule, got = "hold a whole compressed stream", "one that ends before its end marker (truncated)"
        raise unusable(path, rule, got, "fetch the file again") from None
    except (OSError, zlib.error) as error:
        way_out = "fetch a damaged file again, and rename a file with a wrong suffix"
        raise unusable(path, "be readable", f"'{error}'", way_out) from error


def _plain(path: Path) -> BinaryIO:
    return path.open("rb")


def check_finite(values: Any, path: Path | str) -> None:
    """Raise DataError naming row and column (from 1) of the first entry that is NaN or infinite."""
    entries = values.data if is_sparse(values) else values
    if entries.dtype.kind != "f":
        return
    finite = np.isfinite(entries)
    if finite.all():
        return
    first = int(np.argmin(finite))
    if is_sparse(values):
        row = int(np.searchsorted(values.indptr, first, side="right")) - 1
        column, value = int(values.indices[first]), entries[first]
    else:
        table = entries.reshape(len(entries), -1)
        row, column = divmod(first, table.shape[1])
        value = table[row, column]
    place = f"row {row + 1}, column {column + 1} (both counted from 1, without a header)"
    raise unusable(path, "hold finite numbers", f"{value} at {place}", "mend or drop the row")


def compact_csr(data: Any, indices: Any, indptr: Any, shape: tuple[int, int], path: Path) -> Any:
    """Return a checked float64 CSR array with int32 indices, as liblinear and others need them.

    Raises DataError where int32 is too narrow, or the three arrays do not fit together.
    """
    from scipy import sparse

    limit = np.iinfo(np.int32).max
    if data.dtype.kind not in "biuf" or any(array.dtype.kind not in "iu" for array in (indices, indptr)):
        rule = "hold a CSR matrix of real data and integer indices and indptr"
        got = f"dtypes {data.dtype}, {indices.dtype} and {indptr.dtype}"
        raise unusable(path, rule, got, "write it again from a csr_array")
    if max(*shape, len(data), int(np.max(indices, initial=0))) > limit:
        rule, got = f"have at most {limit} rows, columns and non-zeros", f"{len(data)} non-zeros in shape {shape}"
        raise unusable(path, rule, got, "renumber the features or split the file")
    try:
        matrix = sparse.csr_array(
            (np.asarray(data, np.float64), np.asarray(indices, np.int32), np.asarray(indptr, np.int32)),
            shape=shape,
        )
        matrix.check_format(full_check=True)
    except (ValueError, TypeError) as error:
        got = f"'{error}' for shape {shape}"
        way_out = "write it again from a scipy.sparse.csr_array"
        raise unusable(path, "hold a valid CSR matrix", got, way_out) from error
    matrix.sum_duplicates()  # also sorts each row
    return matrix
