"""Rows in groups of four columns are the rows, and are taken where they are full enough."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from zofedht.common.data.dataset import Dataset
from zofedht.common.models.linear import LinearObjective
from zofedht.common.models.losses import LOGISTIC

pytest.importorskip("numba", reason="the extra `fast` is not installed")
from zofedht.client.kernels import column_groups
from zofedht.client.kernels.column_groups import ColumnGroups, rows_of, sums_of_groups
from zofedht.common.random.jit import compiled_products


@compiled_products
def _products(bounds: Any, starts: Any, values: Any, w: Any, v: Any) -> Any:
    found = np.empty((bounds.shape[0] - 1, 2))
    for row in range(found.shape[0]):
        found[row] = sums_of_groups(starts, values, w, v, bounds[row], bounds[row + 1])
    return found


def _objective(features: Any) -> LinearObjective:
    rows = features.shape[0]
    return LinearObjective(Dataset(features, np.zeros(rows), np.zeros(rows, np.intp)), LOGISTIC)


def _pictures(rows: int, columns: int, share: float) -> Any:
    """Rows of which stretches are not zero; one row is empty, one full."""
    rng = np.random.default_rng(rows + columns)
    features = rng.standard_normal((rows, columns))
    features[np.repeat(rng.random((rows, -(-columns // 5))) > share, 5, axis=1)[:, :columns]] = 0.0
    features[0], features[1] = 0.0, 1.0
    return features


@pytest.mark.parametrize("columns", [4, 5, 6, 7, 8, 9, 30, 785])
@pytest.mark.parametrize("share", [0.3, 1.0])
def test_products_are_those_of_the_rows(columns: int, share: float) -> None:
    """To some units in the last place of sums of up to 785 products."""
    features = _pictures(30, columns, share)
    groups = rows_of(_objective(features))
    assert isinstance(groups, ColumnGroups)
    assert groups.starts.max() <= columns - 4
    w, v = np.random.default_rng(1).standard_normal((2, columns))
    np.testing.assert_allclose(_products(*groups, w, v), features @ np.stack([w, v], axis=1), rtol=1e-12, atol=1e-12)


def test_columns_in_any_order_and_columns_named_twice_count() -> None:
    data, columns = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0], [5, 4, 6, 6, 7, 0]
    features = sparse.csr_array((data, columns, [0, 6]), shape=(1, 8))
    built = column_groups._in_groups(_objective(features).rows, 8, full=0.0)
    assert built is not None
    w, v = np.arange(8.0), np.ones(8)
    np.testing.assert_allclose(_products(*built, w, v), [[np.dot(data, w[columns]), np.sum(data)]])


@pytest.mark.parametrize("columns", [3, 400])
def test_where_groups_would_be_mostly_zeros_rows_stay_as_they_are(columns: int) -> None:
    features = np.zeros((20, columns))
    features[:, ::9] = 1.0
    objective = _objective(features)
    assert rows_of(objective) is objective.rows


def test_rows_are_kept_as_long_as_their_objective() -> None:
    objective = _objective(_pictures(10, 30, 1.0))
    assert rows_of(objective) is rows_of(objective)
    gc.collect()  # what other tests have left
    kept = len(column_groups._ROWS)
    del objective
    gc.collect()
    assert len(column_groups._ROWS) == kept - 1
