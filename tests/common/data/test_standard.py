"""Columns are standardized by sums over clients, as if all rows were in one place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from zofedht.common.choices import parse_columns
from zofedht.common.config.run_config import RunConfig
from zofedht.common.data.own_rows import own_dataset
from zofedht.common.data.preprocessing import preprocess
from zofedht.common.data.standard import columns_text, merged, standard_of, sums_of
from zofedht.common.errors import ConfigError, DataError
from zofedht.common.files.reading import RawRows
from zofedht.common.shards import held_out_objective, train_objective, with_standard_columns

_ROWS = np.random.default_rng(0).normal(size=(9000, 3)) * [1.0, 1e-4, 1e7] + [0.0, 5.0, -1e9]


@pytest.mark.parametrize("cuts", [[], [1], [10, 4000], [3, 4, 5, 8999]])
def test_sums_of_parts_are_those_of_the_whole(cuts: list[int]):
    found = merged([sums_of(part) for part in np.split(_ROWS, cuts)])
    assert found.rows == len(_ROWS)
    np.testing.assert_allclose(found.means, _ROWS.mean(axis=0), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(found.squares, _ROWS.var(axis=0) * len(_ROWS), rtol=1e-9)


def test_sparse_rows_have_the_sums_of_dense_ones():
    rows = np.where(np.random.default_rng(1).random((50, 4)) < 0.3, 2.5, 0.0)
    rows[:, 3] = 0.0
    for one, other in zip(sums_of(rows, 5.0), sums_of(sparse.csr_array(rows), 5.0), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-13)


def test_the_text_standardizes_to_mean_0_and_deviation_1():
    standard = standard_of(columns_text(sums_of(_ROWS)), 3)
    rows = preprocess(_ROWS, ("standardize",), standard=standard)
    np.testing.assert_allclose(rows.mean(axis=0), 0.0, atol=1e-8)
    np.testing.assert_allclose(rows.std(axis=0), 1.0, rtol=1e-8)


@pytest.mark.parametrize("value", [0.0, 7.3, -1e9, 1e-300])
def test_a_column_of_one_value_becomes_zero(value: float):
    rows = np.full((7, 1), value)
    standard = standard_of(columns_text(sums_of(rows)), 1)
    np.testing.assert_array_equal(preprocess(rows, ("standardize",), standard=standard), np.zeros((7, 1)))
    assert preprocess(rows + 2.0, ("standardize",), standard=standard)[0, 0] == pytest.approx(2.0)


def test_sparse_rows_stay_sparse():
    rows = sparse.csr_array(np.array([[0.0, 4.0, 0.0], [2.0, 0.0, 0.0]]))
    standard = standard_of(columns_text(sums_of(rows)), 3)
    found: Any = preprocess(rows, ("standardize", "bias"), standard=standard)
    np.testing.assert_allclose(found.toarray(), [[0.0, 2.0, 0.0, 1.0], [2.0, 0.0, 0.0, 1.0]])


@pytest.mark.parametrize("text", ["1", "1:", "a:1", "1:-1", "nan:1", "1:inf", "1:2,,3:4", ""])
def test_a_text_that_is_no_columns_is_refused(text: str):
    with pytest.raises(DataError, match="standardize-by must be 'auto' or a mean:deviation for each column"):
        parse_columns(text)


def test_another_number_of_columns_is_refused():
    with pytest.raises(DataError, match="each of the 3 columns, got 2"):
        standard_of("1:2,3:4", 3)


@pytest.mark.parametrize("rows", [[[1e308], [-1e308]], [[np.inf], [0.0]]])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_columns_that_overflow_are_refused(rows: list[list[float]]):
    with pytest.raises(DataError, match="column 1 is too large"):
        columns_text(sums_of(np.array(rows)))


def test_own_rows_wait_for_what_the_server_settles():
    part = RawRows(np.array([[1.0], [5.0]]), np.array([0, 1]))
    with pytest.raises(DataError, match="standardize-by must be settled by the server"):
        own_dataset(part, "1", "standardize,bias")
    before = own_dataset(part, "1", "standardize,bias", settled=False)
    after = own_dataset(part, "1", "standardize,bias", "3:2")
    assert before.features.shape == after.features.shape
    np.testing.assert_array_equal(after.features, [[-1.0, 1.0], [1.0, 1.0]])


def _table(path: Path, shift: float = 0.0) -> RunConfig:
    rows = np.random.default_rng(2).normal(size=(30, 2)) * [1.0, 1e3] + shift
    path.write_text("\n".join(["a,b,label", *(f"{a!r},{b!r},{i % 2}" for i, (a, b) in enumerate(rows.tolist()))]))
    return RunConfig(dataset=str(path), preprocess="standardize,bias", num_clients=2, clients_per_round=2)


def test_training_rows_decide_and_test_rows_follow(tmp_path: Path):
    config = _table(tmp_path / "rows.csv")
    train: Any = train_objective(config)
    np.testing.assert_allclose(train.features.mean(axis=0), [0.0, 0.0, 1.0], atol=1e-8)
    held_out: Any = held_out_objective(config)
    assert abs(held_out.features[:, 0].mean()) > 1e-3


def test_said_columns_give_the_same_rows_as_auto(tmp_path: Path):
    """So all processes agree, and a resumed run keeps those that it began with."""
    config = _table(tmp_path / "rows.csv")
    said = with_standard_columns(config)
    assert len(parse_columns(said.standardize_by)) == 2
    assert with_standard_columns(said) == said
    one, other = (train_objective(each) for each in (config, said))
    np.testing.assert_array_equal(one.features, other.features)  # type: ignore[attr-defined]
    _table(tmp_path / "rows.csv", shift=9.0)
    assert train_objective(said.replace(seed=1)).features[:, 0].mean() > 5.0  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"preprocess": "bias,standardize"}, "must begin with standardize"),
        ({"standardize_by": "1:2"}, "must be auto unless preprocess has standardize"),
        (
            {"preprocess": "standardize", "dataset": "clients", "privacy": "central"},
            "standardize-by must be given under privacy = central",
        ),
        (
            {"preprocess": "standardize", "dataset": "clients", "secure_aggregation": True},
            "standardize-by must be given under secure-aggregation",
        ),
    ],
)
def test_keys_that_contradict_are_refused(keys: dict[str, Any], words: str):
    with pytest.raises(ConfigError, match=words):
        RunConfig().replace(**keys)
