"""Who takes part in a round: a function of (seed, round, attempt) and of the clients' names."""

from __future__ import annotations

import re
from collections.abc import Sequence

from common.errors import RoundError
from common.streams import stream

__all__ = ["in_order", "select"]


def in_order(names: Sequence[str]) -> list[str]:
    """Return names sorted as people do: client-2 before client-10."""
    return sorted(
        names,
        # The name itself breaks the tie of 1 and 01.
        key=lambda name: (
            [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in re.split(r"(\d+)", name)],
            name,
        ),
    )


def select(clients: Sequence[str], slots: int, sampling: str, *, seed: int, round_: int, attempt: int = 0) -> list[str]:
    """Return the client of each slot (Algorithm 1, line 2).

    With replacement a client may have several slots; without, clients are distinct and there are at most
    as many slots as clients. The order in which ``clients`` are listed does not matter.

    Raises RoundError when there is no client at all.
    """
    if not clients:
        raise RoundError(f"round {round_} has no client to draw from")
    ordered = in_order(clients)
    rng = stream(seed, "selection", round_, attempt)
    if sampling == "without-replacement":
        drawn = rng.choice(len(ordered), size=min(slots, len(ordered)), replace=False)
    else:
        drawn = rng.integers(0, len(ordered), size=slots)
    return [ordered[index] for index in drawn]
