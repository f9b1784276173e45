"""Reader of tables as text: one row a line, cells between separators, names of the columns in the first line or none.

A table in plain notation is parsed at full speed. Where that fails, the file is read again cell by cell: notations that
are certain are understood (decimal commas, true and false), and any other cell is named with its line.
"""

from __future__ import annotations

import csv
import io
import warnings
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

import numpy as np

from zofedht.common.choices import AUTO
from zofedht.common.files.columns import parted, used_columns, with_named_label
from zofedht.common.files.csv_cells import Table, cell_by_cell
from zofedht.common.files.csv_layout import Layout, is_comment, layout_of
from zofedht.common.files.reading import FileRules, RawRows, check_finite, opened, unusable

__all__ = ["read_csv"]


def read_csv(path: Path, rules: FileRules | None = None) -> RawRows:
    """Read a table of numbers: (rows, columns) float64 features, (rows,) float64 labels, names of the columns.

    The separator is a comma, a semicolon, a tab or a bar. Lines that begin with ``#`` are comments. The first line is a
    header where it cannot be a row of numbers; ``csv-header`` says so for a header of numbers. The label column is the
    one that ``label-column`` names, else ``label``, ``target`` or ``y``, else the last.

    Raises DataError for a table without rows, for a table that can be read in two ways, and, with its line, for an
    empty cell, a cell that is no finite number or a row of another length.
    """
    rules = rules or FileRules()
    try:
        with opened(path) as file:
            layout = layout_of(file, path, rules)
        rules = with_named_label(layout.names, rules)
        table, kept, classes = _table(path, layout, rules)
    except (csv.Error, UnicodeError) as error:
        got, way_out = f"'{error}'", "save it again as CSV in UTF-8"
        raise unusable(path, "be a table of numbers as text in UTF-8", got, way_out) from None
    check_finite(table, path)
    names = tuple(layout.names[place] for place in kept) if layout.names else ()
    part = parted(path, table, names, rules)._replace(classes=classes)
    if not layout.names:
        _refuse_header_of_numbers(part, path, rules)
    return part


def _refuse_header_of_numbers(part: RawRows, path: Path, rules: FileRules) -> None:
    """Raise DataError where the first line of numbers looks like the names of columns: its label is like no other."""
    first, others = part.labels[0], np.unique(part.labels[1:])
    if rules.csv_header == AUTO and len(part.labels) > 3 and len(others) == 2 and first not in others:
        got = f"{first:g} as the label of its first line, which no other line has"
        raise unusable(
            path, "show whether its first line is a header", got, "set csv-header to yes or no, or name the columns"
        )


def _table(path: Path, layout: Layout, rules: FileRules) -> Table:
    """Return the cells as numbers."""
    used = used_columns(path, layout.names, layout.width, rules)
    try:
        with opened(path) as file, io.TextIOWrapper(file, layout.encoding, newline="") as lines:
            rows = _without_errors(islice(lines, layout.skipped, None))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # loadtxt warns of a table without rows
                table = np.loadtxt(
                    rows,
                    delimiter=layout.separator,
                    comments="#",
                    quotechar='"',
                    ndmin=2,
                    usecols=None if len(used) == layout.width else used,
                )
    except ValueError:
        return cell_by_cell(path, layout, used, rules)
    if not len(table):
        raise unusable(path, "hold at least one row", "none", "is it the right file?")
    if table.shape[1] != len(used):
        return cell_by_cell(path, layout, used, rules)
    if not np.isfinite(table).all():
        return cell_by_cell(path, layout, used, rules)
    return Table(table, used)


def _without_errors(lines: Iterable[str]) -> Iterator[str]:
    """Yield the lines. Raises ValueError for one that begins with a spreadsheet's error: it is no comment."""
    for line in lines:
        if line.startswith("#") and not is_comment(line):
            raise ValueError
        yield line
