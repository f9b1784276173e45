"""What moved x in the latest rounds, and which client holds the x of which round.

It is not in the checkpoint: after a resumed run each client gets x in full once.
"""

from __future__ import annotations

from dataclasses import dataclass

from zofedht.common.typing import Vector
from zofedht.common.wire.arrays import vector_digest
from zofedht.common.wire.messages import NO_BASIS, Broadcast, TrailStep

__all__ = ["Trail"]

_MOST_NUMBERS = 2_000_000_000  # that a client is to draw to catch up: some 20 seconds of a core


@dataclass(frozen=True)
class _Held:
    """What a host confirmed: x of ``round``, and all moves of rounds from ``since`` on."""

    round: int
    since: int
    basis_version: int  # of the Q that it used


class Trail:
    """The mean slopes of consecutive rounds that lead to the present x."""

    def __init__(self) -> None:
        self._steps: dict[int, TrailStep] = {}  # by round
        self._x: Vector | None = None
        self._digest = ""  # of ``_x``
        self._held: dict[str, _Held] = {}

    def digest(self, x: Vector) -> str:
        """Return the digest of the present x; when the steps do not lead there, they are forgotten."""
        if x is not self._x:
            digest = vector_digest(x)
            if digest != self._digest:
                self._steps = {}
            self._x, self._digest = x, digest
        return self._digest

    def add(self, asked: Broadcast, lengths: Vector | None, following: Vector) -> None:
        """Note what a round did to x: it moved by mean lengths alone, or by more (None)."""
        if lengths is None:
            self._steps = {}
        else:
            version = asked.basis_version if asked.needs_basis else NO_BASIS
            step = TrailStep(asked.spec.subspace_weight, asked.spec.subspace_gain, asked.spec.shrink, version, lengths)
            self._steps[asked.round] = step
            most = self._most(asked, step)
            while len(self._steps) > most:
                del self._steps[min(self._steps)]
        self._x, self._digest = following, vector_digest(following)

    def steps_for(self, host: str, broadcast: Broadcast) -> tuple[TrailStep, ...] | None:
        """Return the steps from the x that a host holds to the present one; None where x itself must be sent."""
        held = self._held.get(host)
        if held is None or held.round > broadcast.round:
            return None
        rounds = range(held.round, broadcast.round)
        if any(round_ not in self._steps for round_ in rounds):
            return None
        steps = tuple(self._steps[round_] for round_ in rounds)
        known = {NO_BASIS, held.basis_version, broadcast.basis_version}
        if any(s.basis_version not in known and not _derivable(held, s.basis_version, broadcast.memory) for s in steps):
            return None
        return steps

    def derives_basis(self, host: str, broadcast: Broadcast) -> bool:
        """Whether a host that is sent steps makes the Q of this round by itself."""
        held = self._held.get(host)
        return held is not None and _derivable(held, broadcast.basis_version, broadcast.memory)

    def confirm(self, host: str, broadcast: Broadcast, *, had_x: bool) -> None:
        """Note that a host has worked on this broadcast; ``had_x`` if x was sent in full."""
        before = self._held.get(host)
        since = broadcast.round if had_x or before is None else before.since
        version = (
            broadcast.basis_version if broadcast.needs_basis else NO_BASIS if before is None else before.basis_version
        )
        self._held[host] = _Held(broadcast.round, since, version)

    def forget(self, host: str) -> None:
        """Note that a host has lost what it held."""
        self._held.pop(host, None)

    def _most(self, asked: Broadcast, step: TrailStep) -> int:
        """Return after how many rounds x itself is shorter, or quicker to have; in place x is the whole trail."""
        if asked.spec.in_place:
            return asked.round + 1
        shorter = 8 * asked.dimension // step.size
        return max(1, min(shorter, _MOST_NUMBERS // (len(step.lengths) * asked.dimension)))


def _derivable(held: _Held, version: int, memory: int) -> bool:
    return memory > 0 and version - memory >= held.since
