"""The data of a run, training and test, by name or from a file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

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
from zofedht.common.data.named_sets import NAMED_SETS, existing_file, read_named
from zofedht.common.data.preprocessing import preprocess
from zofedht.common.data.standard import MOST_COLUMNS, Standard, columns_text, standard_of, sums_of
from zofedht.common.errors import DataError
from zofedht.common.files.dataset_files import read_file
from zofedht.common.files.reading import FileRules, RawRows
from zofedht.common.files.tables import rows_in_memory
from zofedht.common.random.streams import stream
from zofedht.common.typing import Features, Indices, Vector

__all__ = ["DataSpec", "load_dataset", "load_described", "load_rows", "standard_columns"]

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


def standard_columns(spec: DataSpec) -> str:
    """Return mean:deviation of each column of the training rows; "auto" where there are more than MOST_COLUMNS.

    Raises DataError as ``load_dataset`` does.
    """
    train, _, divisor, _ = _parts(spec)
    if spec.train_rows:
        train = _take(train, _subset(len(train.labels), spec))
    return columns_text(sums_of(train.features, divisor)) if train.features.shape[1] <= MOST_COLUMNS else AUTO


def _parts(spec: DataSpec) -> tuple[RawRows, RawRows, float, str]:
    """Return the training and the test part of the source, the divisor of the features, and a line about both."""
    if spec.dataset in NAMED_SETS:
        train, test = read_named(spec.dataset, spec.data_dir, fetch=spec.fetch)
        divisor, about = NAMED_SETS[spec.dataset].divisor, about_rows(train)
    else:
        train = rows_in_memory(spec.dataset) or read_file(
            existing_file(spec.dataset), rules=replace(spec.rules, positive_labels=spec.positive_labels)
        )
        test, divisor = None, 1.0
        about = about_rows(train)
    if test is not None:
        return train, test, divisor, f"{about}, and {len(test.labels)} rows to test on"
    train, test = _hold_out(train, spec)
    return train, test, divisor, f"{about}; {len(test.labels)} of them held out to test on"


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
