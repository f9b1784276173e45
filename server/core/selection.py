"""Who takes part in a round: a function of (seed, round, attempt) and of who can be drawn."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from zofedht.common.errors import RoundError
from zofedht.common.random.streams import stream
from zofedht.common.wire.clients import Member

__all__ = ["as_people_sort", "in_order", "in_turn", "redraw", "select"]


def in_order(names: Sequence[str]) -> list[str]:
    """Return names sorted as people do: client-2 before client-10."""
    return sorted(names, key=as_people_sort)


@lru_cache(maxsize=2**16)
def as_people_sort(name: str) -> tuple[list[tuple[int, int, str]], str]:
    """Return the key by which ``in_order`` sorts."""
    parts = [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in re.split(r"(\d+)", name)]
    return parts, name  # the name itself breaks the tie of 1 and 01


def in_turn(members: Sequence[Member]) -> list[Member]:
    """Return members by shard, then by name: the order that draws count in, whoever connected first."""
    return sorted(members, key=lambda member: (member.shard_index, as_people_sort(member.name)))


def select(
    members: Sequence[Member], slots: int, sampling: str, *, seed: int, round_: int, attempt: int = 0
) -> list[Member]:
    """Return the client of each slot (Algorithm 1, line 3).

    With replacement a client may have several slots; without, clients are distinct and there are at most
    as many slots as clients. The order in which ``members`` are listed does not matter.

    Raises RoundError when there is no client at all.
    """
    if not members:
        raise RoundError(f"round {round_ + 1} has no client to draw from")
    ordered = in_turn(members)
    rng = stream(seed, "selection", round_, attempt)
    if sampling == "without-replacement":
        drawn = rng.choice(len(ordered), size=min(slots, len(ordered)), replace=False)
    else:
        drawn = rng.integers(0, len(ordered), size=slots)
    return [ordered[index] for index in drawn]


def redraw(members: Sequence[Member], *, seed: int, round_: int, slot: int, lost: int) -> Member | None:
    """Return who takes over a slot that has been lost ``lost`` times, or None if nobody can.

    ``members`` are those who have not lost it already.
    """
    if not members:
        return None
    draws = stream(seed, "redraw", round_, slot).random(lost)
    return in_turn(members)[int(draws[-1] * len(members))]
