"""load_dataset: names, files, fetchers, the split, the subset and the preprocessing."""

from __future__ import annotations

import bz2
import gzip
import struct
import tracemalloc
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn import datasets as sklearn_datasets

from zofedht.common.choices import parse_transforms
from zofedht.common.data import named_sets
from zofedht.common.data.about import about_rows
from zofedht.common.data.dataset import Dataset
from zofedht.common.data.loading import DataSpec, load_dataset
from zofedht.common.data.own_rows import load_own_rows, own_dataset
from zofedht.common.data.preprocessing import preprocess
from zofedht.common.errors import DataError
from zofedht.common.files.reading import FileRules
from zofedht.common.machine.cache import data_folder

_GENERATOR = np.random.default_rng(3)


def _sparse(data: Dataset) -> Any:
    """Return the features of a set, which must be sparse and have narrow indices."""
    features: Any = data.features
    assert sparse.issparse(features)
    assert features.indices.dtype == features.indptr.dtype == np.int32
    return features


def _dense(features: Any) -> Any:
    return features.toarray() if sparse.issparse(features) else features


def _csv(folder: Path, labels: Any, name: str = "rows.csv") -> str:
    """Write rows whose one feature is the row number, from 1."""
    path = folder / name
    path.write_text("".join(f"{row},{label}\n" for row, label in enumerate(labels, start=1)))
    return str(path)


def _rows(data: Dataset) -> list[int]:
    return [int(row) for row in _dense(data.features)[:, 0]]


def _plain(dataset: str, **fields: Any) -> tuple[Dataset, Dataset]:
    return load_dataset(DataSpec(dataset, preprocess="none", **fields))


# --- named sets


def test_digits_need_no_files() -> None:
    train, test = load_dataset(DataSpec())
    assert (len(train), len(test)) == (1438, 359)
    for data in (train, test):
        assert data.features.shape == (len(data), 65)
        assert data.features.dtype == np.float64
        assert data.features.flags.c_contiguous
        np.testing.assert_allclose(np.linalg.norm(data.features, axis=1), 1.0, rtol=1e-14)
        np.testing.assert_array_equal(data.target, data.labels >= 5)
    pixels = np.concatenate([part.features for part in _plain("digits")])
    assert (pixels.min(), pixels.max()) == (0.0, 1.0)


def _write_images(folder: Path, train_rows: int = 20, test_rows: int = 10) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for part, rows in (("train", train_rows), ("t10k", test_rows)):
        pixels = np.full((rows, 2, 2), 51, np.uint8)
        for name, head, body in (
            ("images-idx3", struct.pack(">4I", 2051, rows, 2, 2), pixels.tobytes()),
            ("labels-idx1", struct.pack(">2I", 2049, rows), bytes(row % 10 for row in range(rows))),
        ):
            (folder / f"{part}-{name}-ubyte.gz").write_bytes(gzip.compress(head + body))


@pytest.mark.parametrize("place", [".", "mnist"])
def test_large_sets_may_lie_in_a_subfolder(tmp_path: Path, place: str) -> None:
    _write_images(tmp_path / place)
    train, test = _plain("mnist", data_dir=str(tmp_path))
    assert (len(train), len(test)) == (20, 10)
    np.testing.assert_array_equal(train.features, 0.2)


def test_the_subfolder_named_after_the_set_comes_first(tmp_path: Path) -> None:
    _write_images(tmp_path, train_rows=10)
    _write_images(tmp_path / "fashion-mnist", train_rows=30)
    assert len(_plain("fashion-mnist", data_dir=str(tmp_path))[0]) == 30


def test_the_users_cache_is_the_data_folder_by_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    _write_images(tmp_path / "zofedht" / "mnist")
    assert len(_plain("mnist")[0]) == 20
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert data_folder("") == tmp_path / "home" / ".cache" / "zofedht"


def _failing(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: Any, **options: Any) -> None:
        raise OSError("no route to the host")

    monkeypatch.setattr(sklearn_datasets, "fetch_openml", fail)
    monkeypatch.setattr(sklearn_datasets, "fetch_rcv1", fail)


@pytest.mark.parametrize(
    ("name", "files"),
    [
        ("mnist", [f"{p}-{k}-ubyte.gz" for p in ("train", "t10k") for k in ("images-idx3", "labels-idx1")]),
        (
            "rcv1",
            ["rcv1_train.svm.bz2", "rcv1_test.svm.bz2", "rcv1_train.binary.bz2", "rcv1_test.binary.bz2"],
        ),
    ],
)
def test_a_missing_set_names_files_folders_and_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, files: list[str]
) -> None:
    _failing(monkeypatch)
    with pytest.raises(DataError) as caught:
        load_dataset(DataSpec(name, data_dir=str(tmp_path)))
    text = str(caught.value)
    for words in (
        *files,
        repr(str(tmp_path)),
        repr(str(tmp_path / name)),
        "no route to the host",
        "set data-dir",
    ):
        assert words in text


def test_the_folder_of_another_set_is_not_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _failing(monkeypatch)
    _write_images(tmp_path / "mnist")
    with pytest.raises(DataError, match="data set 'fashion-mnist' needs the files"):
        load_dataset(DataSpec("fashion-mnist", data_dir=str(tmp_path / "mnist")))
    assert len(load_dataset(DataSpec("mnist", data_dir=str(tmp_path / "mnist")))[0]) == 20


def test_a_damaged_file_is_reported_and_not_fetched_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _failing(monkeypatch)
    _write_images(tmp_path)
    path = tmp_path / "train-images-idx3-ubyte.gz"
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(DataError, match=r"train-images-idx3-ubyte\.gz.*truncated"):
        load_dataset(DataSpec("mnist", data_dir=str(tmp_path)))


@pytest.mark.parametrize(("name", "asked"), [("mnist", "mnist_784"), ("fashion-mnist", "Fashion-MNIST")])
def test_missing_images_are_fetched_into_the_data_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, asked: str
) -> None:
    calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = []

    def fetch(*args: Any, **options: Any) -> SimpleNamespace:
        calls.append((args, options))
        target = np.array([str(row % 10) for row in range(70_000)], dtype=object)
        data = np.zeros((70_000, 2))
        data[60_000:] = 255.0
        return SimpleNamespace(data=data, target=target)

    monkeypatch.setattr(sklearn_datasets, "fetch_openml", fetch)
    train, test = _plain(name, data_dir=str(tmp_path))
    assert (len(train), len(test)) == (60_000, 10_000)
    assert (train.features.max(), test.features.min()) == (0.0, 1.0)
    np.testing.assert_array_equal(train.labels, np.arange(60_000) % 10)
    [(args, options)] = calls
    assert args == (asked,)
    assert options["data_home"] == str(tmp_path)
    assert (options["parser"], options["as_frame"], options["n_retries"]) == ("liac-arff", False, 1)


def test_fetched_rcv1_keeps_documents_of_one_side_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    topics = ["C11", "CCAT", "ECAT", "GCAT", "M11", "MCAT"]
    kinds = np.array(
        [
            [1, 1, 0, 0, 0, 0],
            [0, 0, 0, 1, 0, 0],
            [0, 1, 0, 1, 0, 0],
            [1, 0, 0, 0, 1, 0],
            [0, 0, 1, 0, 0, 0],
            [0, 1, 1, 0, 0, 0],
            [0, 0, 0, 0, 1, 1],
        ],
        np.uint8,
    )
    data = sparse.csr_array(np.arange(1.0, 8.0)[:, None])
    bunch = SimpleNamespace(data=data, target=sparse.csr_array(kinds), target_names=np.array(topics, dtype=object))
    monkeypatch.setattr(sklearn_datasets, "fetch_rcv1", lambda **options: bunch)
    monkeypatch.setattr(named_sets, "_RCV1_TRAIN_ROWS", 5)
    train, test = _plain("rcv1", data_dir=str(tmp_path))
    assert (_rows(train), train.labels.tolist(), train.target.tolist()) == (
        [1, 2, 5],
        [1, -1, 1],
        [1.0, 0.0, 1.0],
    )
    assert (_rows(test), test.labels.tolist()) == ([6, 7], [1, -1])


@pytest.mark.parametrize("end", ["svm", "binary"])
def test_rcv1_test_rows_have_all_training_columns(tmp_path: Path, end: str) -> None:
    (tmp_path / f"rcv1_train.{end}.bz2").write_bytes(bz2.compress(b"1 1:3 47236:4\n-1 2:1\n"))
    (tmp_path / f"rcv1_test.{end}.bz2").write_bytes(bz2.compress(b"-1 1:1\n"))
    train, test = load_dataset(DataSpec("rcv1", data_dir=str(tmp_path)))
    for data in (train, test):
        features = _sparse(data)
        assert features.shape == (len(data), 47_237)
        np.testing.assert_allclose(np.sqrt(features.multiply(features).sum(axis=1)), 1.0, rtol=1e-14)


def test_mnist_has_the_published_class_counts(shared_data: Path) -> None:
    train, test = load_dataset(DataSpec("mnist", data_dir=str(shared_data), preprocess="none"))
    assert (len(train), len(test)) == (60_000, 10_000)
    assert (train.target.sum(), test.target.sum()) == (29_404, 4_861)
    assert np.bincount(test.labels).tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]


def test_the_papers_training_set_is_48000_by_785(shared_data: Path) -> None:
    train, test = load_dataset(DataSpec("mnist", data_dir=str(shared_data), train_rows=48_000))
    assert train.features.shape == (48_000, 785)
    assert test.features.shape == (10_000, 785)
    assert train.features.flags.c_contiguous


def test_fashion_mnist_has_the_published_class_counts(shared_data: Path) -> None:
    train, test = load_dataset(DataSpec("fashion-mnist", data_dir=str(shared_data), preprocess="none"))
    assert np.bincount(train.labels).tolist() == [6_000] * 10
    assert np.bincount(test.labels).tolist() == [1_000] * 10
    assert train.features.mean() == pytest.approx(0.286041, abs=1e-6)


def test_rcv1_has_the_published_counts_and_stays_sparse(shared_data: Path) -> None:
    train, test = load_dataset(DataSpec("rcv1", data_dir=str(shared_data), preprocess="none"))
    assert train.features.shape == (20_242, 47_236)
    assert test.features.shape == (3_485, 47_236)
    assert (_sparse(train).nnz, _sparse(test).nnz) == (1_520_430, 261_441)
    assert (train.target.sum(), test.target.sum()) == (10_049, 1_771)
    assert set(np.unique(train.labels)) == {-1, 1}


# --- files, the split and the subset


@pytest.mark.parametrize("count", [2, 4, 5, 103])
def test_a_fifth_of_a_file_is_held_out(tmp_path: Path, count: int) -> None:
    path = _csv(tmp_path, [0, 1] * count)
    train, test = _plain(path)
    assert len(test) == max(1, 2 * count // 5)
    assert sorted(_rows(train) + _rows(test)) == list(range(1, 2 * count + 1))
    assert _rows(train) == sorted(_rows(train))
    assert all(
        label == (row + 1) % 2 for data in (train, test) for row, label in zip(_rows(data), data.labels, strict=True)
    )


def test_split_and_subset_are_functions_of_the_seed(tmp_path: Path) -> None:
    path = _csv(tmp_path, [0, 1] * 50)
    for fields in ({}, {"train_rows": 40}):
        first, again, other = (_plain(path, seed=seed, **fields) for seed in (1, 1, 2))
        assert [_rows(part) for part in first] == [_rows(part) for part in again]
        assert [_rows(part) for part in first] != [_rows(part) for part in other]


def test_a_subset_is_taken_from_the_training_part_alone(tmp_path: Path) -> None:
    path = _csv(tmp_path, [0, 1] * 50)
    whole, subset = _plain(path), _plain(path, train_rows=40)
    assert _rows(whole[1]) == _rows(subset[1])
    assert len(subset[0]) == 40
    assert set(_rows(subset[0])) < set(_rows(whole[0]))
    assert _rows(_plain(path, train_rows=80)[0]) == _rows(whole[0])


@pytest.mark.parametrize("rows", [81, -1])
def test_a_too_large_subset_names_both_numbers(tmp_path: Path, rows: int) -> None:
    with pytest.raises(DataError, match=rf"train-rows must be between 0 and 80, .*got {rows} \(0 takes all\)"):
        _plain(_csv(tmp_path, [0, 1] * 50), train_rows=rows)


def test_one_row_cannot_be_split(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"rows\.csv' must have at least two rows.*got 1; add rows"):
        _plain(_csv(tmp_path, [1]))


def test_a_sparse_file_stays_sparse(tmp_path: Path) -> None:
    (tmp_path / "rows.svm").write_text("1 1:3 2:4\n-1 1:1\n" * 20)
    train, test = load_dataset(DataSpec(str(tmp_path / "rows.svm")))
    assert _sparse(train).shape == (32, 3)
    assert _sparse(test).shape == (8, 3)


@pytest.mark.parametrize(("name", "near"), [("mnits", "mnist"), ("MNIST", "mnist"), ("fashion_mnist", "fashion-mnist")])
def test_a_misspelt_name_gets_the_nearest_known_one(name: str, near: str) -> None:
    with pytest.raises(DataError, match=f"digits, mnist, fashion-mnist, rcv1.*got '{name}'; did you mean '{near}'"):
        load_dataset(DataSpec(name))


@pytest.mark.parametrize("name", ["somewhere/else.npz", "", "a\0b", "~nobody-of-this-name/x.csv", "x" * 5000])
def test_a_missing_file_names_the_working_folder(name: str) -> None:
    with pytest.raises(DataError, match=r"path of a file that exists.*relative paths start at"):
        load_dataset(DataSpec(name))


# --- labels


def test_positive_labels_choose_the_target_and_leave_the_labels(tmp_path: Path) -> None:
    path = _csv(tmp_path, [-3, -2, 0, 4] * 10)
    for data in _plain(path, positive_labels="-3--2"):
        np.testing.assert_array_equal(data.target, data.labels < 0)
        assert set(data.labels) <= {-3, -2, 0, 4}


def test_labels_that_auto_cannot_sort_ask_for_positive_labels(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"positive-labels 'auto'.*-3, -2, 0, 4"):
        _plain(_csv(tmp_path, [-3, -2, 0, 4] * 10))


def test_training_rows_of_one_class_name_positive_labels(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"positive-labels must.*with 7 all.*negative"):
        _plain(_csv(tmp_path, [0, 1, 2] * 10), positive_labels="7")


def test_texts_that_no_label_is_are_refused_with_the_labels(tmp_path: Path) -> None:
    path = _csv(tmp_path, ["B", "M"] * 10)
    assert set(_plain(path, positive_labels="m")[0].target) == {0.0, 1.0}
    with pytest.raises(DataError, match=r"positive-labels must.*with malign all.*negative; .*, 'B', 'M'$"):
        _plain(path, positive_labels="malign")


@pytest.mark.parametrize("labels", [[0, 1] * 10, [True, False] * 10])
def test_numbers_have_no_texts(tmp_path: Path, labels: list[Any]) -> None:
    with pytest.raises(DataError, match="positive-labels = M names texts, and these labels are numbers: 0, 1; set"):
        _plain(_csv(tmp_path, np.array(labels, dtype=int).tolist()), positive_labels="M")


def test_labels_must_be_whole(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"rows\.csv.*whole numbers, got 0\.5 at row 2 of .*label-column"):
        _plain(_csv(tmp_path, [1, 0.5] * 10))


# --- preprocessing


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array, sparse.csr_matrix])
def test_dense_and_sparse_transforms_give_the_same_numbers(form: Any) -> None:
    features = _GENERATOR.normal(size=(40, 7)) * (_GENERATOR.random((40, 7)) < 0.4)
    features[3] = 0.0
    for text in ("none", "bias", "unit-norm", "bias,unit-norm", "unit-norm,bias"):
        source = form(features)
        got = preprocess(source, parse_transforms(text), divisor=2.0)
        assert sparse.issparse(got) == sparse.issparse(source)
        wanted = features / 2.0
        for name in parse_transforms(text):
            if name == "bias":
                wanted = np.hstack([wanted, np.ones((40, 1))])
            else:
                norms = np.linalg.norm(wanted, axis=1, keepdims=True)
                wanted = wanted / np.where(norms == 0, 1, norms)
        np.testing.assert_allclose(_dense(got), wanted, rtol=1e-14)
        np.testing.assert_array_equal(_dense(source), features)  # the source is not changed


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("scale", [1e-320, 1e-180, 1e180, 1e308])
def test_unit_norm_survives_squares_that_over_or_underflow(form: Any, scale: float) -> None:
    features = np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 0.0], [3.0, 4.0]])
    features[:2] *= scale
    norms = np.linalg.norm(_dense(preprocess(form(features), ("unit-norm",))), axis=1)
    np.testing.assert_allclose(norms, [1, 1, 0, 1], rtol=1e-14)


def test_dense_preprocessing_peaks_at_its_result() -> None:
    source = _GENERATOR.integers(1, 256, (4_000, 300), dtype=np.uint8)
    tracemalloc.start()
    result = preprocess(source, ("bias", "unit-norm"), 255.0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert result.flags.c_contiguous
    assert peak < 1.1 * result.nbytes


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("bais", "bias, unit-norm, or be 'none' alone, got 'bais'"),
        ("", "got ''"),
        ("bias,", "got ''"),
        ("none,bias", "'none' alone, got 'none'"),
        ("bias,bias", "each transform once, got 'bias' twice"),
    ],
)
def test_unknown_and_repeated_steps_are_refused(text: str, words: str) -> None:
    with pytest.raises(DataError, match=f"preprocess must .*{words}"):
        load_dataset(DataSpec(preprocess=text))


# --- a client's own file


def _own(path: str, positive: str, steps: str, columns: int | None = None) -> Dataset:
    return own_dataset(load_own_rows(path, FileRules(), columns), positive, steps)


def test_all_own_rows_are_training_rows_in_order(tmp_path: Path) -> None:
    data = _own(_csv(tmp_path, [1, 0, 0, 1, 1]), "1", "none")
    assert _rows(data) == [1, 2, 3, 4, 5]
    np.testing.assert_array_equal(data.target, [1.0, 0.0, 0.0, 1.0, 1.0])
    np.testing.assert_array_equal(data.labels, [1, 0, 0, 1, 1])


@pytest.mark.parametrize(
    ("labels", "positive", "target"),
    [([1], "1", [1]), ([-1, -1], "1", [0, 0]), ([7, 40], "40", [0, 1]), ([8, 9], "1-3", [0, 0])],
)
def test_own_rows_may_have_one_class(tmp_path: Path, labels: list[int], positive: str, target: list[int]) -> None:
    np.testing.assert_array_equal(_own(_csv(tmp_path, labels), positive, "none").target, target)


@pytest.mark.parametrize("labels", [[0, 1], [1, 2], [1, 1], [10, 11]])
def test_own_labels_never_decide_which_are_positive(tmp_path: Path, labels: list[int]) -> None:
    with pytest.raises(DataError, match="positive-labels must be settled by the server"):
        _own(_csv(tmp_path, labels), "auto", "none")


@pytest.mark.parametrize(("steps", "dimension"), [("bias,unit-norm", 6), ("none", 5), ("unit-norm", 5), ("bias", 6)])
def test_own_sparse_rows_have_the_runs_columns(tmp_path: Path, steps: str, dimension: int) -> None:
    path = tmp_path / "rows.svm"
    path.write_text("1 1:3 2:4\n0 2:1\n")
    data = _own(str(path), "1", steps, 5)
    assert _sparse(data).shape == (2, dimension)
    np.testing.assert_array_equal(_dense(data.features)[:, 2:5], np.zeros((2, 3)))
    assert _sparse(_own(str(path), "1", steps)).shape == (2, dimension - 3)
    settled = own_dataset(load_own_rows(str(path), FileRules(features="5")), "1", steps)
    np.testing.assert_array_equal(_dense(settled.features), _dense(data.features))


def test_own_dense_rows_of_another_width_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="must have 4 features, got 1"):
        _own(_csv(tmp_path, [0, 1]), "1", "bias", 4)


def test_own_rows_are_preprocessed_like_a_data_set(tmp_path: Path) -> None:
    data = _own(_csv(tmp_path, [0, 1, 0]), "1", "bias,unit-norm", 1)
    rows = np.column_stack([[1.0, 2.0, 3.0], np.ones(3)])
    np.testing.assert_array_equal(data.features, preprocess(rows, parse_transforms("unit-norm")))


def test_a_missing_own_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="the path of a file that exists"):
        load_own_rows(str(tmp_path / "none.csv"), FileRules())


def test_a_line_says_what_was_read(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("heat,target\n1,0\n2,1\n3,1\n")
    assert about_rows(load_own_rows(str(path), FileRules())).startswith(
        "read 3 rows, 1 columns, label 'target' (1 x 0, 2 x 1)"
    )
