"""Parquet files and DataFrames: columns by name, and each value that is no number is named."""

from __future__ import annotations

import gc
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from zofedht.common.data.own_rows import keep_rows
from zofedht.common.errors import DataError, MissingExtraError
from zofedht.common.files.dataset_files import read_file
from zofedht.common.files.reading import FileRules
from zofedht.common.files.tables import rows_in_memory, rows_of_arrays, rows_of_frame

pd = pytest.importorskip("pandas", reason="pandas is not installed; DataFrames cannot be made")

_HEAT, _FLOW, _LABEL = [1.5, 2.5, -3.0], [1, 2, 4], [0, 1, 1]


def _frame(**columns: Any) -> Any:
    return pd.DataFrame({"heat": _HEAT, "label": _LABEL, "flow": _FLOW} | columns)


def _parquet(frame: Any, folder: Path, **options: Any) -> Path:
    pytest.importorskip("pyarrow", reason="pyarrow is not installed; it reads Parquet files")
    frame.to_parquet(folder / "rows.parquet", **options)
    return folder / "rows.parquet"


def _read(frame: Any, folder: Path, rules: FileRules | None = None, way: str = "parquet") -> Any:
    return rows_of_frame(frame, rules) if way == "frame" else read_file(_parquet(frame, folder), rules=rules)


@pytest.mark.parametrize("way", ["frame", "parquet"])
def test_columns_are_taken_by_name(way: str, tmp_path: Path):
    part = _read(_frame(), tmp_path, way=way)
    np.testing.assert_array_equal(part.features, np.column_stack([_HEAT, _FLOW]))
    np.testing.assert_array_equal(part.labels, _LABEL)
    assert (part.names, part.label) == (("heat", "flow"), "label")


@pytest.mark.parametrize("dtype", ["int8", "uint16", "bool", "float32", "Int64", "Float32", "boolean", "object"])
@pytest.mark.parametrize("way", ["frame", "parquet"])
def test_numbers_of_any_type_are_numbers(dtype: str, way: str, tmp_path: Path):
    frame = _frame(flow=[1, 0, 1]).astype({"flow": dtype})
    np.testing.assert_array_equal(_read(frame, tmp_path, way=way).features[:, 1], [1.0, 0.0, 1.0])


@pytest.mark.parametrize(
    "column",
    [["a", "b", "c"], pd.to_datetime(["2020-01-01"] * 3), pd.Categorical(["1", "2", "1"]), [[1], [2], [3]]],
)
@pytest.mark.parametrize("way", ["frame", "parquet"])
def test_a_column_of_no_numbers_is_named(column: Any, way: str, tmp_path: Path):
    with pytest.raises(DataError, match="must hold numbers, got column 'note'"):
        _read(_frame(note=column), tmp_path, way=way)
    rules = FileRules(features="flow,heat")
    np.testing.assert_array_equal(
        _read(_frame(note=column), tmp_path, rules, way).features[:, -2:].sum(axis=1), np.add(_HEAT, _FLOW)
    )


@pytest.mark.parametrize("dtype", ["float64", "Float64", "object"])
@pytest.mark.parametrize("way", ["frame", "parquet"])
def test_a_missing_value_is_named_with_its_row(dtype: str, way: str, tmp_path: Path):
    with pytest.raises(DataError, match=r"value in every cell, got .* in row 2 of column 'flow'"):
        _read(_frame(flow=pd.array([1.0, None, 3.0], dtype="Float64").astype(dtype)), tmp_path, way=way)


@pytest.mark.parametrize("way", ["frame", "parquet"])
def test_two_label_columns_are_refused(way: str, tmp_path: Path):
    with pytest.raises(DataError, match=r"'label' \(column 2\) and 'Target' \(column 4\)"):
        _read(_frame(Target=[1, 2, 3]), tmp_path, way=way)
    assert _read(_frame(Target=[1, 2, 3]), tmp_path, FileRules(label_column="Target"), way).label == "Target"


@pytest.mark.parametrize("way", ["frame", "parquet"])
def test_a_table_without_rows_is_refused(way: str, tmp_path: Path):
    with pytest.raises(DataError, match=r"at least one row and one column, got shape \(0, 3\)"):
        _read(_frame().iloc[:0], tmp_path, way=way)


def test_a_parquet_index_is_left_out_and_told(tmp_path: Path):
    part = _read(_frame().set_index(np.array([7, 3, 5])), tmp_path)
    assert part.names == ("heat", "flow")
    assert any("index" in note for note in part.notes)


def test_columns_that_nobody_named_have_no_names():
    part = rows_of_frame(pd.DataFrame(np.column_stack([_HEAT, _FLOW, _LABEL])))
    assert part.names == ()
    np.testing.assert_array_equal(part.labels, _LABEL)


def test_a_file_that_is_no_parquet_is_named(tmp_path: Path):
    pytest.importorskip("pyarrow", reason="pyarrow is not installed; it reads Parquet files")
    (tmp_path / "rows.parquet").write_text("heat,label\n1,0\n")
    with pytest.raises(DataError, match="must be a Parquet file"):
        read_file(tmp_path / "rows.parquet")


def test_without_pyarrow_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    (tmp_path / "rows.parquet").write_bytes(b"PAR1")
    with pytest.raises(MissingExtraError, match=r"pip install 'zofedht\[parquet\]'"):
        read_file(tmp_path / "rows.parquet")


@pytest.mark.parametrize("form", [np.array, sparse.csr_array, pd.DataFrame])
def test_a_pair_is_features_and_labels(form: Any):
    rows = np.column_stack([_HEAT, _FLOW])
    part = rows_of_arrays(form(rows), pd.Series(_LABEL))
    found = part.features.toarray() if hasattr(part.features, "toarray") else part.features
    np.testing.assert_array_equal(found, rows)
    np.testing.assert_array_equal(part.labels, _LABEL)


@pytest.mark.parametrize(
    ("labels", "words"), [([0, 1], "one label for each row"), (["a", "b", "c"], "'a', 'b', 'c' as y; set positive-")]
)
def test_a_wrong_pair_is_refused(labels: list[Any], words: str):
    with pytest.raises(DataError, match=words):
        keep_rows((np.column_stack([_HEAT, _FLOW]), labels), FileRules())


@pytest.mark.parametrize(
    "label", [["no", "Yes", "Yes"], pd.Categorical(["no", "Yes", "Yes"]), pd.array(["no", "Yes", "Yes"], "string")]
)
@pytest.mark.parametrize("way", ["frame", "parquet"])
def test_named_texts_count_as_1(label: Any, way: str, tmp_path: Path):
    part = _read(_frame(label=label), tmp_path, FileRules(positive_labels="yes"), way)
    assert (part.labels.tolist(), part.classes) == (_LABEL, ("Yes", "no"))
    with pytest.raises(DataError, match="'Yes', 'no' in column 'label'; set positive-labels"):
        _read(_frame(label=label), tmp_path, way=way)


@pytest.mark.parametrize("label", [["no", "yes", "yes"], np.array([["no"], ["yes"], ["yes"]]), pd.Series([0, 1, 1])])
def test_a_pair_may_hold_lists_and_texts(label: Any):
    positive = "auto" if isinstance(label, pd.Series) else "yes"
    name = keep_rows((np.column_stack([_HEAT, _FLOW]).tolist(), label), FileRules(positive_labels=positive))
    kept = rows_in_memory(name)
    assert kept is not None
    assert kept.labels.tolist() == _LABEL


def test_the_rows_of_lists_are_kept_until_the_next():
    names = [keep_rows(([[1.0], [scale]], [0, 1]), FileRules()) for scale in (2.0, 3.0)]
    assert rows_in_memory(names[0]) is None
    assert rows_in_memory(names[1]) is not None


def test_decimals_are_numbers():
    part = rows_of_frame(_frame(flow=[Decimal("1.5"), Decimal(2), Decimal(4)]))
    assert part.features[:, 1].tolist() == [1.5, 2.0, 4.0]


def test_rows_are_kept_as_long_as_their_frame():
    frame = _frame()
    name = keep_rows(frame, FileRules())
    assert rows_in_memory(name) is not None
    del frame
    gc.collect()
    assert rows_in_memory(name) is None
