"""A table of text cell by cell: notations that are certain are understood, any other cell is named with its line."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np

from zofedht.common.choices import label_texts
from zofedht.common.errors import DataError
from zofedht.common.files.columns import find_label
from zofedht.common.files.csv_layout import (
    DECIMAL_COMMA,
    SPREADSHEET_ERROR,
    WORDS,
    Layout,
    Record,
    is_number,
    records_of,
)
from zofedht.common.files.label_texts import MISSING, TextLabels, numbered
from zofedht.common.files.reading import FileRules, opened, unusable
from zofedht.common.plain_text import printable
from zofedht.common.typing import Matrix

__all__ = ["Table", "cell_by_cell"]

_THOUSANDS = re.compile(r"[+-]?\d{1,3}(?:([,.' \u00a0\u202f])\d{3})(?:\1\d{3})*(?:[.,]\d+)?")
_WITH_UNIT = re.compile(r"(?:[^\w\s.,]\s?)?[+-]?\d+(?:[.,]\d+)?\s?(?:%|[^\W\d_]{1,3}\b)?")
_PERHAPS_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2},\d{3}")


class Table(NamedTuple):
    """The cells as numbers, the places of their columns in the file, and the labels if these are texts."""

    cells: Matrix
    used: list[int]
    classes: TextLabels = TextLabels()


def cell_by_cell(path: Path, layout: Layout, used: list[int], rules: FileRules) -> Table:
    """Return the table, understanding every notation that is certain; raise DataError for the first other cell."""
    records = []
    with opened(path) as file, io.TextIOWrapper(file, layout.encoding, newline="") as lines:
        for record in records_of(islice(lines, layout.skipped, None), layout.separator):
            if len(record.cells) != layout.width:
                rule = f"have {layout.width} cells on every line, as its first line has"
                got = f"{len(record.cells)} on line {record.line + layout.skipped}"
                raise unusable(path, rule, got, "mend the line")
            records.append(record)
    if not records:
        raise unusable(path, "hold at least one row", "none", "is it the right file?")
    if used[-1] == layout.width - 1 and all(record.cells[-1] == "" for record in records):
        used = used[:-1]  # every line ends with a separator
    comma = _decimal_comma(path, layout, records, used)
    table, classes = np.empty((len(records), len(used))), TextLabels()
    labels = _label_place(path, layout, used, rules)
    label = labels if labels is not None and _are_texts(records, used[labels], rules) else None
    if label is not None:
        for record in records:
            if _is_missing(record.cells[used[label]]):
                raise _missing(path, layout, record, used[label])
        texts, where = [record.cells[used[label]] for record in records], _column_name(layout, used[label])
        table[:, label], classes = numbered(texts, rules.positive_labels, path, f"in {where}")
    for row, record in enumerate(records):
        for place, column in enumerate(used):
            if place != label:
                table[row, place] = _number(
                    path, layout, record, column, comma=comma, first=records[0], label=place == labels
                )
    return Table(table, used, classes)


def _label_place(path: Path, layout: Layout, used: Sequence[int], rules: FileRules) -> int | None:
    """Return the place of the label column among the used ones; None for a single column."""
    names = [layout.names[place] for place in used] if layout.names else []
    return find_label(path, names, len(used), rules.label_column) if len(used) > 1 else None


def _are_texts(records: Sequence[Record], column: int, rules: FileRules) -> bool:
    cells = {record.cells[column].casefold() for record in records}
    if label_texts(rules.positive_labels):
        return any(not is_number(cell) for cell in cells)
    return not any(is_number(cell) or cell in WORDS for cell in cells) and not cells <= MISSING


def _decimal_comma(path: Path, layout: Layout, records: Sequence[Record], used: Sequence[int]) -> bool:
    """Return whether numbers are written with a decimal comma. Raises DataError where that cannot be told."""
    cells = [(record, column, record.cells[column]) for record in records for column in used]
    commas = [entry for entry in cells if DECIMAL_COMMA.fullmatch(entry[2])]
    if not commas:
        return False
    points = next((entry for entry in cells if "." in entry[2] and is_number(entry[2])), None)
    if points is None and not all(_PERHAPS_THOUSANDS.fullmatch(cell) for _, _, cell in commas):
        return True
    record, column, cell = commas[0]
    got = f"'{cell}' {_place(layout, record, column)}"
    if points is not None:
        got += f" and '{points[2]}' {_place(layout, points[0], points[1])}"
    raise unusable(path, "write its numbers in one way", got, "use a decimal point, and nothing between thousands")


def _number(
    path: Path, layout: Layout, record: Record, column: int, *, comma: bool, first: Record, label: bool
) -> float:
    cell = record.cells[column]
    text = cell.replace(",", ".") if comma and DECIMAL_COMMA.fullmatch(cell) else cell
    if is_number(text):
        return float(text)
    if text.lower() in WORDS:
        return WORDS[text.lower()]
    if _is_missing(text):
        raise _missing(path, layout, record, column)
    place = _place(layout, record, column)
    got, way_out = f"'{printable(cell)}' {place}", "encode text as numbers first, or leave the column out with features"
    if label:
        way_out = "number all labels, or set positive-labels to the texts of class 1"
    elif _THOUSANDS.fullmatch(text) or _WITH_UNIT.fullmatch(text):
        way_out = "write each number alone: no unit, nothing between thousands, and a decimal point"
    elif layout.names:
        way_out += f"; if it holds the labels, set label-column={layout.names[column]}"
    if record is first and not layout.names:
        way_out += "; if the line holds names, set csv-header = yes"
    raise unusable(path, "hold numbers", got, way_out)


def _is_missing(cell: str) -> bool:
    return cell.casefold() in MISSING or SPREADSHEET_ERROR.fullmatch(cell) is not None


def _missing(path: Path, layout: Layout, record: Record, column: int) -> DataError:
    cell = record.cells[column]
    got = f"'{cell}' {_place(layout, record, column)}" if cell else f"an empty cell {_place(layout, record, column)}"
    return unusable(path, "have a value in every cell", got, "fill it in, or drop the row or the column")


def _place(layout: Layout, record: Record, column: int) -> str:
    return f"on line {record.line + layout.skipped}, {_column_name(layout, column)}"


def _column_name(layout: Layout, column: int) -> str:
    return f"column {column + 1}" + (f" ('{printable(layout.names[column])}')" if layout.names else "")
