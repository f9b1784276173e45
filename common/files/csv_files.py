"""Reader of tables as text: one row a line, cells between separators, names of the columns in the first line or none.

A table in plain notation is parsed at full speed. Where that fails, the file is read again cell by cell: notations that
are certain are understood (decimal commas, true and false), and any other cell is named with its line.
"""

from __future__ import annotations

import csv
import io
import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np

from zofedht.common.choices import AUTO, label_texts
from zofedht.common.errors import DataError
from zofedht.common.files.columns import (
    LABEL_COLUMNS,
    find_label,
    folded,
    one_column,
    parted,
    used_columns,
    with_named_label,
)
from zofedht.common.files.label_texts import MISSING, TextLabels, numbered
from zofedht.common.files.reading import FileRules, RawRows, check_finite, opened, unusable
from zofedht.common.plain_text import printable
from zofedht.common.typing import Matrix

__all__ = ["read_csv"]

_SEPARATORS = (",", ";", "\t", "|")
_LOOKED_AT = 1000  # bytes that tell text from other content
_SAMPLED = 50  # records that tell the separator
_MARKS = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}  # Excel saves "Unicode text" so
_WORDS = {"true": 1.0, "false": 0.0}
_DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+([eE][+-]?\d+)?")
_THOUSANDS = re.compile(r"[+-]?\d{1,3}(?:([,.' \u00a0\u202f])\d{3})(?:\1\d{3})*(?:[.,]\d+)?")
_WITH_UNIT = re.compile(r"(?:[^\w\s.,]\s?)?[+-]?\d+(?:[.,]\d+)?\s?(?:%|[^\W\d_]{1,3}\b)?")
_SPREADSHEET_ERROR = re.compile(r"#(?:N/A|NA|DIV/0!|REF!|VALUE!|NAME\?|NUM!|NULL!)", re.IGNORECASE)
_PERHAPS_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2},\d{3}")
_SEPARATOR_LINE = re.compile(r"sep=(.)\s*", re.IGNORECASE)  # Excel writes it above the header


class _Record(NamedTuple):
    line: int  # of the file, from 1: the last one of the record
    cells: list[str]


class _Table(NamedTuple):
    """The cells as numbers, the places of their columns in the file, and the labels if these are texts."""

    cells: Matrix
    used: list[int]
    classes: TextLabels = TextLabels()


class _Layout(NamedTuple):
    """How a table is written."""

    encoding: str
    separator: str
    names: tuple[str, ...]  # of all columns, as written; empty without a header
    skipped: int  # lines before the first row
    width: int  # cells of the first row


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
            layout = _layout(file, path, rules)
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


def _layout(file: BinaryIO, path: Path, rules: FileRules) -> _Layout:
    """Return how the table is written, from its first records."""
    start = file.read(_LOOKED_AT)
    file.seek(0)
    _refuse_other_content(path, start)
    encoding = next((name for mark, name in _MARKS.items() if start.startswith(mark)), "utf-8-sig")
    with io.TextIOWrapper(file, encoding, newline="") as lines:
        comments: list[str] = []
        sample: list[str] = []
        for line in lines:
            (comments if _is_comment(line) and not sample else sample).append(line)
            if len(sample) >= _SAMPLED:
                break
    skipped, separator = 0, ""
    if sample and (match := _SEPARATOR_LINE.fullmatch(sample[0])):
        skipped, separator, sample = 1, match[1], sample[1:]
    separator = separator or _separator(sample)
    records = list(_records(sample, separator))
    if not records:
        raise unusable(path, "hold at least one row", "none", "is it the right file?")
    if all(len(record.cells) == 1 for record in records):
        raise one_column(path)
    if _is_header(records, path, rules):
        names, skipped = tuple(records[0].cells), skipped + records[0].line + len(comments)
        width = len(records[1].cells) if len(records) > 1 else len(names)
        return _Layout(encoding, separator, _fitting(path, names, width, records), skipped, width)
    names = _names_in_comment(comments, separator, len(records[0].cells))
    return _Layout(encoding, separator, names, skipped + len(comments), len(records[0].cells))


def _refuse_other_content(path: Path, start: bytes) -> None:
    """Raise DataError for content that is no text."""
    rule, text = "be a table of numbers as text in UTF-8", "save it again as CSV in UTF-8"
    if start.startswith(b"\x1f\x8b"):
        raise unusable(path, rule, "what gzip has compressed", f"rename it to '{path.name}.gz'")
    if b"\0" in start and (not start.startswith(tuple(_MARKS)) or start.startswith(b"\xff\xfe\0\0")):
        raise unusable(path, rule, "zero bytes, as in UTF-16, in UTF-32 or in what is no text", text)


def _fitting(path: Path, names: tuple[str, ...], width: int, records: Sequence[_Record]) -> tuple[str, ...]:
    """Return a name for each column. Raises DataError where the rows have others than the first line."""
    if len(names) == width - 1 and all(record.cells[-1:] == [""] for record in records[1:]):
        return (*names, "")  # every row ends with a separator, the first line does not
    if len(names) != width:
        rule, got = (
            f"have {len(names)} cells on every line, as its first line has",
            f"{width} on line {records[1].line}",
        )
        way_out = "mend the line"
        if len(names) == 1 and width > 1:
            same = next((mark for mark in _SEPARATORS if names[0].count(mark) == width - 1), "")
            way_out = f"write {same!r} in the other lines, too" if same else "begin the lines above the table with #"
        elif all(len(record.cells) == len(names) + 1 for record in records[1:]):
            way_out = "name every column in the first line: R leaves out the name over its numbers of rows"
        raise unusable(path, rule, got, way_out)
    return names


def _names_in_comment(comments: Sequence[str], separator: str, width: int) -> tuple[str, ...]:
    """Return the names in the last comment above the rows, as numpy.savetxt writes them."""
    if not comments:
        return ()
    cells = [cell.strip() for cell in comments[-1].lstrip("# ").split(separator)]
    return tuple(cells) if len(cells) == width > 1 and not any(map(_is_number, cells)) else ()


def _separator(sample: Sequence[str]) -> str:
    """Return the separator that cuts all records into as many cells, most of them numbers."""
    best, most = ",", 0.0
    for separator in _SEPARATORS:
        try:
            records = list(_records(sample, separator))
        except csv.Error:
            continue
        if len(records) > 1 and len(records) == _SAMPLED:
            records = records[:-1]  # the last one may be cut short
        widths = {len(record.cells) for record in records}
        cells = [cell for record in (records[1:] or records) for cell in record.cells]
        usual = max(widths, default=0)
        if usual < 2:
            continue
        sure = sum(_is_number(cell) or (separator != "," and bool(_DECIMAL_COMMA.fullmatch(cell))) for cell in cells)
        share = sure / len(cells) + (len(widths) == 1)
        if share > most:
            best, most = separator, share
    return best


def _records(lines: Iterable[str], separator: str) -> Iterator[_Record]:
    """Yield the records: a quoted cell may go over several lines; blank lines and comments are none."""
    plain = ("\n" if _is_comment(line) else line for line in lines)
    reader = csv.reader(plain, delimiter=separator, skipinitialspace=True)
    for cells in reader:
        if any(cell.strip() for cell in cells) or len(cells) > 1:
            yield _Record(reader.line_num, [cell.strip() for cell in cells])


def _is_comment(line: str) -> bool:
    return line.startswith("#") and not _SPREADSHEET_ERROR.match(line)


def _is_header(records: Sequence[_Record], path: Path, rules: FileRules) -> bool:
    """Return whether the first record holds the names of the columns."""
    if rules.csv_header != AUTO:
        return rules.csv_header == "yes"
    first = records[0].cells
    names = [folded(cell) for cell in first]
    wanted = set(LABEL_COLUMNS) | ({folded(rules.label_column)} if rules.label_column != AUTO else set())
    if any(name in wanted for name in names if not _is_number(name)):
        return True
    numbers = [cell for cell in first if _is_number(cell)]
    words = [cell for cell in first if not _is_number(cell) and cell.lower() not in MISSING | set(_WORDS)]
    if words and not numbers:
        return True
    return _counts(first) and len(first) > 2 and _like_no_other([record.cells[-1] for record in records])


def _counts(cells: Sequence[str]) -> bool:
    """Whether the cells are 0, 1, 2 and so on, as pandas names columns without names; the first may be an index's."""
    rest = list(cells[1:] if cells[0] == "" else cells)
    return rest == [str(place) for place in range(len(rest))]


def _like_no_other(labels: Sequence[str]) -> bool:
    return len(labels) > 3 and labels[0] not in labels[1:] and len(set(labels[1:])) == 2


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell and cell.lower() not in MISSING


def _table(path: Path, layout: _Layout, rules: FileRules) -> _Table:
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
        return _cell_by_cell(path, layout, used, rules)
    if not len(table):
        raise unusable(path, "hold at least one row", "none", "is it the right file?")
    if table.shape[1] != len(used):
        return _cell_by_cell(path, layout, used, rules)
    if not np.isfinite(table).all():
        return _cell_by_cell(path, layout, used, rules)
    return _Table(table, used)


def _without_errors(lines: Iterable[str]) -> Iterator[str]:
    """Yield the lines. Raises ValueError for one that begins with a spreadsheet's error: it is no comment."""
    for line in lines:
        if line.startswith("#") and not _is_comment(line):
            raise ValueError
        yield line


def _cell_by_cell(path: Path, layout: _Layout, used: list[int], rules: FileRules) -> _Table:
    """Return the table, understanding every notation that is certain; raise DataError for the first other cell."""
    records = []
    with opened(path) as file, io.TextIOWrapper(file, layout.encoding, newline="") as lines:
        for record in _records(islice(lines, layout.skipped, None), layout.separator):
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
    label = _text_label(path, layout, records, used, rules)
    if label is not None:
        for record in records:
            if _is_missing(record.cells[used[label]]):
                raise _missing(path, layout, record, used[label])
        texts, where = [record.cells[used[label]] for record in records], _column_name(layout, used[label])
        table[:, label], classes = numbered(texts, rules.positive_labels, path, f"in {where}")
    for row, record in enumerate(records):
        for place, column in enumerate(used):
            if place != label:
                table[row, place] = _number(path, layout, record, column, comma=comma, first=records[0])
    return _Table(table, used, classes)


def _text_label(
    path: Path, layout: _Layout, records: Sequence[_Record], used: Sequence[int], rules: FileRules
) -> int | None:
    """Return the place of the label column among the used ones, if its cells are texts."""
    if len(used) < 2:
        return None
    names = [layout.names[place] for place in used] if layout.names else []
    label = find_label(path, names, len(used), rules.label_column)
    cells = {record.cells[used[label]].casefold() for record in records}
    if label_texts(rules.positive_labels):
        wanted = any(not _is_number(cell) for cell in cells)
    else:
        wanted = not any(_is_number(cell) or cell in _WORDS for cell in cells) and not cells <= MISSING
    return label if wanted else None


def _decimal_comma(path: Path, layout: _Layout, records: Sequence[_Record], used: Sequence[int]) -> bool:
    """Return whether numbers are written with a decimal comma. Raises DataError where that cannot be told."""
    cells = [(record, column, record.cells[column]) for record in records for column in used]
    commas = [entry for entry in cells if _DECIMAL_COMMA.fullmatch(entry[2])]
    if not commas:
        return False
    points = next((entry for entry in cells if "." in entry[2] and _is_number(entry[2])), None)
    if points is None and not all(_PERHAPS_THOUSANDS.fullmatch(cell) for _, _, cell in commas):
        return True
    record, column, cell = commas[0]
    got = f"'{cell}' {_place(layout, record, column)}"
    if points is not None:
        got += f" and '{points[2]}' {_place(layout, points[0], points[1])}"
    raise unusable(path, "write its numbers in one way", got, "use a decimal point, and nothing between thousands")


def _number(path: Path, layout: _Layout, record: _Record, column: int, *, comma: bool, first: _Record) -> float:
    cell = record.cells[column]
    text = cell.replace(",", ".") if comma and _DECIMAL_COMMA.fullmatch(cell) else cell
    if _is_number(text):
        return float(text)
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    if _is_missing(text):
        raise _missing(path, layout, record, column)
    place = _place(layout, record, column)
    got, way_out = f"'{printable(cell)}' {place}", "encode text as numbers first, or leave the column out with features"
    if _THOUSANDS.fullmatch(text) or _WITH_UNIT.fullmatch(text):
        way_out = "write each number alone: no unit, nothing between thousands, and a decimal point"
    elif layout.names:
        way_out += f"; if it holds the labels, set label-column={layout.names[column]}"
    if record is first and not layout.names:
        way_out += "; if the line holds names, set csv-header = yes"
    raise unusable(path, "hold numbers", got, way_out)


def _is_missing(cell: str) -> bool:
    return cell.casefold() in MISSING or _SPREADSHEET_ERROR.fullmatch(cell) is not None


def _missing(path: Path, layout: _Layout, record: _Record, column: int) -> DataError:
    cell = record.cells[column]
    got = f"'{cell}' {_place(layout, record, column)}" if cell else f"an empty cell {_place(layout, record, column)}"
    return unusable(path, "have a value in every cell", got, "fill it in, or drop the row or the column")


def _place(layout: _Layout, record: _Record, column: int) -> str:
    return f"on line {record.line + layout.skipped}, {_column_name(layout, column)}"


def _column_name(layout: _Layout, column: int) -> str:
    return f"column {column + 1}" + (f" ('{printable(layout.names[column])}')" if layout.names else "")
