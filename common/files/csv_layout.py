"""How a table of text is written, from its first records: encoding, separator, header line or none."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple

from zofedht.common.choices import AUTO
from zofedht.common.files.columns import LABEL_COLUMNS, folded, one_column
from zofedht.common.files.label_texts import MISSING
from zofedht.common.files.reading import FileRules, unusable

__all__ = [
    "DECIMAL_COMMA",
    "SPREADSHEET_ERROR",
    "WORDS",
    "Layout",
    "Record",
    "is_comment",
    "is_number",
    "layout_of",
    "records_of",
]

_SEPARATORS = (",", ";", "\t", "|")
_LOOKED_AT = 1000  # bytes that tell text from other content
_SAMPLED = 50  # records that tell the separator
_MARKS = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}  # Excel saves "Unicode text" so
_SEPARATOR_LINE = re.compile(r"sep=(.)\s*", re.IGNORECASE)  # Excel writes it above the header

WORDS = {"true": 1.0, "false": 0.0}
"""Words that are numbers, in lower case."""

DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+([eE][+-]?\d+)?")
SPREADSHEET_ERROR = re.compile(r"#(?:N/A|NA|DIV/0!|REF!|VALUE!|NAME\?|NUM!|NULL!)", re.IGNORECASE)


class Record(NamedTuple):
    line: int  # of the file, from 1: the last one of the record
    cells: list[str]


class Layout(NamedTuple):
    """How a table is written."""

    encoding: str
    separator: str
    names: tuple[str, ...]  # of all columns, as written; empty without a header
    skipped: int  # lines before the first row
    width: int  # cells of the first row


def layout_of(file: BinaryIO, path: Path, rules: FileRules) -> Layout:
    """Return how the table is written, from its first records."""
    start = file.read(_LOOKED_AT)
    file.seek(0)
    _refuse_other_content(path, start)
    encoding = next((name for mark, name in _MARKS.items() if start.startswith(mark)), "utf-8-sig")
    with io.TextIOWrapper(file, encoding, newline="") as lines:
        comments: list[str] = []
        sample: list[str] = []
        for line in lines:
            (comments if is_comment(line) and not sample else sample).append(line)
            if len(sample) >= _SAMPLED:
                break
    skipped, separator = 0, ""
    if sample and (match := _SEPARATOR_LINE.fullmatch(sample[0])):
        skipped, separator, sample = 1, match[1], sample[1:]
    separator = separator or _separator(sample)
    records = list(records_of(sample, separator))
    if not records:
        raise unusable(path, "hold at least one row", "none", "is it the right file?")
    if all(len(record.cells) == 1 for record in records):
        raise one_column(path)
    if _is_header(records, path, rules):
        names, skipped = tuple(records[0].cells), skipped + records[0].line + len(comments)
        width = len(records[1].cells) if len(records) > 1 else len(names)
        return Layout(encoding, separator, _fitting(path, names, width, records, separator), skipped, width)
    names = _names_in_comment(comments, separator, len(records[0].cells))
    return Layout(encoding, separator, names, skipped + len(comments), len(records[0].cells))


def _refuse_other_content(path: Path, start: bytes) -> None:
    """Raise DataError for content that is no text."""
    rule, text = "be a table of numbers as text in UTF-8", "save it again as CSV in UTF-8"
    if start.startswith(b"\x1f\x8b"):
        raise unusable(path, rule, "what gzip has compressed", f"rename it to '{path.name}.gz'")
    if b"\0" in start and (not start.startswith(tuple(_MARKS)) or start.startswith(b"\xff\xfe\0\0")):
        raise unusable(path, rule, "zero bytes, as in UTF-16, in UTF-32 or in what is no text", text)


def _fitting(
    path: Path, names: tuple[str, ...], width: int, records: Sequence[Record], separator: str
) -> tuple[str, ...]:
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
        elif separator == "," and len(names) < width <= 2 * len(names) and all(map(_is_part, records[1].cells)):
            way_out += "; if its numbers have decimal commas, separate the cells by semicolons"
        elif all(len(record.cells) == len(names) + 1 for record in records[1:]):
            way_out = "name every column in the first line: R leaves out the name over its numbers of rows"
        raise unusable(path, rule, got, way_out)
    return names


def _names_in_comment(comments: Sequence[str], separator: str, width: int) -> tuple[str, ...]:
    """Return the names in the last comment above the rows, as numpy.savetxt writes them."""
    if not comments:
        return ()
    cells = [cell.strip() for cell in comments[-1].lstrip("# ").split(separator)]
    return tuple(cells) if len(cells) == width > 1 and not any(map(is_number, cells)) else ()


def _separator(sample: Sequence[str]) -> str:
    """Return the separator that cuts all records into as many cells, most of them numbers."""
    best, most = ",", 0.0
    for separator in _SEPARATORS:
        try:
            records = list(records_of(sample, separator))
        except csv.Error:
            continue
        if len(records) > 1 and len(records) == _SAMPLED:
            records = records[:-1]  # the last one may be cut short
        widths = {len(record.cells) for record in records}
        cells = [cell for record in (records[1:] or records) for cell in record.cells]
        usual = max(widths, default=0)
        if usual < 2:
            continue
        sure = sum(is_number(cell) or (separator != "," and bool(DECIMAL_COMMA.fullmatch(cell))) for cell in cells)
        share = sure / len(cells) + (len(widths) == 1)
        if share > most:
            best, most = separator, share
    return best


def records_of(lines: Iterable[str], separator: str) -> Iterator[Record]:
    """Yield the records: a quoted cell may go over several lines; blank lines and comments are none."""
    plain = ("\n" if is_comment(line) else line for line in lines)
    reader = csv.reader(plain, delimiter=separator, skipinitialspace=True)
    for cells in reader:
        if any(cell.strip() for cell in cells) or len(cells) > 1:
            yield Record(reader.line_num, [cell.strip() for cell in cells])


def is_comment(line: str) -> bool:
    return line.startswith("#") and not SPREADSHEET_ERROR.match(line)


def _is_header(records: Sequence[Record], path: Path, rules: FileRules) -> bool:
    """Return whether the first record holds the names of the columns."""
    if rules.csv_header != AUTO:
        return rules.csv_header == "yes"
    first = records[0].cells
    names = [folded(cell) for cell in first]
    wanted = set(LABEL_COLUMNS) | ({folded(rules.label_column)} if rules.label_column != AUTO else set())
    if any(name in wanted for name in names if not is_number(name)):
        return True
    numbers = [cell for cell in first if is_number(cell)]
    words = [cell for cell in first if not is_number(cell) and cell.lower() not in MISSING | set(WORDS)]
    if words and not numbers:
        return True
    return _counts(first) and len(first) > 2 and _like_no_other([record.cells[-1] for record in records])


def _counts(cells: Sequence[str]) -> bool:
    """Whether the cells are 0, 1, 2 and so on, as pandas names columns without names; the first may be an index's."""
    rest = list(cells[1:] if cells[0] == "" else cells)
    return rest == [str(place) for place in range(len(rest))]


def _like_no_other(labels: Sequence[str]) -> bool:
    return len(labels) > 3 and labels[0] not in labels[1:] and len(set(labels[1:])) == 2


def _is_part(cell: str) -> bool:
    """Whether a cell may be what is before or behind a decimal comma."""
    return cell.lstrip("+-").isdecimal()


def is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell and cell.lower() not in MISSING
