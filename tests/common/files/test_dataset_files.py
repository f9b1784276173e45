"""Readers of one file: what goes in comes out, and each failure says what to do."""

from __future__ import annotations

import bz2
import gzip
import os
import re
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from zofedht.common.errors import DataError
from zofedht.common.files.dataset_files import FORMATS, read_file
from zofedht.common.files.reading import opened

_X = np.array([[0.5, 0.0, -2.0], [1.0, 3.25, 1e-7], [0.0, 0.0, 4.0]])
_Y = np.array([1.0, -1.0, 1.0])
_PIXELS = np.arange(3 * 2 * 4, dtype=np.uint8).reshape(3, 2, 4)
_DIGITS = np.array([7, 0, 9], dtype=np.uint8)


def _write(path: Path, text: str | bytes) -> Path:
    body = text.encode() if isinstance(text, str) else text
    pack: dict[str, Callable[[bytes], bytes]] = {".gz": gzip.compress, ".bz2": bz2.compress}
    path.write_bytes(pack.get(path.suffix, bytes)(body))
    return path


def _idx(array: Any) -> bytes:
    body: bytes = array.tobytes()
    return struct.pack(f">{array.ndim + 1}I", 0x800 + array.ndim, *array.shape) + body


def _write_images(folder: Path, end: str = "", images: bytes | None = None, labels: bytes | None = None) -> Path:
    _write(folder / f"some-labels-idx1-ubyte{end}", _idx(_DIGITS) if labels is None else labels)
    return _write(folder / f"some-images-idx3-ubyte{end}", _idx(_PIXELS) if images is None else images)


def _refused(path: Path, *words: str, n_features: int | None = None) -> None:
    with pytest.raises(DataError) as caught:
        read_file(path, n_features)
    text = str(caught.value)
    assert path.name.split("-")[0] in text
    for word in words:
        assert word in text


@pytest.mark.parametrize("keys", ["X y", "x y", "features labels", "data target"])
@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.float64])
def test_npz_keeps_numbers_and_dtype(tmp_path: Path, keys: str, dtype: type) -> None:
    features, labels = np.abs(_X).astype(dtype), np.array([3, 1, 2])
    path = tmp_path / "rows.npz"
    np.savez(path, **dict(zip(keys.split(), [features, labels], strict=True)))
    part = read_file(path)
    assert part.features.dtype == dtype
    np.testing.assert_array_equal(part.features, features)
    np.testing.assert_array_equal(part.labels, labels)


@pytest.mark.parametrize("indices_dtype", [np.int32, np.int64])
def test_sparse_npz_stays_sparse_with_narrow_indices(tmp_path: Path, indices_dtype: type) -> None:
    matrix = sparse.csr_array(_X)
    path = tmp_path / "rows.npz"
    indices, indptr = matrix.indices.astype(indices_dtype), matrix.indptr.astype(indices_dtype)
    np.savez(path, data=matrix.data, indices=indices, indptr=indptr, shape=matrix.shape, y=_Y)
    part = read_file(path)
    assert sparse.issparse(part.features)
    assert part.features.indices.dtype == part.features.indptr.dtype == np.int32
    np.testing.assert_array_equal(part.features.toarray(), _X)


def test_a_column_of_labels_becomes_a_vector(tmp_path: Path) -> None:
    np.savez(tmp_path / "rows.npz", X=_X, y=_Y[:, None])
    np.testing.assert_array_equal(read_file(tmp_path / "rows.npz").labels, _Y)


def test_pickled_arrays_are_never_loaded(tmp_path: Path) -> None:
    np.savez(tmp_path / "rows.npz", X=np.array([{"a": 1}], dtype=object), y=_Y)
    _refused(tmp_path / "rows.npz", "plain number arrays", "allow_pickle=False", "numpy.savez")


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"X": _X}, ("the arrays X and y", "got X", "rename")),
        ({"X": _X, "y": _Y[:2]}, ("one label for each row", "3 rows and 2 labels", "same samples")),
        ({"X": _X[:0], "y": _Y[:0]}, ("at least one row", "(0, 3)")),
        ({"X": _X[:, :0], "y": _Y}, ("one feature", "(3, 0)")),
        ({"X": _X.reshape(3, 3, 1), "y": _Y}, ("two axes", "(3, 3, 1)", "flatten")),
        ({"X": _X, "y": np.array(["a", "b", "c"])}, ("'a', 'b', 'c' as labels", "positive-labels=c")),
        ({"X": _X, "y": np.eye(3)}, ("labels of one", "one label for each row", "argmax")),
        ({"X": _X, "y": np.array(["a", "NA", "c"])}, ("have a label in every row", "'NA' in row 2")),
        ({"X": _X + 1j, "y": _Y}, ("real numbers", "complex128")),
        (
            {"X": np.where(_X == 3.25, np.nan, _X), "y": _Y},
            ("finite", "nan at row 2, column 2", "mend or drop"),
        ),
        ({"X": _X, "y": np.array([1, 2, np.inf])}, ("finite", "inf at row 3, column 1")),
        (
            {"data": _X[0], "indices": [0, 1, 9], "indptr": [0, 3], "shape": [1, 3], "y": [1]},
            ("valid CSR", "(1, 3)"),
        ),
        (
            {"data": _X[0], "indices": [0.0, 1, 2], "indptr": [0, 3], "shape": [1, 3], "y": [1]},
            ("integer indices",),
        ),
        (
            {
                "data": _X[0],
                "indices": [0, 1, 2],
                "indptr": [0, 3],
                "shape": [1, 3],
                "format": "csc",
                "y": [1],
            },
            ("as csr", "'csc'", ".tocsr()"),
        ),
        (
            {"data": [1.0, np.nan], "indices": [0, 2], "indptr": [0, 1, 2], "shape": [2, 3], "y": [1, 2]},
            ("finite", "nan at row 2, column 3"),
        ),
        (
            {"data": [1.0], "indices": [0], "indptr": [0, 1], "shape": [1, 2**31], "y": [1]},
            ("at most 2147483647",),
        ),
    ],
)
def test_an_npz_names_the_broken_rule(tmp_path: Path, arrays: dict[str, Any], words: tuple[str, ...]) -> None:
    np.savez(tmp_path / "rows.npz", **arrays)
    _refused(tmp_path / "rows.npz", *words)


def test_other_files_named_npz_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "rows.npy", _X)
    lone = (tmp_path / "rows.npy").rename(tmp_path / "rows.npz")
    _refused(lone, "npz archive", "numpy.savez")
    _refused(_write(lone, b"PK\x03\x04 broken"), "npz archive", "numpy.savez")
    _refused(_write(lone, b""), "rows.npz")
    np.savez_compressed(lone, X=_X, y=_Y)
    _refused(_write(lone, lone.read_bytes()[:200]), "npz archive")


@pytest.mark.parametrize("end", ["", ".gz", ".bz2"])
def test_csv_keeps_the_numbers_under_any_compression(tmp_path: Path, end: str) -> None:
    text = "\n".join(",".join(map(repr, [*row.tolist(), label])) for row, label in zip(_X, _Y.tolist(), strict=True))
    part = read_file(_write(tmp_path / f"rows.csv{end}", text))
    np.testing.assert_array_equal(part.features, _X)
    np.testing.assert_array_equal(part.labels, _Y)


@pytest.mark.parametrize(
    ("header", "labels"),
    [
        ("a,b,c", [3, 6]),
        ("label,b,c", [1, 4]),
        ("a,Target,c", [2, 5]),
        ('"a", "y" ,"c"', [2, 5]),
        ("x,y,label", [3, 6]),
        ("label,0,1", [1, 4]),
        ("\ufeffy,b,c", [1, 4]),
    ],
)
def test_csv_labels_are_the_named_or_last_column(tmp_path: Path, header: str, labels: list[int]) -> None:
    part = read_file(_write(tmp_path / "rows.csv", f"{header}\r\n1,2,3\r\n\r\n4,5,6\r\n"))
    np.testing.assert_array_equal(part.labels, labels)
    rest = [[cell for cell in row if cell not in labels] for row in ([1, 2, 3], [4, 5, 6])]
    np.testing.assert_array_equal(part.features, rest)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1,2\n3,abc\n", ("'abc' on line 2, column 2", "number all labels")),
        ("a,label\n\n1,2\n3,\n", ("an empty cell on line 4, column 2 ('label')",)),
        ("1,x,3\n4,5,6\n", ("'x' on line 1, column 2", "set csv-header = yes")),
        ("1,2\n3,4,5\n", ("2 cells", "got 3 on line 2", "mend the line")),
        ("a,label\n1,2,3\n", ("2 cells", "got 3 on line 2")),
        ("1,2\n3,nan\n", ("a value in every cell", "'nan' on line 2, column 2")),
        ("1,2\n3,inf\n", ("finite", "inf at row 2, column 2")),
        ("", ("at least one row", "got none")),
        ("a,label\n", ("at least one row", "got none")),
        ("1\n2\n", ("at least one feature", "got 1 column", "commas")),
        (b"1,2\n\xff\xfe,3\n", ("UTF-8",)),
    ],
)
def test_a_faulty_csv_names_the_line(tmp_path: Path, text: str | bytes, words: tuple[str, ...]) -> None:
    _refused(_write(tmp_path / "rows.csv", text), *words)


_SVM = "1 1:0.5 3:-2 # a comment\n-1 1:1 2:3.25 3:1e-7\n+1 3:4\n"


@pytest.mark.parametrize("name", ["rows.svm", "rows.svmlight", "rows.binary", "rows.txt", "rows.svm.gz", "rows.TXT"])
def test_svmlight_stays_sparse_with_narrow_indices(tmp_path: Path, name: str) -> None:
    part = read_file(_write(tmp_path / name, _SVM))
    assert sparse.issparse(part.features)
    assert part.features.format == "csr"
    assert part.features.indices.dtype == part.features.indptr.dtype == np.int32
    np.testing.assert_array_equal(part.features.toarray(), _X)
    np.testing.assert_array_equal(part.labels, _Y)


def test_svmlight_is_padded_and_never_cut(tmp_path: Path) -> None:
    path = _write(tmp_path / "rows.svm.bz2", _SVM)
    padded = read_file(path, n_features=5).features
    assert padded.shape == (3, 5)
    np.testing.assert_array_equal(padded[:, :3].toarray(), _X)
    _refused(path, "at most 2 features", "got index 3", n_features=2)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1 1:2\n1 2:abc\n", ("'2:abc' on line 2", "mend the line")),
        ("1 1:2\nyes 2:1\n", ("label 'yes' on line 2",)),
        ("1 1:2\n1 3:1 2:1\n", ("index 2 after index 3", "line 2")),
        ("1 -1:2\n", ("'-1:2' on line 1",)),
        ("1 1:2\n\n1 2:nan\n", ("finite", "nan at row 2, column 2")),
        ("", ("at least one row",)),
        ("1 1:1\n1 9999999999:2\n", ("index 9999999999 (at most 2147483647 fits) on line 2",)),
        ("1 " + "9" * 5000 + ":2\n", ("at most 2147483647 fits",)),
    ],
)
def test_a_faulty_svmlight_file_names_the_line(tmp_path: Path, text: str, words: tuple[str, ...]) -> None:
    _refused(_write(tmp_path / "rows.svm", text), *words)


@pytest.mark.parametrize("end", ["", ".gz"])
def test_idx_returns_one_row_of_pixels_for_each_image(tmp_path: Path, end: str) -> None:
    part = read_file(_write_images(tmp_path, end))
    assert part.features.dtype == np.uint8
    np.testing.assert_array_equal(part.features, _PIXELS.reshape(3, 8))
    np.testing.assert_array_equal(part.labels, _DIGITS)


@pytest.mark.parametrize(
    ("images", "labels", "words"),
    [
        (struct.pack(">4I", 2050, 3, 2, 4) + bytes(24), None, ("magic number 2051", "got 2050")),
        (_idx(_PIXELS)[:-1], None, ("24 bytes", "got 23 (damaged or truncated)", "fetch")),
        (_idx(_PIXELS) + b"x", None, ("24 bytes", "got 25 or more")),
        (_idx(_PIXELS)[:9], None, ("header of 16 bytes", "got 9")),
        (struct.pack(">4I", 2051, 0, 2, 4), None, ("length zero", "(0, 2, 4)")),
        (None, _idx(_DIGITS[:2]), ("as many labels", "3", "got 2")),
        (None, _idx(_PIXELS), ("magic number 2049", "got 2051")),
    ],
)
def test_an_idx_file_names_the_broken_rule(
    tmp_path: Path, images: bytes | None, labels: bytes | None, words: tuple[str, ...]
) -> None:
    _refused(_write_images(tmp_path, ".gz", images, labels), *words)


def test_an_idx_header_that_promises_terabytes_costs_nothing(tmp_path: Path) -> None:
    huge = struct.pack(">4I", 2051, *[2**32 - 1] * 3) + bytes(100)
    _refused(_write_images(tmp_path, ".gz", huge), f"{(2**32 - 1) ** 3} bytes", "got 100")


def test_idx_needs_its_labels_beside_it(tmp_path: Path) -> None:
    path = _write_images(tmp_path)
    (tmp_path / "some-labels-idx1-ubyte").unlink()
    _refused(path, "must have its labels beside it", "some-labels-idx1-ubyte", "put it there")
    path = _write(tmp_path / "other-idx3-ubyte", _idx(_PIXELS))
    _refused(path, "must have its labels beside it")


def test_a_labels_file_is_not_a_data_set(tmp_path: Path) -> None:
    _write_images(tmp_path)
    _refused(tmp_path / "some-labels-idx1-ubyte", "labels only", "images-idx3-ubyte")


@pytest.mark.parametrize("name", ["some-images-idx3-ubyte.gz", "some.csv.gz", "some.csv.bz2", "some.svm.bz2"])
@pytest.mark.parametrize("cut", [4, 30, -1])
def test_truncated_compression_is_named(tmp_path: Path, name: str, cut: int) -> None:
    if "idx3" in name:
        _write_images(tmp_path, ".gz")
    path = tmp_path / name
    if "idx3" not in name:
        pattern = "{0},2,3\n" if "csv" in name else "{0} 1:2\n"
        _write(path, "".join(pattern.format(row * row) for row in range(50)))
    path.write_bytes(path.read_bytes()[:cut])
    _refused(path, "truncated", "fetch the file again")


def test_damaged_or_misnamed_compression_is_named(tmp_path: Path) -> None:
    for name in ("some.csv.gz", "some.csv.bz2"):
        (tmp_path / name).write_bytes(b"1,2,3\n" * 10)
        _refused(tmp_path / name, "must be readable", "wrong suffix")
    path = _write(tmp_path / "some.csv.gz", "1,2,3\n" * 50)
    body = bytearray(path.read_bytes())
    body[-8] ^= 1
    path.write_bytes(body)
    _refused(path, "must be readable", "fetch a damaged file again")


def test_missing_files_and_folders_are_named(tmp_path: Path) -> None:
    _refused(tmp_path / "rows.csv", "does not exist", "check the path")
    (tmp_path / "rows.csv").mkdir()
    _refused(tmp_path / "rows.csv", "is a folder", "name the file inside")


@pytest.mark.parametrize("name", ["rows.feather", "rows", "rows.gz", "rows.npz.gz", "rows.csv.zip"])
def test_an_unknown_suffix_lists_the_supported_ones(tmp_path: Path, name: str) -> None:
    _refused(tmp_path / name, f"'{name}'", "convert", *FORMATS)


def test_dense_files_must_have_the_columns_wanted(tmp_path: Path) -> None:
    path = _write(tmp_path / "rows.csv", "1,2,0\n3,4,1\n")
    assert read_file(path, n_features=2).features.shape == (2, 2)
    _refused(path, "must have 4 features", "got 2", n_features=4)


def test_the_official_mnist_files_hold_the_official_counts(shared_data: Path) -> None:
    train = read_file(shared_data / "mnist" / "train-images-idx3-ubyte.gz")
    counts = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert train.features.shape == (60_000, 784)
    assert np.bincount(train.labels).tolist() == counts
    assert train.features.mean() / 255 == pytest.approx(0.130660, abs=1e-6)
    assert train.features.std() / 255 == pytest.approx(0.308108, abs=1e-6)


def test_error_texts_are_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        read_file(tmp_path / "rows.csv")
    assert re.search(r"\.\s|\n", str(caught.value)) is None


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes with names")
def test_a_pipe_is_no_data_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "rows.csv")
    with pytest.raises(DataError, match="must be a regular file"), opened(tmp_path / "rows.csv"):
        pass
