"""Tables that name their columns and know their types: Parquet files, and pandas' DataFrames in memory.

A column is taken as it is: a text is no number, a missing value is named with its row and column, and an index that
pandas wrote beside the columns is left out.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zofedht.common.errors import DataError, MissingExtraError
from zofedht.common.files.columns import find_label, parted, used_columns, with_named_label
from zofedht.common.files.label_texts import TextLabels, numbered
from zofedht.common.files.reading import FileRules, RawRows, opened, unusable
from zofedht.common.machine.memory import lacking
from zofedht.common.source_digest import digest_of
from zofedht.common.typing import Matrix, is_sparse

__all__ = ["is_frame", "kept_rows", "read_parquet", "rows_in_memory", "rows_of_arrays", "rows_of_frame"]

_FRAME = "the DataFrame"
_NUMBERS = "biuf"

_kept: dict[str, RawRows] = {}
_kept_of_list: dict[str, RawRows] = {}  # of the latest list: nothing tells when a list is gone


class _Column(NamedTuple):
    name: str
    values: NDArray[Any]  # as the source holds them
    missing: NDArray[np.bool_]


def is_frame(value: Any) -> bool:
    """Return whether the value is a pandas DataFrame, without loading pandas."""
    return all(hasattr(value, name) for name in ("columns", "iloc", "items"))


def rows_of_frame(frame: Any, rules: FileRules | None = None) -> RawRows:
    """Return the rows of a DataFrame, columns by their names; the index is no column.

    Raises DataError for a column that holds no numbers, and for a value that is missing.
    """
    rules, names = rules or FileRules(), _names(frame)
    rules = with_named_label(names, rules)
    used = used_columns(_FRAME, names, frame.shape[1], rules)
    kept = [names[place] for place in used] if names else []
    return _parted(_FRAME, _columns(frame, used), kept, (len(frame), len(used)), rules)


def rows_of_arrays(features: Any, labels: Any) -> RawRows:
    """Return the rows X, an array, a sparse matrix or a DataFrame, with their labels y. Raises DataError."""
    names: Sequence[str] = ()
    if _differ_in_order(features, labels):
        rule, got = "have the rows of X and the labels y in one order", "the same index in another order"
        raise unusable("(X, y)", rule, got, "pair them by y.loc[X.index]: rows are paired by their place")
    if any(np.ma.is_masked(values) for values in (features, labels)):
        way_out = "fill it in, or drop the row or the column"
        raise unusable("(X, y)", "have a value in every cell", "an array with masked values", way_out)
    if is_frame(features):
        names = _names(features)
        features = _matrix(_FRAME, _columns(features, range(features.shape[1])), features.shape)
    elif not is_sparse(features):
        features = np.asarray(features)
    labels = np.asarray(labels)
    labels = labels[:, 0] if labels.ndim == 2 and labels.shape[1] == 1 else labels
    return RawRows(features, labels, tuple(names), label="y")


def _differ_in_order(features: Any, labels: Any) -> bool:
    """Return whether pandas' indices hold the same labels, each once, in another order."""
    mine: Any = getattr(features, "index", None)
    other: Any = getattr(labels, "index", None)
    if not hasattr(mine, "is_unique") or not hasattr(other, "is_unique") or mine.equals(other):  # lists have an index()
        return False
    return bool(mine.is_unique and other.is_unique and mine.sort_values().equals(other.sort_values()))


def _names(frame: Any) -> list[str]:
    if all(isinstance(name, int | np.integer) for name in frame.columns):
        return []  # pandas numbers columns that nobody named
    return [str(name) for name in frame.columns]


def _columns(frame: Any, places: Iterable[int]) -> Iterator[_Column]:
    for place in places:
        column = frame.iloc[:, place]
        yield _Column(str(frame.columns[place]), column.to_numpy(), column.isna().to_numpy())


def read_parquet(path: Path, rules: FileRules | None = None) -> RawRows:
    """Read a Parquet file: (rows, columns) float64 features, (rows,) float64 labels, names of the columns.

    Raises MissingExtraError without pyarrow, DataError for a file that is none, a column that holds no numbers, and a
    value that is missing.
    """
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError as error:
        raise MissingExtraError(
            "reading Parquet files needs pyarrow; install it with `pip install 'zofedht[parquet]'`"
        ) from error
    rules = rules or FileRules()
    with opened(path) as file:
        try:
            source = parquet.ParquetFile(file)
            schema, count = source.schema_arrow, source.metadata.num_rows
            index = {name for name in (schema.pandas_metadata or {}).get("index_columns", ()) if isinstance(name, str)}
            places = [place for place, name in enumerate(schema.names) if name not in index]
            names = [schema.names[place] for place in places]
            rules = with_named_label(names, rules)
            used = used_columns(path, names, len(names), rules)
            if text := lacking(8 * count * len(used), f"{count:,} rows of {len(used):,} columns"):
                raise DataError(f"data file '{path}': {text}; use fewer rows or columns")
            read = source.read(columns=[names[place] for place in used])
        except (pa.ArrowException, ValueError) as error:
            raise unusable(path, "be a Parquet file", f"'{error}'", "write it again") from error
    columns = (
        _Column(names[place], _arrow_values(column), np.asarray(column.is_null()))
        for place, column in zip(used, (read.column(names[place]) for place in used), strict=True)
    )
    part = _parted(path, columns, [names[place] for place in used], (count, len(used)), rules)
    notes = [f"the index '{name}' is left out" for name in schema.names if name in index]
    return part._replace(notes=(*notes, *part.notes))


def _arrow_values(column: Any) -> NDArray[Any]:
    import pyarrow as pa

    kind = column.type
    if pa.types.is_decimal(kind):
        column = column.cast(pa.float64())
    elif pa.types.is_dictionary(kind):
        column = column.cast(kind.value_type)
    elif pa.types.is_nested(kind):
        return np.empty(len(column), dtype=object)
    values: NDArray[Any] = column.to_numpy()
    return values


def _parted(
    source: Path | str, columns: Iterable[_Column], names: Sequence[str], shape: tuple[int, int], rules: FileRules
) -> RawRows:
    """Return features and labels; the labels may be texts."""
    if not all(shape):
        raise unusable(source, "hold at least one row and one column", f"shape {shape}", "is it the right table?")
    label = find_label(source, names, shape[1], rules.label_column)
    table, classes = np.empty(shape), TextLabels()
    for place, column in enumerate(columns):
        if place == label and not column.missing.any() and _holds_texts(column.values):
            table[:, place], classes = numbered(
                column.values.tolist(), rules.positive_labels, source, f"in column '{column.name}'"
            )
        else:
            table[:, place] = _numbers(source, column)
    return parted(source, table, tuple(names), rules)._replace(classes=classes)


def _holds_texts(values: NDArray[Any]) -> bool:
    return values.dtype.kind in "OUT" and all(isinstance(value, str) for value in values)


def _matrix(source: Path | str, columns: Iterable[_Column], shape: tuple[int, int]) -> Matrix:
    table = np.empty(shape)
    for place, column in enumerate(columns):
        table[:, place] = _numbers(source, column)
    return table


def _numbers(source: Path | str, column: _Column) -> NDArray[Any]:
    """Return the numbers of a column. Raises DataError for a value that is none, with its row and column."""
    values, missing = column.values, column.missing
    if values.dtype.kind == "f":
        missing = ~np.isfinite(values)
    if missing.any():
        row = int(np.argmax(missing))
        got = f"{values[row]} in row {row + 1} of column '{column.name}'"
        raise unusable(source, "have a value in every cell", got, "fill it in, or drop the row or the column")
    if values.dtype.kind not in _NUMBERS:
        kinds = {type(value) for value in values} if values.dtype.kind == "O" else {str}
        if not all(issubclass(kind, int | float | np.number | np.bool_ | Decimal) for kind in kinds):
            rule, got = "hold numbers", f"column '{column.name}' of {values.dtype}"
            raise unusable(
                source,
                rule,
                got,
                "encode it as numbers first, or, if it is no label, leave the column out with features",
            )
        values = values.astype(np.float64)
    return values


def kept_rows(rows: RawRows, owner: Any) -> str:
    """Keep rows for the runs of this process, as long as their owner lives, and return the ``dataset`` that names them.

    The name holds a digest of the rows.
    """
    about = "\n".join([*rows.names, rows.label]).encode()
    name = f"DataFrame {digest_of(rows.features, rows.labels, about)}"
    if isinstance(owner, list | tuple):
        _kept_of_list.clear()
        _kept_of_list[name] = rows
        return name
    _kept[name] = rows
    weakref.finalize(owner, _forget, name, rows)
    return name


def _forget(name: str, rows: RawRows) -> None:
    if _kept.get(name) is rows:
        del _kept[name]


def rows_in_memory(name: str) -> RawRows | None:
    """Return the rows that were kept under this name, or None."""
    return _kept.get(name) or _kept_of_list.get(name)
