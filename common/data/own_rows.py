"""The rows of a client's own file, and rows that are held in memory, as the model takes them."""

from __future__ import annotations

from typing import Any

from zofedht.common.choices import AUTO, parse_labels, parse_transforms
from zofedht.common.data.dataset import Dataset
from zofedht.common.data.labels import binary_target, check_texts, whole_labels
from zofedht.common.data.named_sets import existing_file
from zofedht.common.data.preprocessing import preprocess
from zofedht.common.data.standard import standard_of
from zofedht.common.errors import DataError
from zofedht.common.files.columns import chosen_columns
from zofedht.common.files.dataset_files import check_rows, read_file
from zofedht.common.files.label_texts import with_numbers
from zofedht.common.files.reading import FileRules, RawRows
from zofedht.common.files.tables import is_frame, kept_rows, rows_of_arrays, rows_of_frame

__all__ = ["are_rows", "keep_rows", "load_own_rows", "own_dataset"]


def are_rows(value: Any) -> bool:
    """Return whether the value is a DataFrame, or a pair (X, y)."""
    return is_frame(value) or (isinstance(value, tuple) and len(value) == 2)


def keep_rows(value: Any, rules: FileRules) -> str:
    """Keep a DataFrame, or a pair (X, y), while it lives, and return the ``dataset`` that names its rows here.

    Raises DataError for rows that cannot be used.
    """
    if is_frame(value):
        part, source, owner = rows_of_frame(value, rules), "the DataFrame", value
    else:
        part, source, owner = rows_of_arrays(*value), "(X, y)", value[0]
    part = with_numbers(part, rules.positive_labels, source)
    check_rows(part, source)
    return kept_rows(chosen_columns(part, rules.features, source), owner)


def load_own_rows(path: str, rules: FileRules, columns: int | None = None) -> RawRows:
    """Return all rows of a client's own file, with labels that are whole numbers.

    ``columns`` is their number where it is known, since a sparse file may lack its last columns. Raises DataError when
    the file cannot be read or used.
    """
    part = read_file(existing_file(path), columns, rules)
    labels = whole_labels(part.labels, path, part.label)
    check_texts(rules.positive_labels, part.classes, labels)
    return part._replace(labels=labels)


def own_dataset(
    part: RawRows, positive_labels: str, transform_names: str, standardize_by: str = AUTO, *, settled: bool = True
) -> Dataset:
    """Return the rows of a client's own file, which may have one class only, as the model takes them.

    Parameters
    ----------
    part : RawRows
        Of ``load_own_rows``.
    positive_labels, transform_names, standardize_by : str
        As in DataSpec. The server settles "auto" from the labels and the sums of all clients.
    settled : bool
        False before the run begins. The target is then 0 where the positive labels are not known. Columns whose sums
        are not known are not standardized.

    Raises
    ------
    DataError
        When the positive labels or the columns' deviations are not settled.
    """
    positive = parse_labels(positive_labels)
    if settled and not positive:
        raise DataError.public(
            f"positive-labels must be settled by the server for rows of a client's own, got '{AUTO}'; name the positive"
            " labels, as in positive-labels = '1'"
        )
    transforms, standard = parse_transforms(transform_names), None
    if "standardize" in transforms and standardize_by != AUTO:
        standard = standard_of(standardize_by, part.features.shape[1])
    elif "standardize" in transforms and settled:
        raise DataError.public(
            f"standardize-by must be settled by the server for rows of a client's own, got '{AUTO}'; give"
            " mean:deviation for each column"
        )
    features = preprocess(part.features, transforms, standard=standard)
    return Dataset(features, binary_target(part.labels, positive), part.labels)
