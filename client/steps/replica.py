"""The server's x, kept by a client: moved on by mean slopes, so that x and Q need not be sent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from zofedht.common.directions.law import law_of
from zofedht.common.directions.trajectory import basis_of
from zofedht.common.machine.blas import one_thread
from zofedht.common.objective.units import Units
from zofedht.common.replay import landed, past_round, pool_move, replay
from zofedht.common.typing import Matrix, Vector
from zofedht.common.wire.arrays import vector_digest
from zofedht.common.wire.messages import NO_BASIS, Broadcast

__all__ = ["Replica"]

_BASES_KEPT = 2


class Replica:
    """x of one round, the moves that led there, and the bases that they span: the server's own, bit for bit."""

    def __init__(self) -> None:
        self._round = 0
        self._x: Vector | None = None
        self._digest = ""
        self._origin: Vector | None = None  # from which the sums of a pool lead to x
        self._origin_digest = ""
        self._window: list[Vector] = []  # the latest moves, as far as they were seen
        self._bases: dict[int, Matrix] = {}  # by version

    def follow(self, broadcast: Broadcast, units_of: Callable[[Broadcast], Units | None]) -> Broadcast | None:
        """Return the broadcast with x in it, or None where x does not follow from what is held.

        ``units_of`` tells the bounds onto which the server projects x.
        """
        if not broadcast.x_digest:
            return broadcast  # a server that always sends x
        if broadcast.basis is not None:
            self._keep_basis(broadcast.basis_version, broadcast.basis)
        if broadcast.sums is not None:
            return self._by_sums(broadcast, units_of)
        if broadcast.trail is None:
            if broadcast.x_digest != self._digest:
                self._window = []
            self._round, self._x, self._digest = broadcast.round, broadcast.x, broadcast.x_digest
            return broadcast
        if broadcast.x_digest != self._digest and not self._replay(broadcast, units_of):
            return None
        assert self._x is not None  # it has the digest
        self._round = broadcast.round
        return replace(broadcast, x=self._x, trail=None)

    def _by_sums(self, broadcast: Broadcast, units_of: Callable[[Broadcast], Units | None]) -> Broadcast | None:
        """Return the broadcast with the x to which the sums of a pool lead from the x that is held or was sent."""
        assert broadcast.sums is not None
        if broadcast.size == 0:
            self._origin, self._origin_digest = broadcast.x, vector_digest(broadcast.x)
        if self._origin is None or self._origin_digest != broadcast.origin_digest:
            return None
        if broadcast.x_digest != self._digest or self._x is None:
            with one_thread():
                seed, origin, spec = broadcast.address.seed, self._origin, broadcast.spec
                move = pool_move(law_of(spec, len(origin)), seed, broadcast.sums, spec.kernel)
                self._x, _ = landed(origin, move, units_of(replace(broadcast, x=origin)))
            self._digest = vector_digest(self._x)
            if self._digest != broadcast.x_digest:
                self._x, self._digest = None, ""
                return None
        return replace(broadcast, x=self._x, sums=None, origin_digest="", size=0)

    def basis(self, version: int) -> Matrix | None:
        """Return Q of a version, or None where it was neither given nor followed from the moves."""
        return self._bases.get(version)

    def _replay(self, broadcast: Broadcast, units_of: Callable[[Broadcast], Units | None]) -> bool:
        assert broadcast.trail is not None
        first = broadcast.round - len(broadcast.trail)
        if self._x is None or not first <= self._round < broadcast.round:
            return False
        units = units_of(replace(broadcast, x=self._x))
        with one_thread():
            for step in broadcast.trail[self._round - first :]:
                basis = self._bases.get(step.basis_version)
                if step.basis_version != NO_BASIS and basis is None:
                    return False
                past = past_round(broadcast, self._round, step, self._x)
                self._x, move = landed(self._x, replay(past, basis, step.lengths).move, units)
                self._round += 1
                self._remember(move, broadcast.memory, broadcast.refresh)
        self._digest = vector_digest(self._x)
        if self._digest == broadcast.x_digest:
            return True
        self._x, self._digest, self._window = None, "", []
        return False

    def _remember(self, move: Vector, memory: int, refresh: int) -> None:
        """Keep a move, and make Q anew when the server does."""
        if not memory:
            return
        self._window = [*self._window, move][-memory:]
        if self._round % refresh == 0 and len(self._window) == memory:
            self._keep_basis(self._round, basis_of(self._window))

    def _keep_basis(self, version: int, basis: Matrix) -> None:
        self._bases[version] = basis
        while len(self._bases) > _BASES_KEPT:
            del self._bases[min(self._bases)]
