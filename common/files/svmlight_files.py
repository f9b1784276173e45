"""Reader of svmlight lines, ``label index:value ...``, that stay sparse.

Lines are parsed at full speed first. Where that fails, the file is read again to name the faulty line.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from zofedht.common.choices import AUTO
from zofedht.common.errors import DataError
from zofedht.common.files.reading import RawRows, compact_csr, opened, unusable
from zofedht.common.machine.memory import lacking, least_bytes

__all__ = ["read_svmlight"]

_LARGE = re.compile(rb"[ \t]([0-9]{8,20}):")  # an index that may be too large
_HEAD = 2**20  # bytes that are looked at before the file is read
_LONGEST = 20  # digits of an index; Python refuses to convert thousands of them


def read_svmlight(path: Path, n_features: int | None, indices: str = AUTO) -> RawRows:
    """Read `label index:value ...` lines: CSR features with int32 indices, (rows,) float64 labels.

    Parameters
    ----------
    path : Path
    n_features : int, optional
        The number of columns, by default as many as the largest index needs.
    indices : str
        The key ``svmlight-indices``. "auto" counts from 1 unless the file has an index 0.

    Raises
    ------
    DataError
        For an index beyond ``n_features`` or below the first, and, with its line, for a token that does not parse or
        indices out of order.
    """
    _refuse_huge_index(path)
    from sklearn.datasets import load_svmlight_file  # takes a second: only where it is needed

    try:
        with opened(path) as file:
            features, labels = load_svmlight_file(file, zero_based=True)
    except (ValueError, OverflowError) as error:
        raise _svmlight_fault(path, error) from None
    written = (int(features.indices.min()), int(features.indices.max())) if len(features.indices) else None
    least = written[0] if written else 1
    first = {"from-0": 0, "from-1": 1}.get(indices, min(least, 1))
    if least < first:
        way_out = "set svmlight-indices = from-0 for all files of the run"
        raise unusable(path, "count its indices from 1", f"index {least}", way_out)
    found = features.shape[1] - first
    if n_features is not None and found > n_features:
        way_out = "use the training file with the most features, or another test file"
        raise unusable(path, f"have at most {n_features} features", f"index {found - 1 + first}", way_out)
    shape = (features.shape[0], n_features or max(found, 1))
    matrix = compact_csr(features.data, features.indices - first, features.indptr, shape, path)
    notes = (f"indices count from {first}",)
    return RawRows(matrix, labels, indices=written, label="the first number of a line", notes=notes)


def _refuse_huge_index(path: Path) -> None:
    """Raise DataError for an index near the file's start that needs more memory than is free, before it is read."""
    with opened(path) as file:
        largest = max(map(int, _LARGE.findall(file.read(_HEAD))), default=0)
    if largest <= np.iinfo(np.int32).max and (
        text := lacking(least_bytes(largest), f"n = {largest:,} parameters, of as many columns,")
    ):
        raise DataError(f"data file '{path}': {text}; renumber the columns")


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _svmlight_fault(path: Path, error: Exception) -> DataError:
    """Return the error of the first faulty line, or else the parser's."""
    with opened(path) as file:
        for number, line in enumerate(file, start=1):
            problem = _svmlight_problem(line.split(b"#", 1)[0].decode("utf-8", "replace").split())
            if problem:
                rule = "hold svmlight lines 'label index:value ...'"
                table = number == 1 and any(mark in line for mark in (b",", b";", b"\t"))
                texts = "number the labels" if problem.startswith("label") else "mend the line"
                way_out = "name the file .csv if it is a table" if table else texts
                return unusable(path, rule, f"{problem} on line {number}", way_out)
    return unusable(path, "hold svmlight lines", f"'{error}'", "write it again")


def _svmlight_problem(tokens: list[str]) -> str:
    if tokens and not _is_number(tokens[0]):
        return f"label '{tokens[0]}'"
    previous = -1
    for token in tokens[1:]:
        index, _, value = token.partition(":")
        if index == "qid":
            continue
        if not index.isdecimal() or not _is_number(value):
            return f"'{token}'"
        if len(index) > _LONGEST or int(index) > np.iinfo(np.int32).max:
            return f"index {index} (at most {np.iinfo(np.int32).max} fits)"
        if int(index) <= previous:
            return f"index {index} after index {previous} (they must increase)"
        previous = int(index)
    return ""
