"""Which rows go to which client: every row to exactly one.

A partition is a row of DEALERS. It is a function of the labels and the seed, so each client can compute its own
shard.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from zofedht.common.errors import DataError
from zofedht.common.random.streams import stream
from zofedht.common.typing import Indices, Vector

__all__ = ["DEALERS", "Deal", "split"]

_EVEN = 1e6  # an alpha whose shares are even to 1 part in 1000; far beyond it the gamma draws overflow


@dataclass(frozen=True)
class Deal:
    """What a partition depends on. labels: (rows,) of the source; target: (rows,) 0.0 or 1.0."""

    labels: Indices
    target: Vector
    clients: int
    generator: np.random.Generator
    dirichlet_alpha: float


def split(
    dataset_labels: Indices,
    target: Vector,
    name: str,
    clients: int,
    seed: int,
    dirichlet_alpha: float,
) -> list[Indices]:
    """Deal the rows of a data set to clients.

    Parameters
    ----------
    dataset_labels : (rows,) integers
    target : (rows,) float64
        The binary target, 0.0 or 1.0.
    name : str
        The partition, a key of DEALERS.
    clients, seed : int
    dirichlet_alpha : float
        Of the partition "dirichlet": 0.1 is skewed, 100 is nearly even.

    Returns
    -------
    list of (rows of the client,) integers
        Row numbers of each client in the order of the partition, which decides the order of sums over a shard.

    Raises
    ------
    DataError
        For an unknown partition, more clients than rows, or a client without rows.
    """
    rows = len(dataset_labels)
    if name not in DEALERS:
        raise DataError(f"partition must be one of {', '.join(DEALERS)}, got '{name}'")
    if not 1 <= clients <= rows:
        raise DataError(
            f"num-clients must be between 1 and the number of training rows, {rows}, got {clients};"
            " use fewer clients or more train-rows"
        )
    deal = Deal(dataset_labels, target, clients, stream(seed, "partition"), dirichlet_alpha)
    shards = DEALERS[name](deal)
    empty = next((client for client, shard in enumerate(shards) if not len(shard)), None)
    if empty is not None:
        larger = " or a larger dirichlet-alpha" if name == "dirichlet" else ""
        raise DataError(
            f"client {empty} must get at least one row, and partition '{name}' of {rows} rows over {clients}"
            f" clients leaves it none; use fewer num-clients{larger}"
        )
    return shards


def _iid(deal: Deal) -> list[Indices]:
    """Shuffle, then cut as evenly as possible."""
    return _slices(deal.generator.permutation(len(deal.labels)), deal.clients)


def _sorted(deal: Deal) -> list[Indices]:
    """Sort by the label, and rows of one label by their number, then cut evenly."""
    return _slices(np.argsort(deal.labels, kind="stable"), deal.clients)


def _sorted_binary(deal: Deal) -> list[Indices]:
    """Sort by the binary target, negatives first, then cut evenly."""
    return _slices(np.argsort(deal.target, kind="stable"), deal.clients)


def _thirds(deal: Deal) -> list[Indices]:
    """Cut the label-sorted order in three; client i gets the i-th slice of each third."""
    order = np.argsort(deal.labels, kind="stable")
    thirds = [_slices(third, deal.clients) for third in np.array_split(order, 3)]
    return [np.concatenate(slices) for slices in zip(*thirds, strict=True)]


def _dirichlet(deal: Deal) -> list[Indices]:
    """Deal each label's rows, shuffled, in proportions ~ Dirichlet(alpha, ..., alpha) over the clients."""
    alpha = deal.dirichlet_alpha
    if not 0.0 < alpha < math.inf:
        raise DataError(f"dirichlet-alpha must be a positive number, got {alpha} (0.1 is skewed, 100 is nearly even)")
    alpha = min(alpha, _EVEN)
    dealt: list[list[Indices]] = [[] for _ in range(deal.clients)]
    for label in np.unique(deal.labels):
        rows = deal.generator.permutation(np.flatnonzero(deal.labels == label))
        shares = deal.generator.dirichlet(np.full(deal.clients, alpha))
        cuts = np.rint(np.cumsum(shares)[:-1] * len(rows)).astype(np.intp)
        for client, piece in enumerate(np.split(rows, cuts)):
            dealt[client].append(piece)
    return [np.concatenate(pieces) for pieces in dealt]


def _slices(order: Indices, clients: int) -> list[Indices]:
    return list(np.array_split(order, clients))


DEALERS: dict[str, Callable[[Deal], list[Indices]]] = {
    "iid": _iid,
    "sorted": _sorted,
    "sorted-binary": _sorted_binary,
    "thirds": _thirds,
    "dirichlet": _dirichlet,
}
