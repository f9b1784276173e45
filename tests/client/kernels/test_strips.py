"""Products with two padded matrices in one pass are the products."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse

pytest.importorskip("numba", reason="the extra `fast` is not installed")
from zofedht.client.kernels.strips import add_products, aligned, pad, padded_width, unpad
from zofedht.common.models.rows import compressed_rows


def _products(features: Any, batch: Any, left: Any, right: Any) -> tuple[Any, Any]:
    shape, size = left.shape, len(batch)
    width = padded_width(shape[1])
    sides = [aligned(shape[0] * width) for _ in range(2)]
    for matrix, side in zip((left, right), sides, strict=True):
        side.fill(np.nan)  # what is there before must not matter
        pad(matrix.reshape(-1), shape, width, side)
    sums = np.zeros(2 * size * width)
    add_products(*compressed_rows(features), batch, *sides, shape[0], width, width, sums)
    both = sums.reshape(size, 2, width)
    assert not np.any(both[:, :, shape[1] :])
    return both[:, 0, : shape[1]], both[:, 1, : shape[1]]


@pytest.mark.parametrize("hidden", [1, 7, 8, 9, 16, 23, 32, 33, 50, 70])
@pytest.mark.parametrize("columns", [1, 7, 100])
def test_products_are_those_of_the_rows_for_any_number_of_units(hidden: int, columns: int) -> None:
    rng = np.random.default_rng(hidden)
    features = sparse.random_array((12, columns), density=0.3, rng=rng, format="csr")
    left, right = rng.standard_normal((2, columns, hidden))
    batch = np.array([3, 0, 11, 3])
    for found, side in zip(_products(features, batch, left, right), (left, right), strict=True):
        np.testing.assert_allclose(found, features.toarray()[batch] @ side, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("hidden", [5, 8, 9, 50])
def test_products_with_matrices_in_place_are_the_same_bits(hidden: int) -> None:
    rng = np.random.default_rng(hidden)
    features = sparse.random_array((12, 100), density=0.3, rng=rng, format="csr")
    left, right = rng.standard_normal((2, 100, hidden))
    batch, width = np.array([3, 0, 11, 3]), padded_width(hidden)
    after = rng.standard_normal(hidden)  # a network's output weights, which are read as well
    sums = np.zeros(2 * len(batch) * width)
    sides = [np.concatenate([side.reshape(-1), after]) for side in (left, right)]
    add_products(*compressed_rows(features), batch, *sides, 100, hidden, width, sums)
    for found, padded in zip(
        np.moveaxis(sums.reshape(-1, 2, width), 1, 0), _products(features, batch, left, right), strict=True
    ):
        assert found[:, :hidden].tobytes() == padded.tobytes()


def test_columns_in_any_order_and_columns_named_twice_count() -> None:
    data, columns = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0], [15, 4, 6, 6, 17, 0]
    features = sparse.csr_array((data, columns, [0, 6]), shape=(1, 18))
    left, right = np.arange(18.0)[:, None], np.ones((18, 1))
    found = _products(features, np.zeros(1, np.intp), left, right)
    np.testing.assert_array_equal(np.ravel(found), [np.dot(data, columns), np.sum(data)])


def test_vectors_begin_at_a_cache_line() -> None:
    assert [aligned(size).ctypes.data % 64 for size in (1, 5, 1000)] == [0, 0, 0]


def test_what_was_padded_comes_back() -> None:
    w = np.arange(2.0 * 3 + 4)
    padded, back = np.full(2 * 8 + 8, np.nan), np.empty_like(w)
    pad(w, (2, 3), 8, padded)
    unpad(padded, (2, 3), 8, back)
    np.testing.assert_array_equal(back, w)
    assert np.count_nonzero(padded) == np.count_nonzero(w)
