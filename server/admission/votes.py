"""What most clients say counts: a first client that claims something else does not keep them out.

Before a run begins, the clients decide what the server does not know: n, scale and bounds, columns, or their number.
The first one to join says it. Where more clients say otherwise than have joined with it, these have to leave. A
certificate is one voice; without certificates anybody has as many as it gives names.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from zofedht.common.wire.clients import Hello
from zofedht.server.admission.settled_rules import columns_mismatch

__all__ = ["Votes", "contradict"]

_KEPT_SECONDS = 300.0  # of what a client said that was not admitted; it tries again at least once a minute
_MOST = 10_000  # clients


def contradict(one: Hello, other: Hello) -> bool:
    """Return whether two clients cannot take part in one run; what is not said contradicts nothing."""
    if one.shard_count and other.shard_count and one.shard_count != other.shard_count:
        return True
    if one.source != other.source or not (one.dimension and other.dimension):
        return False
    if (one.dimension, one.units) != (other.dimension, other.units):
        return True
    if one.source == "data":
        return bool(columns_mismatch(one.names, other.names, "", ""))
    return one.names != other.names


class Votes:
    """The claims of clients that were not admitted yet."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._told: dict[str, tuple[float, Hello]] = {}

    def outvoted(self, hello: Hello, joined: Mapping[str, Hello]) -> list[str]:
        """Return who of the joined must leave, since more say what this one says; nobody where they are as many."""
        now = self._clock()
        self._told.pop(hello.name, None)
        self._told[hello.name] = now, hello
        while len(self._told) > _MOST or now - next(iter(self._told.values()))[0] > _KEPT_SECONDS:
            del self._told[next(iter(self._told))]
        against = [name for name, said in joined.items() if contradict(said, hello)]
        voices = [name for name, (_, said) in self._told.items() if name not in joined and not contradict(said, hello)]
        if len(voices) <= len(against):
            return []
        for name in voices:
            del self._told[name]
        return against
