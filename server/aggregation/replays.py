"""Replies that are slopes: check their directions, and draw them again to get the moves. Pure."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np

from zofedht.common.machine.blas import one_thread
from zofedht.common.replay import Replay, agrees, draw_digest, replay
from zofedht.common.typing import Matrix, Vector
from zofedht.common.wire.messages import Broadcast, Update
from zofedht.server.aggregation.means import slot_weight
from zofedht.server.aggregation.screening import Failure

__all__ = ["OTHER_DIRECTIONS", "Contribution", "Replays", "available_cores", "draws_alike"]

OTHER_DIRECTIONS = "its directions are not the server's: the slopes do not give the sums of its move"

_WORTH_THREADS = 1_000_000  # random numbers; fewer are drawn before a thread has started


@dataclass(frozen=True)
class Contribution:
    """What the slots of one address of directions, or one move that was sent, contribute to the mean."""

    weight: float
    move: Vector
    lengths: Vector | None = None  # mean of eta c, which the move was replayed from
    slot: int = -1  # one of those whose directions these are


def draws_alike(update: Update) -> bool:
    """Whether the client that answered draws the server's directions."""
    return update.slopes is not None or update.draw_digest == draw_digest()


class Replays:
    """Replays of one attempt at a round. It keeps them, so that checking and averaging draw once."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, bytes], Replay] = {}  # by address and lengths

    def mismatches(
        self, usable: Sequence[Update], asked: Mapping[int, Broadcast], basis: Matrix | None, weighting: str
    ) -> list[Failure]:
        """Return a Failure for each slot whose slopes belong to other directions than the server draws."""
        replays = self._replay(_groups(usable, asked, weighting), asked, basis)
        found = []
        for update in usable:
            broadcast = asked[update.slot]
            if update.slopes is None or update.sketch is None:
                continue
            sums = replays[broadcast.address.directions.slot].sums
            if not agrees(update.sketch, update.slopes, broadcast, sums):
                other = Failure(update.round, update.slot, update.client, "other-directions", OTHER_DIRECTIONS)
                found.append(other)
        return found

    def contributions(
        self, usable: Sequence[Update], asked: Mapping[int, Broadcast], basis: Matrix | None, weighting: str
    ) -> list[Contribution]:
        """Return what the mean is taken of, in the order of slots."""
        groups = _groups(usable, asked, weighting)
        replays = self._replay(groups, asked, basis)
        ordered = [
            (address, Contribution(g.weight, replays[address].move, g.lengths, g.slot)) for address, g in groups.items()
        ]
        ordered += [
            (u.slot, Contribution(slot_weight(u, weighting), u.move))
            for u in usable
            if u.slopes is None and u.move is not None
        ]
        return [one for _, one in sorted(ordered, key=lambda item: (item[0], item[1].lengths is None))]

    def with_moves(
        self, usable: Sequence[Update], asked: Mapping[int, Broadcast], basis: Matrix | None
    ) -> list[Update]:
        """Return the updates, each with the move that its slopes stand for."""
        groups = {u.slot: _group([u], asked, "uniform") for u in usable if u.slopes is not None}
        replays = self._replay(groups, asked, basis)
        return [replace(u, move=replays[u.slot].move) if u.slot in replays else u for u in usable]

    def _replay(
        self, groups: Mapping[int, _Group], asked: Mapping[int, Broadcast], basis: Matrix | None
    ) -> dict[int, Replay]:
        """Return the replay of each group; on all cores where that is worth it."""
        keys = {name: (asked[g.slot].address.directions.slot, g.lengths.tobytes()) for name, g in groups.items()}
        due = {key: groups[name] for name, key in keys.items() if key not in self._known}

        def one(group: _Group) -> Replay:
            return replay(asked[group.slot], basis, group.lengths)

        drawn = sum(group.lengths.shape[0] * asked[group.slot].dimension for group in due.values())
        threads = min(available_cores(), len(due)) if drawn > _WORTH_THREADS else 1
        # Each move is a thread's own and the sums come later, in slot order: no number depends on the threads.
        with one_thread():
            if threads > 1:
                with ThreadPoolExecutor(threads, thread_name_prefix="replay") as pool:
                    results = list(pool.map(one, due.values()))
            else:
                results = [one(group) for group in due.values()]
        self._known |= dict(zip(due, results, strict=True))
        return {name: self._known[key] for name, key in keys.items()}


@dataclass(frozen=True)
class _Group:
    """The slots that took their steps along the same directions."""

    slot: int  # one of them
    weight: float
    lengths: Vector  # weighted mean of eta c: (K,)


def _groups(usable: Sequence[Update], asked: Mapping[int, Broadcast], weighting: str) -> dict[int, _Group]:
    members: dict[int, list[Update]] = {}
    for update in usable:
        if update.slopes is not None:
            members.setdefault(asked[update.slot].address.directions.slot, []).append(update)
    return {address: _group(updates, asked, weighting) for address, updates in members.items()}


def _group(updates: Sequence[Update], asked: Mapping[int, Broadcast], weighting: str) -> _Group:
    weights = [slot_weight(update, weighting) for update in updates]
    with np.errstate(over="ignore", invalid="ignore"):
        lengths = [asked[u.slot].spec.step_size * u.slopes for u in updates if u.slopes is not None]
        if len(lengths) == 1:  # as they are: w l / w would round
            return _Group(updates[0].slot, weights[0], lengths[0])
        total = np.zeros_like(lengths[0])
        for weight, each in zip(weights, lengths, strict=True):
            total += weight * each
        return _Group(updates[0].slot, sum(weights), total / sum(weights))


def available_cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
