"""Partitions: every row to exactly one client, and each name keeps its promise."""

from __future__ import annotations

import math

import numpy as np
import pytest

from zofedht.common.data.partition import DEALERS, split
from zofedht.common.errors import DataError
from zofedht.common.typing import Indices, Matrix

_LABELS = np.random.default_rng(7).integers(0, 10, 3_000)
_TARGET = (_LABELS >= 5).astype(np.float64)


def _split(name: str, clients: int = 20, seed: int = 1, alpha: float = 10.0) -> list[Indices]:
    return split(_LABELS, _TARGET, name, clients, seed, alpha)


@pytest.mark.parametrize("name", DEALERS)
@pytest.mark.parametrize("clients", [1, 7, 20])
def test_every_row_goes_to_exactly_one_client(name: str, clients: int) -> None:
    shards = _split(name, clients)
    assert len(shards) == clients
    assert all(len(shard) and shard.dtype == np.intp for shard in shards)
    np.testing.assert_array_equal(np.sort(np.concatenate(shards)), np.arange(len(_LABELS)))


@pytest.mark.parametrize("name", DEALERS)
def test_a_partition_is_a_function_of_labels_and_seed(name: str) -> None:
    for first, second in zip(_split(name), _split(name), strict=True):
        np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("name", ["iid", "dirichlet"])
def test_random_partitions_change_with_the_seed(name: str) -> None:
    assert any(a.tolist() != b.tolist() for a, b in zip(_split(name, seed=1), _split(name, seed=2), strict=True))


@pytest.mark.parametrize("name", ["sorted", "sorted-binary", "thirds"])
def test_sorted_partitions_ignore_the_seed(name: str) -> None:
    for first, second in zip(_split(name, seed=1), _split(name, seed=2), strict=True):
        np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize(("name", "spread"), [("iid", 1), ("sorted", 1), ("sorted-binary", 1), ("thirds", 3)])
@pytest.mark.parametrize("clients", [3, 7, 64])
def test_shards_are_as_even_as_the_partition_allows(name: str, spread: int, clients: int) -> None:
    sizes = [len(shard) for shard in _split(name, clients)]
    assert max(sizes) - min(sizes) <= spread


@pytest.mark.parametrize(("name", "key"), [("sorted", _LABELS), ("sorted-binary", _TARGET)])
def test_sorted_shards_keep_the_order_of_ties(name: str, key: Indices) -> None:
    order = np.concatenate(_split(name))
    steps, rows = np.diff(key[order]), np.diff(order)
    assert (steps >= 0).all()
    assert (rows[steps == 0] > 0).all()


def test_thirds_gives_each_client_its_slice_of_each_third() -> None:
    labels = np.arange(90)[::-1].copy()
    shards = split(labels, np.zeros(90), "thirds", 10, 0, 1.0)
    for client, shard in enumerate(shards):
        wanted = [30 * third + 3 * client + place for third in range(3) for place in range(3)]
        assert labels[shard].tolist() == wanted


def test_thirds_gives_every_client_both_classes() -> None:
    kinds = {name: [len(np.unique(_TARGET[shard])) for shard in _split(name)] for name in ("thirds", "sorted-binary")}
    assert min(kinds["thirds"]) == 2
    assert sum(kind == 1 for kind in kinds["sorted-binary"]) >= 19


def _label_shares(shards: list[Indices]) -> Matrix:
    counts = np.array([np.bincount(_LABELS[shard], minlength=10) for shard in shards])
    shares: Matrix = counts / counts.sum(axis=0)
    return shares


def test_dirichlet_shares_follow_their_law() -> None:
    # p ~ Beta(a, (N-1) a): mean 1/N, variance (N-1)/(N^2 (N a + 1)). 40 seeds x 10 labels of N dependent
    # shares: five standard errors of the variance are below 20 percent, and rounding adds 1/(12 300^2).
    clients, alpha = 5, 2.0
    shares = np.concatenate([_label_shares(_split("dirichlet", clients, seed, alpha)) for seed in range(40)], axis=1)
    variance = (clients - 1) / (clients**2 * (clients * alpha + 1))
    assert shares.mean() == pytest.approx(1 / clients, abs=1e-12)
    assert shares.var() == pytest.approx(variance, rel=0.2)


def test_a_large_dirichlet_alpha_is_nearly_even() -> None:
    for alpha in (1e6, 1e300):
        assert np.abs(_label_shares(_split("dirichlet", 5, alpha=alpha)) - 0.2).max() < 0.01


def test_an_empty_shard_names_client_partition_and_cure() -> None:
    text = (
        r"client \d+ must get at least one row, and partition 'dirichlet' of 3000 rows over 50 clients leaves"
        r" it none; use fewer num-clients or a larger dirichlet-alpha"
    )
    with pytest.raises(DataError, match=text):
        _split("dirichlet", 50, alpha=1e-3)
    with pytest.raises(DataError, match=r"client 4 .*'thirds' of 12 rows over 10 clients .* fewer num-clients$"):
        split(_LABELS[:12], _TARGET[:12], "thirds", 10, 0, 1.0)


@pytest.mark.parametrize("clients", [3_001, 0, -1])
def test_clients_and_rows_must_fit(clients: int) -> None:
    with pytest.raises(DataError, match=rf"num-clients must be between 1 and .* 3000, got {clients}; use fewer"):
        _split("iid", clients)


def test_as_many_clients_as_rows_get_one_row_each() -> None:
    assert {len(shard) for shard in _split("iid", 3_000)} == {1}


def test_an_unknown_partition_lists_the_known_ones() -> None:
    with pytest.raises(DataError, match=r"partition must be one of iid, sorted, .*, dirichlet, got 'even'"):
        _split("even")


@pytest.mark.parametrize("alpha", [0.0, -1.0, math.nan, math.inf])
def test_dirichlet_alpha_must_be_positive(alpha: float) -> None:
    with pytest.raises(DataError, match=f"dirichlet-alpha must be a positive number, got {alpha}"):
        _split("dirichlet", alpha=alpha)
