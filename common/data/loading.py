"""The data of a run, training and test, by name or from a file; and the rows of a client's own file."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from zofedht.common.choices import AUTO, parse_labels, parse_transforms
from zofedht.common.data.dataset import Dataset
from zofedht.common.data.files import read_file
from zofedht.common.data.labels import (
    binary_target,
    check_both_classes,
    choose_positive,
    whole_labels,
)
from zofedht.common.data.named_sets import NAMED_SETS, read_named
from zofedht.common.data.preprocessing import preprocess
from zofedht.common.data.reading import RawRows
from zofedht.common.errors import DataError
from zofedht.common.random.streams import stream
from zofedht.common.typing import Features, Indices, Vector

__all__ = ["DataSpec", "load_dataset", "load_own_rows", "load_rows"]

_HELD_OUT, _SUBSET = 0, 1  # slots of the stream "train-rows"
_HELD_OUT_SHARE = 5  # one row in five is held out


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
    positive_labels, preprocess : str
        As ``parse_labels`` and ``parse_transforms`` read them.
    seed : int
        Decides the held-out fifth and the subset.
    fetch : bool
        Whether a named set may be fetched over the network.
    """

    dataset: str = "digits"
    data_dir: str = ""
    train_rows: int = 0
    positive_labels: str = AUTO
    preprocess: str = "bias,unit-norm"
    seed: int = 0
    fetch: bool = True


def load_dataset(spec: DataSpec) -> tuple[Dataset, Dataset]:
    """Return the training and the test rows.

    A set without official test rows holds out a random fifth. The seed decides which fifth, so a model must be tested
    with the seed of its training.

    Returns
    -------
    training, test : Dataset
        Features of the same columns, float64, C-contiguous or CSR, in the order of the source.

    Raises
    ------
    DataError
        When the data cannot be found, fetched or used.
    """
    train, test = _labelled(spec)
    return train.finished(), test.finished()


def load_rows(spec: DataSpec, choose: Callable[[Indices, Vector], Indices]) -> Dataset:
    """Return chosen training rows of ``load_dataset`` in a fraction of its memory: the others are not preprocessed.

    ``choose`` maps (labels, target) of all training rows to row numbers. Raises DataError as ``load_dataset`` does.
    """
    train, _ = _labelled(spec)
    return train.taken(choose(train.labels, train.target)).finished()


@dataclass(frozen=True)
class _Labelled:
    """Rows before preprocessing, with labels and target."""

    features: Features
    labels: Indices
    target: Vector
    transforms: tuple[str, ...]
    divisor: float

    def taken(self, rows: Indices) -> _Labelled:
        return replace(self, features=self.features[rows], labels=self.labels[rows], target=self.target[rows])

    def finished(self) -> Dataset:
        return Dataset(preprocess(self.features, self.transforms, self.divisor), self.target, self.labels)


def _labelled(spec: DataSpec) -> tuple[_Labelled, _Labelled]:
    transforms = parse_transforms(spec.preprocess)
    chosen = parse_labels(spec.positive_labels)
    train, test, divisor = _parts(spec)
    train_labels, test_labels = (whole_labels(part.labels, spec.dataset) for part in (train, test))
    positive = choose_positive(chosen, np.concatenate([train_labels, test_labels]), spec.dataset)
    if spec.train_rows:
        rows = _subset(len(train_labels), spec)
        train, train_labels = _take(train, rows), train_labels[rows]
    check_both_classes(binary_target(train_labels, positive), train_labels, positive, spec.dataset)

    def labelled(part: RawRows, labels: Indices) -> _Labelled:
        return _Labelled(part.features, labels, binary_target(labels, positive), transforms, divisor)

    return labelled(train, train_labels), labelled(test, test_labels)


def load_own_rows(path: str, positive_labels: str, transform_names: str, dimension: int) -> Dataset:
    """Return all rows of a client's own file, which may have one class only.

    Under ``auto`` label 1 is positive among -1, 0 and 1, and labels 5 to 9 are positive among 0 to 9.

    Parameters
    ----------
    path : str
    positive_labels, transform_names : str
        As in DataSpec.
    dimension : int
        The number of columns after preprocessing, since a sparse file may lack its last columns; 0 if unknown.

    Raises
    ------
    DataError
        When the file cannot be read or used.
    """
    transforms = parse_transforms(transform_names)
    columns = dimension - ("bias" in transforms) if dimension else None
    part = read_file(_existing(path), columns)
    labels = whole_labels(part.labels, path)
    positive = parse_labels(positive_labels) or _own_positive(labels, path)
    return Dataset(preprocess(part.features, transforms), binary_target(labels, positive), labels)


def _own_positive(labels: Indices, path: str) -> frozenset[int]:
    found = set(labels.tolist())
    for known, positive in (({-1, 0, 1}, {1}), (set(range(10)), set(range(5, 10)))):
        if found <= known:
            return frozenset(positive)
    shown = ", ".join(str(label) for label in sorted(found)[:10])
    raise DataError(f"positive-labels must be set on the server for the labels of '{path}' ({shown})")


def _parts(spec: DataSpec) -> tuple[RawRows, RawRows, float]:
    """Return the training and the test part of the source, and the divisor of the features."""
    if spec.dataset in NAMED_SETS:
        train, test = read_named(spec.dataset, spec.data_dir, fetch=spec.fetch)
        divisor = NAMED_SETS[spec.dataset].divisor
    else:
        train, test, divisor = read_file(_existing(spec.dataset)), None, 1.0
    if test is None:
        train, test = _hold_out(train, spec)
    return train, test, divisor


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
    return RawRows(part.features[rows], part.labels[rows])
