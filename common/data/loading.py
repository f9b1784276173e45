"""load_dataset: the data a run trains and is tested on, by name or from a file."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from zofedht.common.data.dataset import Dataset
from zofedht.common.data.files import read_file
from zofedht.common.data.labels import (
    AUTO,
    binary_target,
    check_both_classes,
    choose_positive,
    parse_labels,
    whole_labels,
)
from zofedht.common.data.named_sets import NAMED_SETS, read_named
from zofedht.common.data.preprocessing import parse_steps, preprocess
from zofedht.common.data.reading import Part
from zofedht.common.errors import DataError
from zofedht.common.random.streams import stream
from zofedht.common.typing import Features, Indices, Vector

__all__ = ["DataSpec", "load_dataset", "load_own_rows", "load_rows"]

_HELD_OUT, _SUBSET = 0, 1  # slots of the stream "train-rows"
_HELD_OUT_SHARE = 5  # one row in five is held out


@dataclass(frozen=True)
class DataSpec:
    """What to load.

    dataset: a name of NAMED_SETS, or the path of a file. data_dir: folder of the large sets; empty for
    the user's cache. train_rows: size of a random subset of the training part; 0 takes all.
    positive_labels: see ``parse_labels``. preprocess: see ``parse_steps``. seed: names the held-out
    fifth and the subset. fetch: whether a named set may be fetched over the network.
    """

    dataset: str = "digits"
    data_dir: str = ""
    train_rows: int = 0
    positive_labels: str = AUTO
    preprocess: str = "bias,unit-norm"
    seed: int = 0
    fetch: bool = True


def load_dataset(spec: DataSpec) -> tuple[Dataset, Dataset]:
    """Return (training, test); both have the same columns, float64, C-contiguous or CSR.

    The test part is the official one; where there is none, a fifth of the rows, held out at random.
    That fifth depends on the run's seed: runs of several seeds then also vary the split, and one number
    names all that is random. So a model must be tested with the seed that it was trained with.
    Rows keep the order of their source. Raises DataError when the data cannot be had or used.
    """
    train, test = _labelled(spec)
    return train.finished(), test.finished()


def load_rows(spec: DataSpec, choose: Callable[[Indices, Vector], Indices]) -> Dataset:
    """Return some training rows, the same as ``load_dataset`` would give, without preparing the others.

    ``choose`` maps (labels, target) of all training rows to row numbers. A device that holds one share of a
    large set needs a fraction of the memory. Raises DataError as ``load_dataset`` does.
    """
    train, _ = _labelled(spec)
    return train.taken(choose(train.labels, train.target)).finished()


@dataclass(frozen=True)
class _Labelled:
    """A part as it was read, with its labels and target; preprocessing is row by row and comes last."""

    features: Features
    labels: Indices
    target: Vector
    steps: tuple[str, ...]
    divisor: float

    def taken(self, rows: Indices) -> _Labelled:
        return replace(self, features=self.features[rows], labels=self.labels[rows], target=self.target[rows])

    def finished(self) -> Dataset:
        return Dataset(preprocess(self.features, self.steps, self.divisor), self.target, self.labels)


def _labelled(spec: DataSpec) -> tuple[_Labelled, _Labelled]:
    steps = parse_steps(spec.preprocess)
    chosen = parse_labels(spec.positive_labels)
    train, test, divisor = _parts(spec)
    train_labels, test_labels = (whole_labels(part.labels, spec.dataset) for part in (train, test))
    positive = choose_positive(chosen, np.concatenate([train_labels, test_labels]), spec.dataset)
    if spec.train_rows:
        rows = _subset(len(train_labels), spec)
        train, train_labels = _take(train, rows), train_labels[rows]
    check_both_classes(binary_target(train_labels, positive), train_labels, positive, spec.dataset)

    def labelled(part: Part, labels: Indices) -> _Labelled:
        return _Labelled(part.features, labels, binary_target(labels, positive), steps, divisor)

    return labelled(train, train_labels), labelled(test, test_labels)


def load_own_rows(path: str, positive_labels: str, preprocess_steps: str, dimension: int) -> Dataset:
    """Return all rows of a client's own file; a single class is fine, since others may hold the other.

    ``dimension`` is the number of columns after preprocessing where it is known, else 0: a sparse file may
    lack its last ones. Under ``auto`` label 1 is positive among -1, 0 and 1, labels 5-9 among 0 to 9.

    Raises DataError.
    """
    steps = parse_steps(preprocess_steps)
    columns = dimension - ("bias" in steps) if dimension else None
    part = read_file(_existing(path), columns)
    labels = whole_labels(part.labels, path)
    positive = parse_labels(positive_labels) or _own_positive(labels, path)
    return Dataset(preprocess(part.features, steps), binary_target(labels, positive), labels)


def _own_positive(labels: Indices, path: str) -> frozenset[int]:
    found = set(labels.tolist())
    for known, positive in (({-1, 0, 1}, {1}), (set(range(10)), set(range(5, 10)))):
        if found <= known:
            return frozenset(positive)
    shown = ", ".join(str(label) for label in sorted(found)[:10])
    raise DataError(f"positive-labels must be set on the server for the labels of '{path}' ({shown})")


def _parts(spec: DataSpec) -> tuple[Part, Part, float]:
    """Return the two parts as found and the number to divide features by."""
    if spec.dataset in NAMED_SETS:
        train, test = read_named(spec.dataset, spec.data_dir, fetch=spec.fetch)
        divisor = NAMED_SETS[spec.dataset].divisor
    else:
        train, test, divisor = read_file(_existing(spec.dataset)), None, 1.0
    if test is None:
        train, test = _hold_out(train, spec)
    return train, test, divisor


def _existing(name: str) -> Path:
    """Return the path of a file that is there; raise DataError with the known names otherwise."""
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


def _hold_out(part: Part, spec: DataSpec) -> tuple[Part, Part]:
    """Cut a part in a training and a test part at random."""
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


def _take(part: Part, rows: Indices) -> Part:
    return Part(part.features[rows], part.labels[rows])
