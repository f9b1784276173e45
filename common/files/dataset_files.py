"""One data file -> (features, labels); the file's name tells the format.

A format is a row of the table at the end of this module. The arrays of every reader pass the same checks: two axes,
real and finite numbers, one label for each row, at least one row.
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from zofedht.common.errors import DataError
from zofedht.common.files.columns import chosen_columns
from zofedht.common.files.csv_files import read_csv
from zofedht.common.files.idx_files import LABELS_MARK, PIXELS_MARK, read_idx
from zofedht.common.files.label_texts import with_numbers
from zofedht.common.files.reading import COMPRESSIONS, FileRules, RawRows, check_finite, compact_csr, opened, unusable
from zofedht.common.files.svmlight_files import read_svmlight
from zofedht.common.files.tables import read_parquet

__all__ = ["FORMATS", "check_rows", "read_file"]

_DENSE_KEYS = (("X", "y"), ("x", "y"), ("features", "labels"), ("data", "target"))
_SPARSE_KEYS = ("data", "indices", "indptr", "shape")
_LABEL_KEYS = ("y", "labels", "target")


def read_file(path: str | Path, n_features: int | None = None, rules: FileRules | None = None) -> RawRows:
    """Read one data file.

    Parameters
    ----------
    path : str or Path
    n_features : int, optional
        The number of columns. svmlight files are padded up to it, files without names must have it.
    rules : FileRules, optional
        What the config says of data files. A number of ``features`` is that of the columns, unless n_features is given.

    Returns
    -------
    RawRows
        Features (rows, columns) and labels (rows,). Dense features keep the file's dtype. Sparse features are float64
        with int32 indices and are never densified.

    Raises
    ------
    DataError
        When the file cannot be read or used.
    """
    path, rules = Path(path), rules or FileRules()
    if n_features is None and rules.features.isdecimal():
        n_features = int(rules.features)
    part = with_numbers(_reader(path)(path, n_features, rules), rules.positive_labels, path)
    check_rows(part, path, None if part.names else n_features)  # named columns are compared by name
    return chosen_columns(part, rules.features, path)


def check_rows(part: RawRows, path: Path | str, n_features: int | None = None) -> None:
    """Raise DataError unless the two arrays are rows of finite real numbers with one label each."""
    features, labels = part.features, part.labels
    for name, array in (("features", features), ("labels", labels)):
        if array.dtype.kind not in "biuf":
            got = f"{name} of dtype {array.dtype}"
            raise unusable(path, "hold real numbers", got, "encode them as numbers first")
    if features.ndim != 2 or labels.ndim != 1:
        rule, got = "hold features of two axes and labels of one", f"shapes {features.shape} and {labels.shape}"
        wide = "give one label for each row, as y.argmax(axis=1) does of one-hot labels"
        raise unusable(path, rule, got, "flatten each sample to one row" if labels.ndim == 1 else wide)
    if features.shape[0] != labels.shape[0]:
        got = f"{features.shape[0]} rows and {labels.shape[0]} labels"
        raise unusable(path, "have one label for each row", got, "write both from the same samples")
    if not all(features.shape):
        got = f"shape {features.shape}"
        raise unusable(path, "hold at least one row and one feature", got, "is it the right file?")
    if n_features is not None and features.shape[1] != n_features:
        raise unusable(path, f"have {n_features} features", features.shape[1], "use files of one set together")
    check_finite(features, path)
    check_finite(labels, path)


def _read_npz(path: Path, n_features: int | None, rules: FileRules) -> RawRows:
    """Read arrays X/y (or another known pair), or the parts of a CSR matrix and y; never pickles."""
    try:
        with opened(path) as file, np.load(file, allow_pickle=False) as archive:
            return _npz_rows(archive, path)
    except (
        ValueError,
        TypeError,
        AttributeError,
        zipfile.BadZipFile,
        NotImplementedError,
        MemoryError,
    ) as error:
        # TypeError, AttributeError: an .npy array under the name .npz is no context manager
        rule, way_out = "be an npz archive of plain number arrays", "write it with numpy.savez(path, X=..., y=...)"
        raise unusable(path, rule, f"'{error}'", way_out) from error


def _npz_rows(archive: Mapping[str, Any], path: Path) -> RawRows:
    if all(key in archive for key in _SPARSE_KEYS):
        label_key = next((key for key in _LABEL_KEYS if key in archive), None)
        if label_key is not None:
            if "format" in archive and archive["format"].item() not in (b"csr", "csr"):
                got = repr(archive["format"].item())
                raise unusable(path, "hold its sparse matrix as csr", got, "convert it with .tocsr() before saving")
            rows, columns = (int(length) for length in archive["shape"])
            data, indices, indptr = (archive[key] for key in _SPARSE_KEYS[:3])
            return RawRows(compact_csr(data, indices, indptr, (rows, columns), path), _flat(archive[label_key]))
    for features_key, labels_key in _DENSE_KEYS:
        if features_key in archive and labels_key in archive:
            return RawRows(archive[features_key], _flat(archive[labels_key]))
    others = f"x and y, features and labels, data and target, or {', '.join(_SPARSE_KEYS)} and y"
    raise unusable(path, f"hold the arrays X and y (or {others})", ", ".join(archive) or "none", "rename them")


def _flat(labels: Any) -> Any:
    """Return a column of labels as a vector, and any other shape as it is."""
    return labels[:, 0] if labels.ndim == 2 and labels.shape[1] == 1 else labels


def _svmlight(path: Path, n_features: int | None, rules: FileRules) -> RawRows:
    return read_svmlight(path, n_features, rules.svmlight_indices)


_Reader = Callable[[Path, int | None, FileRules], RawRows]

FORMATS: dict[str, _Reader] = {
    ".npz": _read_npz,
    ".csv": lambda path, n_features, rules: read_csv(path, rules),
    ".tsv": lambda path, n_features, rules: read_csv(path, rules),
    ".svm": _svmlight,
    ".svmlight": _svmlight,
    ".libsvm": _svmlight,
    ".binary": _svmlight,  # the LIBSVM collection calls its two-class files so
    ".txt": _svmlight,
    ".parquet": lambda path, n_features, rules: read_parquet(path, rules),
    PIXELS_MARK: lambda path, n_features, rules: read_idx(path),
}
"""End of the file's name -> reader; all but .npz and .parquet may be followed by a suffix of COMPRESSIONS."""

_SUPPORTED = (
    ".npz; .parquet; .csv, .tsv, .svm, .svmlight, .libsvm, .binary, .txt (svmlight), each also with .gz or .bz2;"
    " *-images-idx3-ubyte[.gz]"
)


_PACKED = (".npz", ".parquet")  # compressed inside


def _reader(path: Path) -> _Reader:
    name = path.name.lower()
    plain = name.removesuffix(path.suffix.lower()) if path.suffix.lower() in COMPRESSIONS else name
    if plain.endswith(LABELS_MARK):
        raise DataError(f"data file '{path}' holds labels only; name the images-idx3-ubyte file beside it")
    for end, reader in FORMATS.items():
        if plain.endswith(end) and (plain == name or end not in _PACKED):
            return reader
    raise unusable(path, f"have a name that tells its format ({_SUPPORTED})", f"'{path.name}'", "rename or convert it")
