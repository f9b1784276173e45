"""The calls of secure aggregation: the stages before and after the steps of a round."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

from zofedht.common.config.run_config import RunConfig
from zofedht.common.errors import RoundError
from zofedht.common.wire.clients import Member
from zofedht.common.wire.messages import Broadcast, Update
from zofedht.server.aggregation.masked_sum import MaskedSum
from zofedht.server.core.attempt import Attempt

__all__ = ["Aside", "first_calls", "next_calls"]

_log = logging.getLogger(__name__)


class Aside:
    """Clients that get no slots, since others cannot open the shares that they sealed; a process remembers them."""

    def __init__(self) -> None:
        self._of_round: set[str] = set()
        self._of_run: set[str] = set()

    def without(self, members: Sequence[Member]) -> list[Member]:
        """Return the members that may have slots."""
        return [member for member in members if member.name not in self._of_round | self._of_run]

    def hear(self, attempt: Attempt) -> None:
        """Set aside whom an attempt without a sum has found: for the round, or for the run where most accuse it."""
        if attempt.masking is None:
            return
        for slot, count in attempt.masking.doubted.items():
            client, lasting = attempt.asked[slot].client, slot in attempt.masking.proven
            (self._of_run if lasting else self._of_round).add(client)
            until = "run" if lasting else "round"
            facts = {"event": "set-aside", "client": client, "accusers": count, "until": until}
            text = "client %s is set aside for the rest of the %s: %d of %d clients cannot open what it sealed"
            _log.warning(text, client, until, count, len(attempt.asked), extra={"facts": facts})

    def next_round(self) -> None:
        """Let those take part again that were set aside for a round."""
        self._of_round.clear()


def first_calls(attempt: Attempt, members: Sequence[Member], config: RunConfig) -> list[Broadcast]:
    """Return the calls that ask each slot for its keys. Raises RoundError where a client could not keep them."""
    forgetful = [member.name for member in members if not member.keeps_x]
    if forgetful:
        raise RoundError(
            f"secure-aggregation needs clients that keep their keys between messages, and client {forgetful[0]} is"
            " on a node of Flower, which keeps nothing; run in process or over gRPC (`serve` and `join`)"
        )
    spec = next(iter(attempt.asked.values())).spec
    attempt.masking = MaskedSum(list(attempt.asked), spec.slopes, config.unmasking)
    return [_call(asked, "keys", b"") for asked in attempt.asked.values()]


def next_calls(attempt: Attempt, masking: MaskedSum, updates: Sequence[Update]) -> list[Broadcast]:
    """Return the calls of the next stage; in the stage ``masked`` these are the slots, and ask for their steps."""
    payloads, asked = masking.advance(updates), attempt.asked
    if masking.stage != "masked":
        return [_call(asked[slot], masking.stage, payload) for slot, payload in payloads.items()]
    for slot, payload in payloads.items():
        asked[slot] = replace(asked[slot], stage="masked", payload=payload)
    return [asked[slot] for slot in payloads]


def _call(asked: Broadcast, stage: str, payload: bytes) -> Broadcast:
    """Return a message that asks for no steps, and so has neither x nor Q."""
    bare = Broadcast(address=asked.address, spec=asked.spec, client=asked.client, shard_index=asked.shard_index)
    return replace(bare, stage=stage, payload=payload)
