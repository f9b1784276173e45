"""From the usable updates of a round to what x moves along, and who moved unusually far."""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from statistics import median
from typing import Any

import numpy as np

from zofedht.common.config.run_config import RunConfig
from zofedht.common.typing import Matrix, Vector
from zofedht.common.wire.messages import Broadcast, Update
from zofedht.server.aggregation.replays import Contribution, Replays
from zofedht.server.aggregation.robust_rules import OUTLIER, lengths_of, robust_mean, usual_length
from zofedht.server.privacy import with_noise

__all__ = ["Combined", "Outlier", "combine", "summed_outliers"]


@dataclass(frozen=True)
class Outlier:
    """A slot whose move is many times as long as usual."""

    slot: int
    client: str
    times: float  # length of its move, in units of the running median


@dataclass(frozen=True)
class Combined:
    """What x moves along: the contributions to a weighted mean, one alone where a robust rule has made it."""

    contributions: list[Contribution]
    outliers: tuple[Outlier, ...]
    medians: tuple[float, ...]  # of lengths, for the rounds to come
    times: Mapping[int, float] = field(default_factory=dict)  # by slot, the length of its move over the usual one


def combine(
    updates: Sequence[Update],
    asked: Mapping[int, Broadcast],
    config: RunConfig,
    replays: Replays,
    basis: Matrix | None,
    medians: tuple[float, ...],
    *,
    secret: str = "",
) -> Combined:
    """Return what the updates that count come to (Algorithm 1, line 20, or another rule in its place).

    Parameters
    ----------
    updates : sequence of Update
        Usable updates in slot order.
    asked : mapping
        The broadcast of each slot.
    config : RunConfig
        ``aggregation``, ``tolerate`` and ``weighting`` are used.
    replays : Replays
        Those of this attempt.
    basis : (n, tau') array or None
        Q of the round.
    medians : tuple of floats
        Median lengths of the rounds before.
    secret : str
        What the noise of the mean is drawn from, under central privacy.
    """
    if not updates:
        return Combined([], (), medians)
    lengths = [_length(update, asked[update.slot]) for update in updates]
    usual, medians = usual_length(medians, lengths)
    times = {
        update.slot: min(length / usual, sys.float_info.max)
        for update, length in zip(updates, lengths, strict=True)
        if usual > 0.0
    }
    outliers = tuple(
        Outlier(update.slot, update.client, times[update.slot])
        for update, length in zip(updates, lengths, strict=True)
        if length > OUTLIER * usual > 0.0
    )
    first = updates[0]
    combined = partial(Combined, outliers=outliers, medians=medians, times=times)
    if config.privacy == "central":  # the config has shared directions, slopes up and the mean with equal weights
        rows = np.stack([u.slopes for u in updates if u.slopes is not None])
        noised = replace(first, slopes=with_noise(config, secret, first.round, rows))
        return combined(replays.contributions([noised], asked, basis, config.weighting))
    if not config.aggregates_robustly or len(updates) == 1:
        return combined(replays.contributions(updates, asked, basis, config.weighting))
    eta, dimension = asked[first.slot].spec.step_size, asked[first.slot].dimension
    if all(u.slopes is not None for u in updates) and len({asked[u.slot].address.directions for u in updates}) == 1:
        # Along shared directions the slopes are the move: one row of them is replayed.
        rows = np.stack([u.slopes for u in updates if u.slopes is not None])
        slopes = robust_mean(config.aggregation, rows, usual / math.sqrt(dimension), config.tolerated)
        return combined(replays.contributions([replace(first, slopes=slopes)], asked, basis, config.weighting))
    moves = [u.move for u in replays.with_moves(updates, asked, basis) if u.move is not None]
    move = robust_mean(config.aggregation, np.stack(moves), usual * eta, config.tolerated)
    return combined([Contribution(1.0, move)])


def _length(update: Update, asked: Broadcast) -> float:
    """Return about |move| / eta: of slopes along directions with |v|^2 ~ n, their length times sqrt(n)."""
    row: Vector | None = update.move if update.slopes is None else update.slopes
    assert row is not None  # screened
    length = float(lengths_of(row[None, :])[0])
    length = length / asked.spec.step_size if update.slopes is None else length * math.sqrt(asked.dimension)
    return min(length, sys.float_info.max)


def summed_outliers(rows: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    """Return for each client that was an outlier in how many slots of a history, and its median times the usual.

    Clients are listed by their number of slots, the most first.
    """
    times: dict[str, list[float]] = {}
    for row in rows:
        for outlier in row.get("outliers", ()):
            times.setdefault(str(outlier["client"]), []).append(float(outlier["times"]))
    counts = Counter({client: len(found) for client, found in times.items()})
    return {client: {"slots": count, "times": median(times[client])} for client, count in counts.most_common()}
