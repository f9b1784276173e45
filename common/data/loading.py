"""The data of a run, training and test, by name or from a file; and the rows of a client's own file."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from zofedht.common.choices import AUTO, parse_labels, parse_transforms
from zofedht.common.data.about import SHOWN_LABELS, about_rows, telling_columns, uneven_columns
from zofedht.common.data.dataset import Dataset
from zofedht.common.data.labels import (
    binary_target,
    check_both_classes,
    check_texts,
    choose_positive,
    whole_labels,
)
from zofedht.common.data.named_sets import NAMED_SETS, read_named
from zofedht.common.data.preprocessing import preprocess
from zofedht.common.data.standard import MOST_COLUMNS, Standard, columns_text, standard_of, sums_of
from zofedht.common.errors import DataError
from zofedht.common.files.columns import chosen_columns
from zofedht.common.files.dataset_files import check_rows, read_file
from zofedht.common.files.label_texts import with_numbers
from zofedht.common.files.reading import FileRules, RawRows
from zofedht.common.files.tables import is_frame, kept_rows, rows_in_memory, rows_of_arrays, rows_of_frame
from zofedht.common.random.streams import stream
from zofedht.common.typing import Features, Indices, Vector

__all__ = [
    "DataSpec",
    "are_rows",
    "keep_rows",
    "load_dataset",
    "load_described",
    "load_own_rows",
    "load_rows",
    "own_dataset",
    "standard_columns",
]

_HELD_OUT, _SUBSET = 0, 1  # slots of the stream "train-rows"
_HELD_OUT_SHARE = 5  # one row in five is held out
_AS_THE_FILE_SAYS = FileRules()


@dataclass(frozen=True)
class DataSpec:
    """What to load.

    Attributes
    ----------
    dataset : str
        A name in NAMED_SETS, or the path of a file.
    data_dir : str
        The folder of the large sets; empty for the user's cache.
    train_rows : int
        The size of a random subset of the training rows; 0 for all.
    positive_labels, preprocess, standardize_by : str
        As ``parse_labels``, ``parse_transforms`` and ``parse_columns`` read them.
    seed : int
        Decides the held-out fifth and the subset.
    fetch : bool
        Whether a named set may be fetched over the network.
    rules : FileRules
        How a file is read.
    """

    dataset: str = "digits"
    data_dir: str = ""
    train_rows: int = 0
    positive_labels: str = AUTO
    preprocess: str = "bias,unit-norm"
    standardize_by: str = AUTO
    seed: int = 0
    fetch: bool = True
    rules: FileRules = _AS_THE_FILE_SAYS


class Loaded(NamedTuple):
    """The training and the test rows, and lines about what was read and what was taken as what."""

    train: Dataset
    test: Dataset
    about: tuple[str, ...]


def load_dataset(spec: DataSpec) -> tuple[Dataset, Dataset]:
    """Return the training and the test rows, as ``load_described`` does."""
    loaded = load_described(spec)
    return loaded.train, loaded.test


def load_described(spec: DataSpec) -> Loaded:
    """Return the training and the test rows, and what was read.

    A set without official test rows holds out a random fifth. The seed decides which fifth, so a model must be tested
    with the seed of its training.

    Returns
    -------
    Loaded
        Features of the same columns, float64, C-contiguous or CSR, in the order of the source.

    Raises
    ------
    DataError
        When the data cannot be found, fetched or used.
    """
    train, test, about = _labelled(spec)
    return Loaded(train.finished(), test.finished(), about)


def load_rows(spec: DataSpec, choose: Callable[[Indices, Vector], Indices]) -> Dataset:
    """Return chosen training rows of ``load_dataset`` in a fraction of its memory: the others are not preprocessed.

    ``choose`` maps (labels, target) of all training rows to row numbers. Raises DataError as ``load_dataset`` does.
    """
    train = _labelled(spec)[0]
    return train.taken(choose(train.labels, train.target)).finished()


@dataclass(frozen=True)
class _Labelled:
    """Rows before preprocessing, with labels and target."""

    features: Features
    labels: Indices
    target: Vector
    transforms: tuple[str, ...]
    divisor: float
    standard: Standard | None

    def taken(self, rows: Indices) -> _Labelled:
        return replace(self, features=self.features[rows], labels=self.labels[rows], target=self.target[rows])

    def finished(self) -> Dataset:
        return Dataset(
            preprocess(self.features, self.transforms, self.divisor, self.standard), self.target, self.labels
        )


def _labelled(spec: DataSpec) -> tuple[_Labelled, _Labelled, tuple[str, ...]]:
    transforms = parse_transforms(spec.preprocess)
    chosen = parse_labels(spec.positive_labels)
    train, test, divisor, about = _parts(spec)
    train_labels, test_labels = (whole_labels(part.labels, spec.dataset, part.label) for part in (train, test))
    check_texts(spec.positive_labels, train.classes, train_labels)
    positive = choose_positive(chosen, np.concatenate([train_labels, test_labels]), spec.dataset)
    if spec.train_rows:
        rows = _subset(len(train_labels), spec)
        train, train_labels = _take(train, rows), train_labels[rows]
    texts = (spec.positive_labels, train.classes) if train.classes else ("", ())
    check_both_classes(binary_target(train_labels, positive), train_labels, positive, spec.dataset, texts)

    standard = None
    if "standardize" in transforms:
        by = spec.standardize_by
        by = columns_text(sums_of(train.features, divisor)) if by == AUTO else by
        standard = standard_of(by, train.features.shape[1])

    def labelled(part: RawRows, labels: Indices) -> _Labelled:
        return _Labelled(part.features, labels, binary_target(labels, positive), transforms, divisor, standard)

    about = f"{about}; positive: {texts[0] or ', '.join(map(str, sorted(positive)[:SHOWN_LABELS]))}"
    words = () if spec.dataset in NAMED_SETS else (*uneven_columns(train, transforms), *telling_columns(train))
    return labelled(train, train_labels), labelled(test, test_labels), (about, *words)


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
    part = read_file(_existing(path), columns, rules)
    labels = whole_labels(part.labels, path, part.label)
    check_texts(rules.positive_labels, part.classes, labels)
    return part._replace(labels=labels)


def standard_columns(spec: DataSpec) -> str:
    """Return mean:deviation of each column of the training rows; "auto" where there are more than MOST_COLUMNS.

    Raises DataError as ``load_dataset`` does.
    """
    train, _, divisor, _ = _parts(spec)
    if spec.train_rows:
        train = _take(train, _subset(len(train.labels), spec))
    return columns_text(sums_of(train.features, divisor)) if train.features.shape[1] <= MOST_COLUMNS else AUTO


def own_dataset(
    part: RawRows, positive_labels: str, transform_names: str, standardize_by: str = AUTO, *, settled: bool = True
) -> Dataset:
    """Return the rows of a client's own file, which may have one class only, as the model takes them.

    Parameters
    ----------
    part : RawRows
        Of ``load_own_rows``.
    positive_labels, transform_names, standardize_by : str
        As in DataSpec. "auto" is the server's to settle, from the labels and the sums of all clients.
    settled : bool
        False before the run begins: the target is then 0 where the positive labels are not known, and columns are not
        standardized where their sums are not.

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


def _parts(spec: DataSpec) -> tuple[RawRows, RawRows, float, str]:
    """Return the training and the test part of the source, the divisor of the features, and a line about both."""
    if spec.dataset in NAMED_SETS:
        train, test = read_named(spec.dataset, spec.data_dir, fetch=spec.fetch)
        divisor, about = NAMED_SETS[spec.dataset].divisor, about_rows(train)
    else:
        train = rows_in_memory(spec.dataset) or read_file(
            _existing(spec.dataset), rules=replace(spec.rules, positive_labels=spec.positive_labels)
        )
        test, divisor = None, 1.0
        about = about_rows(train)
    if test is not None:
        return train, test, divisor, f"{about}, and {len(test.labels)} rows to test on"
    train, test = _hold_out(train, spec)
    return train, test, divisor, f"{about}; {len(test.labels)} of them held out to test on"


def _existing(name: str) -> Path:
    """Return the path of an existing file. Raises DataError with the names of the known sets."""
    try:
        path = Path(name).expanduser()
        there = path.exists()
    except (OSError, ValueError, RuntimeError):  # a name too long, a null byte, an unknown ~user
        there = False
    if name and there:
        return path
    near = difflib.get_close_matches(name.lower(), NAMED_SETS, n=1)
    cure = f"did you mean '{near[0]}'?" if near else f"relative paths start at '{Path.cwd()}'"
    raise DataError(
        f"dataset must be a known name ({', '.join(NAMED_SETS)}) or the path of a file that exists,"
        f" got '{name}'; {cure}"
    )


def _hold_out(part: RawRows, spec: DataSpec) -> tuple[RawRows, RawRows]:
    """Deal a part into a training and a test part at random."""
    count = len(part.labels)
    if count < 2:
        raise DataError(
            f"data set '{spec.dataset}' must have at least two rows, one of them to test on, got {count}; add rows"
        )
    order = stream(spec.seed, "train-rows", 0, _HELD_OUT).permutation(count)
    cut = max(1, count // _HELD_OUT_SHARE)
    return _take(part, np.sort(order[cut:])), _take(part, np.sort(order[:cut]))


def _subset(count: int, spec: DataSpec) -> Indices:
    """Return train_rows of the training part's row numbers, in increasing order."""
    if not 0 <= spec.train_rows <= count:
        raise DataError(
            f"train-rows must be between 0 and {count}, the training rows of '{spec.dataset}',"
            f" got {spec.train_rows} (0 takes all)"
        )
    rows = stream(spec.seed, "train-rows", 0, _SUBSET).choice(count, spec.train_rows, replace=False)
    return np.sort(rows).astype(np.intp)


def _take(part: RawRows, rows: Indices) -> RawRows:
    return part._replace(features=part.features[rows], labels=part.labels[rows])
