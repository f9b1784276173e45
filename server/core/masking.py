"""The calls of secure aggregation: the stages before and after the steps of a round."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from zofedht.common.config.run_config import RunConfig
from zofedht.common.errors import RoundError
from zofedht.common.wire.clients import Member
from zofedht.common.wire.messages import Broadcast, Update
from zofedht.server.aggregation.masked_sum import MaskedSum
from zofedht.server.core.attempt import Attempt

__all__ = ["first_calls", "next_calls"]


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
