"""Readers of text: comma-separated tables, and svmlight lines that stay sparse.

Both parse at full speed first. Where that fails, the file is read again line by line to name the faulty line.
"""

from __future__ import annotations

import csv
import io
import warnings
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

import numpy as np
from sklearn.datasets import load_svmlight_file

from zofedht.common.data.reading import RawRows, check_finite, compact_csr, opened, unusable
from zofedht.common.errors import DataError

__all__ = ["LABEL_COLUMNS", "read_csv", "read_svmlight"]

LABEL_COLUMNS = ("label", "target", "y")
"""Header names of the label column; an earlier name wins, since tables of points have a feature `y`."""

_LONGEST = 20  # digits of an index; Python refuses to convert thousands of them


def read_csv(path: Path) -> RawRows:
    """Read a numeric comma-separated table: (rows, columns) float64 features, (rows,) float64 labels.

    The first line is a header if no cell of it is a number, or a cell is a name in LABEL_COLUMNS. The label column is
    the column with such a name, else the last column. Raises DataError for a table without rows, and, with its line,
    for a cell that is no finite number or a row of another length.
    """
    try:
        with opened(path) as file, io.TextIOWrapper(file, "utf-8-sig") as lines, warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # loadtxt warns of a table without rows
            header, rows = _split_header(lines)
            table = np.loadtxt(rows, delimiter=",", comments=None, quotechar='"', ndmin=2)
    except (ValueError, csv.Error) as error:
        raise _csv_fault(path, error) from None
    width = table.shape[1]
    if not len(table):
        raise unusable(path, "hold at least one row", "none", "is it the right file?")
    if header is not None and len(header) != width:
        raise _csv_fault(path, ValueError(f"{len(header)} header cells over {width} columns"))
    if width < 2:
        rule = "have a label column and at least one feature"
        raise unusable(path, rule, f"{width} column", "separate the cells by commas")
    check_finite(table, path)
    place = _label_place(header, width)
    labels = table[:, place].copy()
    features = table[:, :-1] if place == width - 1 else np.delete(table, place, axis=1)
    return RawRows(features, labels)


def read_svmlight(path: Path, n_features: int | None) -> RawRows:
    """Read `label index:value ...` lines: CSR features with int32 indices, (rows,) float64 labels.

    Indices count from 1 unless the file has an index 0. ``n_features`` is the number of columns, by default the largest
    index. Raises DataError for an index beyond ``n_features``, and, with its line, for a token that does not parse or
    indices out of order.
    """
    try:
        with opened(path) as file:
            features, labels = load_svmlight_file(file)
    except (ValueError, OverflowError) as error:
        raise _svmlight_fault(path, error) from None
    found = features.shape[1]
    if n_features is not None and found > n_features:
        way_out = "use the training file with the most features, or another test file"
        raise unusable(path, f"have at most {n_features} features", f"index {found}", way_out)
    shape = (features.shape[0], n_features or found)
    return RawRows(compact_csr(features.data, features.indices, features.indptr, shape, path), labels)


def _split_header(lines: Iterable[str]) -> tuple[list[str] | None, Iterator[str]]:
    """Return the header's names, or None, and the lines after it."""
    rest = iter(lines)
    first = next((line for line in rest if line.rstrip("\r\n")), "")
    names = [name.lower() for name in _cells(first)]
    if first and (any(name in LABEL_COLUMNS for name in names) or not any(map(_is_number, names))):
        return names, rest
    return None, chain([first], rest)


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in next(csv.reader([line], skipinitialspace=True), [])]


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _label_place(header: list[str] | None, width: int) -> int:
    return next((header.index(name) for name in LABEL_COLUMNS if name in header), width - 1) if header else width - 1


def _csv_fault(path: Path, error: Exception) -> DataError:
    """Return the error of the first faulty line, or else the parser's."""
    try:
        with opened(path) as file, io.TextIOWrapper(file, "utf-8-sig") as lines:
            header, _ = _split_header(lines)
            width = len(header) if header else None
        with opened(path) as file, io.TextIOWrapper(file, "utf-8-sig") as lines:
            header_due = header is not None
            for number, line in enumerate(lines, start=1):
                if not line.rstrip("\r\n"):
                    continue
                if header_due:
                    header_due = False
                    continue
                cells = _cells(line)
                width = width or len(cells)
                if len(cells) != width:
                    rule = f"have {width} cells on every line, as its first line has"
                    return unusable(path, rule, f"{len(cells)} on line {number}", "mend the line")
                for column, cell in enumerate(cells, start=1):
                    if not _is_number(cell):
                        rule, got = "hold numbers separated by commas", f"'{cell}' on line {number}, column {column}"
                        return unusable(path, rule, got, "encode text as numbers first")
    except (UnicodeDecodeError, csv.Error) as second:
        error = second
    return unusable(path, "be a comma-separated table in UTF-8", f"'{error}'", "save it again")


def _svmlight_fault(path: Path, error: Exception) -> DataError:
    """Return the error of the first faulty line, or else the parser's."""
    with opened(path) as file:
        for number, line in enumerate(file, start=1):
            problem = _svmlight_problem(line.split(b"#", 1)[0].decode("utf-8", "replace").split())
            if problem:
                rule = "hold svmlight lines 'label index:value ...'"
                return unusable(path, rule, f"{problem} on line {number}", "mend the line")
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
