"""Who holds what: which host has Q, the x of a past round, and draws the server's own directions.

It is not in the checkpoint: after a resumed run each host gets Q and x in full once.
"""

from __future__ import annotations

import numpy as np

from zofedht.common.typing import Matrix, Vector
from zofedht.common.wire.arrays import vector_digest
from zofedht.common.wire.clients import Member
from zofedht.common.wire.fields import changed
from zofedht.common.wire.messages import MISSING, Broadcast, Update
from zofedht.server.aggregation.screening import Failure
from zofedht.server.delivery.fallbacks import Fallbacks
from zofedht.server.delivery.trail import Trail

__all__ = ["Holdings"]


class Holdings:
    """Completes broadcasts with what their host lacks, and notes what the host has then."""

    def __init__(self, downlink: str, memory: int, refresh: int) -> None:
        """``memory``: from how many moves Q is made, 0 where there is none; ``refresh``: every how many rounds."""
        self._sends_slopes = downlink == "slopes"
        self._memory, self._refresh = memory, refresh if memory else 0
        self._bases: dict[str, str] = {}  # host -> digest of the basis that it confirmed
        self._origins: dict[str, str] = {}  # host -> digest of the x from which sums lead on
        self._forgetful: set[str] = set()  # hosts that keep no x
        self._trail = Trail()
        self.fallbacks = Fallbacks()

    def meet(self, member: Member, broadcast: Broadcast) -> None:
        """Note what a member says of its host when it is given a slot's broadcast."""
        if not member.keeps_x:
            self._forgetful.add(member.host)
        if member.moves_only:
            place = broadcast.round, broadcast.slot, member.name
            self.fallbacks.add(member.host, Failure(*place, "other-directions", member.moves_only))

    def complete(
        self,
        broadcast: Broadcast,
        host: str,
        basis: Matrix | None,
        *,
        origin: Vector | None = None,
        with_basis: bool = False,
    ) -> Broadcast:
        """Return the broadcast, which has x, as the host must be sent it.

        The sums of a pool go in the place of x to a host that holds the ``origin``, else with the origin.
        Q, which is ``basis``, goes to a host that neither holds nor derives it, and ``with_basis`` to any. The trail
        goes in the place of x to a host that holds the x of a round from which the trail leads to this one.
        """
        derives = False
        follows = self._sends_slopes and host not in self._forgetful and host not in self.fallbacks
        if broadcast.sums is not None and not follows:
            broadcast = changed(broadcast, sums=None, origin_digest="")
        elif broadcast.sums is not None and origin is not None:
            broadcast = changed(broadcast, x_digest=vector_digest(broadcast.x), x=origin)
            if self._origins.get(host) == broadcast.origin_digest:
                broadcast = changed(broadcast, x=np.empty(0), size=broadcast.dimension)
        elif follows:
            broadcast = changed(broadcast, x_digest=self._trail.digest(broadcast.x))
            broadcast = changed(broadcast, memory=self._memory, refresh=self._refresh)
            steps = self._trail.steps_for(host, broadcast)
            if steps is not None:
                derives = self._trail.derives_basis(host, broadcast)
                broadcast = changed(broadcast, trail=steps, x=np.empty(0), size=broadcast.dimension)
        holds = derives or self._bases.get(host) == broadcast.basis_digest
        if broadcast.needs_basis and (with_basis or not holds):
            broadcast = changed(broadcast, basis=basis)
        return broadcast

    def confirm(self, update: Update, sent: Broadcast, host: str) -> None:
        """Note what the answer to the broadcast that was sent says about its host."""
        if update.status == "ok":
            if sent.needs_basis:
                self._bases[host] = sent.basis_digest
            if sent.sums is not None:
                self._origins[host] = sent.origin_digest
            elif sent.x_digest:
                self._trail.confirm(host, sent, had_x=sent.trail is None)
        elif update.status in MISSING:  # an engine without re-sends sends them next time
            self.forget(update, host)

    def forget(self, update: Update, host: str) -> None:
        """Note that a host has lost Q, or x and Q, as the update says."""
        self._bases.pop(host, None)
        if update.status == "x-missing":
            self._origins.pop(host, None)
            self._trail.forget(host)

    def moved(self, asked: Broadcast, lengths: Vector | None, following: Vector) -> None:
        """Note how a round led to the ``following`` x: by mean ``lengths`` alone, or by more (None)."""
        if self._sends_slopes:
            self._trail.add(asked, lengths, following)
