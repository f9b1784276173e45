"""Clients whose directions are not the server's: their moves are taken, and the history says so."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from zofedht.common.replay import draw_digest
from zofedht.common.wire.clients import Member
from zofedht.common.wire.messages import Update
from zofedht.server.aggregation.screening import Failure

__all__ = ["OTHER_NUMBERS", "Fallbacks", "count_fallbacks"]

OTHER_NUMBERS = "it draws other numbers than the server, so its move is taken"


class Fallbacks:
    """Remembers hosts for the run, and for each round the slots that they took part with."""

    def __init__(self) -> None:
        self._reasons: dict[str, str] = {}  # by host
        self._slots: list[Failure] = []  # of this round

    def __contains__(self, host: str) -> bool:
        """Whether a host's directions are known to be others: it cannot follow x by slopes."""
        return host in self._reasons

    def known(self, member: Member) -> Member:
        """Return the member, whose slopes are not to be asked for where its host is known."""
        reason = member.moves_only or self._reasons.get(member.host, "")
        return member if reason == member.moves_only else replace(member, moves_only=reason)

    def add(self, host: str, slot: Failure) -> None:
        """Note a slot along other directions and why, once."""
        self._reasons[host] = slot.reason
        if all((slot.slot, slot.client) != (noted.slot, noted.client) for noted in self._slots):
            self._slots.append(slot)

    def check(self, moves: Sequence[Update], hosts: Mapping[int, str]) -> None:
        """Note the moves along other directions, by the digest that comes with them; ``hosts`` are those of slots."""
        for update in moves:
            if update.move is not None and update.draw_digest != draw_digest():
                other = Failure(update.round, update.slot, update.client, "other-directions", OTHER_NUMBERS)
                self.add(hosts[update.slot], other)

    def take(self) -> list[Failure]:
        """Return the slots of the round that is over."""
        taken, self._slots = self._slots, []
        return taken


def count_fallbacks(rows: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Return for each client whose directions were others how many slots it took part with."""
    return dict(Counter(str(slot["client"]) for row in rows for slot in row["fallbacks"]))
