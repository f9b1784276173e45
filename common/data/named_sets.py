"""The data sets known by name: their files, and the fetcher of missing files.

A new set is a new row of NAMED_SETS.
"""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from zofedht.common.errors import DataError
from zofedht.common.files.dataset_files import read_file
from zofedht.common.files.reading import RawRows
from zofedht.common.machine.cache import data_folder

__all__ = ["NAMED_SETS", "NamedSet", "existing_file", "read_named"]

_IMAGES = ("train-images-idx3-ubyte", "t10k-images-idx3-ubyte")
_IMAGE_TRAIN_ROWS = 60_000
_RCV1_FEATURES = 47_236
_RCV1_TRAIN_ROWS = 23_149  # of the chronological LYRL2004 split, before the two-sided documents are dropped
# Without a network a fetch must fail soon; the error then names the files.
_SOON: dict[str, Any] = {"n_retries": 1, "delay": 0.1}


@dataclass(frozen=True)
class NamedSet:
    """The source of a set.

    Attributes
    ----------
    fetch : callable
        Maps the data folder to (training part, official test part or None) where the files are missing.
    files : pairs (training file, test file)
        Tried in order; empty for an embedded set.
    n_features : int or None
        Columns of sparse files.
    divisor : float
        The features are divided by it.
    """

    fetch: Callable[[Path], tuple[RawRows, RawRows | None]]
    files: tuple[tuple[str, str], ...] = ()
    n_features: int | None = None
    divisor: float = 1.0


def read_named(name: str, data_dir: str, *, fetch: bool = True) -> tuple[RawRows, RawRows | None]:
    """Return the training part of a set, and its official test part or None.

    Looks for files in the subfolder with the name of the set, then in the data folder, then calls the fetcher if
    ``fetch`` is True. Raises DataError with the files, the folders and the fetcher's failure.
    """
    entry = NAMED_SETS[name]
    if not entry.files:
        return entry.fetch(Path())
    base = data_folder(data_dir)
    folders = [base / name, base]
    if base.resolve().name in NAMED_SETS.keys() - {name}:
        folders = folders[:1]  # mnist and fashion-mnist share their file names
    for folder in folders:
        for train, test in entry.files:
            if _present(folder / train) and _present(folder / test):
                part = read_file(folder / train, entry.n_features)
                return part, read_file(folder / test, part.features.shape[1])
    wanted = " or ".join(", ".join(_with_labels(pair)) for pair in entry.files)
    lacking = (
        f"data set '{name}' needs the files {wanted}, which are not in"
        f" {' nor in '.join(repr(str(folder)) for folder in folders)}"
    )
    if not fetch:
        raise DataError(
            f"{lacking}; put the files there, name their folder with --data-dir, or allow this device to fetch them"
            f" with --dataset {name} (a server cannot)",
            public_text=f"the client has no files of the data set '{name}'",
        )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # each failed try warns; the error reports the last one
            return entry.fetch(base)
    except Exception as error:  # of any kind: the way out is the same
        raise DataError(
            f"{lacking}, and scikit-learn could not fetch it ({type(error).__name__}: {error}); put the files there"
            " or set data-dir"
        ) from error


def _present(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a folder without permission counts as empty; the error names it
        return False


def _with_labels(pair: tuple[str, str]) -> list[str]:
    """Return the names of a pair, and after each IDX images file the name of its labels file."""
    both = [(name, name.replace("images-idx3", "labels-idx1")) for name in pair]
    return list(dict.fromkeys(name for names in both for name in names))


def _embedded_digits(folder: Path) -> tuple[RawRows, None]:
    from sklearn.datasets import load_digits  # takes a second: only where it is needed

    digits = load_digits()
    return RawRows(digits.data, digits.target), None


def _fetch_images(folder: Path, openml_name: str) -> tuple[RawRows, RawRows]:
    """Fetch 70,000 images, the 10,000 official test images last; as uint8, an eighth of the size."""
    from sklearn.datasets import fetch_openml

    # liac-arff is the parser that needs no pandas.
    fetched = fetch_openml(openml_name, version=1, parser="liac-arff", as_frame=False, data_home=str(folder), **_SOON)
    pixels, labels = np.asarray(fetched.data).astype(np.uint8), np.asarray(fetched.target).astype(np.intp)
    head, tail = slice(None, _IMAGE_TRAIN_ROWS), slice(_IMAGE_TRAIN_ROWS, None)
    return RawRows(pixels[head], labels[head]), RawRows(pixels[tail], labels[tail])


def _fetch_rcv1(folder: Path) -> tuple[RawRows, RawRows]:
    """Fetch RCV1-v2: +1 for CCAT or ECAT, -1 for GCAT or MCAT, documents of both or neither dropped."""
    from sklearn.datasets import fetch_rcv1

    fetched = fetch_rcv1(data_home=str(folder), **_SOON)
    names = list(fetched.target_names)

    def has(*topics: str) -> Any:
        columns = [names.index(topic) for topic in topics]
        return np.asarray(fetched.target[:, columns].sum(axis=1)).ravel() > 0

    positive, negative = has("CCAT", "ECAT"), has("GCAT", "MCAT")
    kept = np.flatnonzero(positive != negative)
    cut = int(np.searchsorted(kept, _RCV1_TRAIN_ROWS))
    labels = np.where(positive, 1, -1)
    parts = [RawRows(fetched.data[rows], labels[rows]) for rows in (kept[:cut], kept[cut:])]
    return parts[0], parts[1]


def _image_files() -> tuple[tuple[str, str], ...]:
    train, test = _IMAGES
    return ((f"{train}.gz", f"{test}.gz"), (train, test))


NAMED_SETS: dict[str, NamedSet] = {
    "digits": NamedSet(_embedded_digits, divisor=16.0),
    "mnist": NamedSet(partial(_fetch_images, openml_name="mnist_784"), _image_files(), divisor=255.0),
    "fashion-mnist": NamedSet(partial(_fetch_images, openml_name="Fashion-MNIST"), _image_files(), divisor=255.0),
    "rcv1": NamedSet(
        _fetch_rcv1,
        (("rcv1_train.svm.bz2", "rcv1_test.svm.bz2"), ("rcv1_train.binary.bz2", "rcv1_test.binary.bz2")),
        n_features=_RCV1_FEATURES,
    ),
}


def existing_file(name: str) -> Path:
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
