"""Columns of tables by their names: which is the label, which counts the rows, and which are the features."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from zofedht.common.choices import AUTO
from zofedht.common.errors import DataError
from zofedht.common.files.reading import FileRules, RawRows, unusable
from zofedht.common.typing import Matrix

__all__ = [
    "LABEL_COLUMNS",
    "IndexColumns",
    "chosen_columns",
    "find_label",
    "folded",
    "leave_out_index",
    "listed",
    "one_column",
    "parted",
    "used_columns",
    "with_named_label",
]

LABEL_COLUMNS = ("label", "target", "y")
"""Names of the label column; an earlier name wins, since tables of points have a feature `y`."""

_RIVALS = ("label", "target")  # each is a label wherever it stands
_INDEX_NAMES = ("", "unnamed: 0")  # pandas writes its index under no name, and reads it back under the second


class IndexColumns(NamedTuple):
    """A table and the names of its columns; none without a header."""

    table: Matrix
    names: tuple[str, ...]


def folded(name: str) -> str:
    """Return a name as names are compared: without case, and with one space in the place of many."""
    return " ".join(name.split()).casefold()


def listed(names: Sequence[str]) -> str:
    """Return names in one text as the key ``features`` takes them."""
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(names)
    return line.getvalue()


def leave_out_index(path: Path | str, columns: IndexColumns) -> tuple[Matrix, tuple[str, ...], tuple[str, ...]]:
    """Return table and names without pandas' nameless index, and a note where there was one.

    Raises DataError for another column without a name.
    """
    table, names = columns
    nameless = [place for place, name in enumerate(names) if folded(name) in _INDEX_NAMES]
    if not nameless:
        return table, names, ()
    values = table[:, 0]
    whole = np.array_equal(values, np.trunc(values)) and len(np.unique(values)) == len(values)
    if nameless != [0] or not whole:
        got, way_out = f"none over column {nameless[-1] + 1}", "name it, or write the table without its index"
        raise unusable(path, "have a name over each column that is no index", got, way_out)
    return table[:, 1:], names[1:], ("the first column has no name and counts rows: left out as an index",)


def find_label(path: Path | str, names: Sequence[str], width: int, wanted: str) -> int:
    """Return the place of the label column, from 0.

    ``wanted`` is the key ``label-column``: a name, a number from 1, or "auto". Raises DataError where there is no such
    column, or more than one may be the label.
    """
    found = [folded(name) for name in names]
    if wanted != AUTO:
        places = [place for place, name in enumerate(found) if name == folded(wanted)]
        if not places and wanted.isdecimal() and 1 <= int(wanted) <= width:
            places = [int(wanted) - 1]
        if len(places) != 1:
            shown = ", ".join(names) or f"{width} columns without names"
            got = f"{len(places)} of them among {shown}" if places else shown
            raise unusable(path, f"have one column '{wanted}'", got, "set label-column to another name or number")
        return places[0]
    rivals = [place for place, name in enumerate(found) if name in _RIVALS]
    if len(rivals) > 1:
        got = " and ".join(f"'{names[place]}' (column {place + 1})" for place in rivals)
        way_out = "the second would tell the model the answer: drop it, or set label-column to one of them"
        raise unusable(path, "have one column that may be the label", got, way_out)
    return next((found.index(name) for name in LABEL_COLUMNS if name in found), width - 1)


def chosen_columns(part: RawRows, features: str, path: Path | str) -> RawRows:
    """Return the rows with the columns that the key ``features`` names, in its order.

    Columns without names stay as they are. Raises DataError for a name that the file lacks or has twice, and where the
    key says how many columns there are and the file has others.
    """
    if features == AUTO:
        return part
    if features.isdecimal():
        if (found := part.features.shape[1]) != int(features):
            rule, way_out = (
                f"have the {int(features):,} columns of features",
                "set features to auto, or name the columns",
            )
            raise unusable(path, rule, f"{found:,}", way_out)
        return part
    wanted = next(csv.reader([features], skipinitialspace=True))
    if not part.names:
        if part.features.shape[1] != len(wanted):
            rule, got = f"have the {len(wanted)} columns of features", f"{part.features.shape[1]} without names"
            raise unusable(path, rule, got, "name the columns in a first line")
        return part
    named = [folded(name) for name in part.names]
    for name in wanted:
        if named.count(folded(name)) != 1:
            got = f"{named.count(folded(name))} of it among {', '.join(part.names[:20])}"
            raise unusable(path, f"have one column '{name}'", got, "name its columns as the run's features are named")
    order = [named.index(folded(name)) for name in wanted]
    if order == list(range(len(named))):
        return part
    return part._replace(features=part.features[:, order], names=tuple(part.names[place] for place in order))


def with_named_label(names: Sequence[str], rules: FileRules) -> FileRules:
    """Return rules that name the label column where they number it: the columns before it may be left out first."""
    wanted, found = rules.label_column, [folded(name) for name in names]
    if folded(wanted) in found or not wanted.isdecimal() or not 1 <= int(wanted) <= len(found):
        return rules
    name = found[int(wanted) - 1]
    return replace(rules, label_column=name) if name and found.count(name) == 1 else rules


def used_columns(path: Path | str, names: Sequence[str], width: int, rules: FileRules) -> list[int]:
    """Return the places of the columns to read: all, or those that the config names and the label."""
    everything = list(range(width))
    if rules.features == AUTO or rules.features.isdecimal() or not names:
        return everything
    wanted = {folded(name) for name in next(csv.reader([rules.features], skipinitialspace=True))}
    label = find_label(path, names, width, rules.label_column)
    return [place for place in everything if place == label or folded(names[place]) in wanted]


def one_column(source: Path | str) -> DataError:
    """Return the error of a table that has one column, or a separator that is not known."""
    rule = "have a label column and at least one feature"
    text = "add the features" if isinstance(source, str) else "separate the cells by commas, semicolons, tabs or bars"
    return unusable(source, rule, "1 column", text)


def parted(path: Path | str, table: Matrix, names: tuple[str, ...], rules: FileRules) -> RawRows:
    """Return features and labels of a table whose columns have these names, or none, and what was taken as what.

    Raises DataError where no column, or more than one, may be the label.
    """
    table, names, dropped = leave_out_index(path, IndexColumns(table, names))
    if table.shape[1] < 2:
        raise one_column(path)
    place = find_label(path, names, table.shape[1], rules.label_column)
    features = table[:, :-1] if place == table.shape[1] - 1 else np.delete(table, place, axis=1)
    notes = list(dropped)
    if not names:
        notes.append(f"no header: column {place + 1} of {table.shape[1]} is the label")
    else:
        notes += _counting(features, names[:place] + names[place + 1 :])
        notes += _of_one_name(names)
    label = names[place] if names else f"column {place + 1}"
    return RawRows(
        features, table[:, place].copy(), names[:place] + names[place + 1 :], label=label, notes=tuple(notes)
    )


def _counting(features: Matrix, names: Sequence[str]) -> Iterator[str]:
    """Yield a note for a first column that counts the rows: a model learns the order of the file from it."""
    rows = len(features)
    if rows > 2 and len(names) > 1 and np.array_equal(features[:, 0], features[0, 0] + np.arange(rows)):
        yield f"column '{names[0]}' counts the rows and is taken as a feature; leave an index out"


def _of_one_name(names: Sequence[str]) -> Iterator[str]:
    """Yield a note for each name that several columns have: the key ``features`` cannot name them."""
    places: dict[str, list[int]] = {}
    for place, name in enumerate(names, 1):
        places.setdefault(folded(name), []).append(place)
    for same in places.values():
        if len(same) > 1:
            where = ", ".join(map(str, same))
            yield f"columns {where} are all named '{names[same[0] - 1]}' and taken as features; leave copies out"
