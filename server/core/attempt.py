"""One attempt at a round: which client was asked for which slot, and what it was asked again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from zofedht.common.wire.clients import Member
from zofedht.common.wire.messages import MISSING, Broadcast, Update
from zofedht.server.aggregation.masked_sum import MaskedSum
from zofedht.server.aggregation.replays import Replays

__all__ = ["Attempt"]


class Attempt:
    """The slots of one attempt: what was asked, what was sent, and who lost a slot."""

    def __init__(self, number: int = 0) -> None:
        self.number = number  # 0-based
        self.asked: dict[int, Broadcast] = {}  # by slot, with x and without Q
        self.sent: dict[int, Broadcast] = {}  # by slot, as its client was sent it last
        self.hosts: dict[int, str] = {}  # of the client of each slot
        self.seconds: dict[int, float] = {}  # by slot, how long its client took
        self._samples: dict[int, int] = {}  # of that client's shard, 0 where nobody knows it
        self.replays = Replays()
        self.masking: MaskedSum | None = None  # under secure aggregation
        self._lost: dict[int, list[str]] = {}  # slot -> clients that gave no answer
        self._resent: set[tuple[int, str]] = set()  # (slot, client) that were sent again what they had lost
        self._rechecked: set[tuple[int, str]] = set()  # (slot, client) asked for the move after the slopes

    def give(self, broadcast: Broadcast, member: Member) -> None:
        """Give a slot to a client; another client's answer for it is stale from now on."""
        self.asked[broadcast.slot] = broadcast
        self.hosts[broadcast.slot] = member.host
        self._samples[broadcast.slot] = member.samples
        self.seconds.pop(broadcast.slot, None)

    def lose(self, slot: int) -> list[str]:
        """Return all clients that have lost the slot, the present one now with them."""
        lost = self._lost.setdefault(slot, [])
        lost.append(self.asked[slot].client)
        return lost

    def answered(self, update: Update) -> Broadcast | None:
        """Return what an update answers, or None: its slot may have gone to another client since."""
        broadcast = self.asked.get(update.slot)
        return broadcast if broadcast is not None and broadcast.client == update.client else None

    def resend(self, update: Update) -> Broadcast | None:
        """Return what is to be sent again to a client that has lost Q or x; None if it was sent again before."""
        broadcast = self.answered(update)
        if update.status not in MISSING or broadcast is None or (update.slot, update.client) in self._resent:
            return None
        self._resent.add((update.slot, update.client))
        return broadcast

    def recheck(self, slot: int) -> Broadcast:
        """Return the broadcast that asks for the move of a slot, whose slopes are not to be used."""
        self._rechecked.add((slot, self.asked[slot].client))
        asked = self.asked[slot]
        self.asked[slot] = replace(asked, spec=replace(asked.spec, uplink="move"))
        return self.asked[slot]

    def final(self, updates: Sequence[Update]) -> list[Update]:
        """Leave out the replies that were followed by another question to the same client for the same slot.

        A reply that claims another number of samples than its client's shard has is malformed.
        """
        done = [self._counted(u) for u in updates if u.status not in MISSING]
        answered = {u.slot for u in done}
        missing = {u.slot: u for u in updates if u.status in MISSING and u.slot not in answered}
        return [*(u for u in done if u.slopes is None or (u.slot, u.client) not in self._rechecked), *missing.values()]

    def _counted(self, update: Update) -> Update:
        samples = self._samples.get(update.slot, 0)
        if not samples or update.status != "ok" or update.examples == samples or self.answered(update) is None:
            return update
        reason = f"examples must be the {samples} of the client's shard, got {update.examples}"
        return Update(update.round, update.slot, update.client, "failed", "malformed", None, reason)
