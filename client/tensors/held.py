"""The parameters of a process, and where on the trail they are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from zofedht.client.tensors.copies import Copy, copy_of
from zofedht.common.choices import PLACE_PROBES
from zofedht.common.errors import DataError, ObjectiveError
from zofedht.common.machine.memory import lacking
from zofedht.common.random.streams import Address
from zofedht.common.tensors.agreement import Tensors
from zofedht.common.tensors.blocks import blocks_as_text, total_bytes
from zofedht.common.tensors.directions import Direction
from zofedht.common.tensors.guide import Guide, Guided
from zofedht.common.tensors.objective import InPlaceObjective
from zofedht.common.tensors.stiff import checked_stiff, stiff_digest
from zofedht.common.tensors.trail import TrailLaw, begins
from zofedht.common.typing import Vector
from zofedht.common.wire.arrays import vector_digest

__all__ = ["Held", "Households"]

_TRIED = 0.0123  # how far the test of the draws leads


class Held:
    """The parameters of one holder. All that leads them away puts them back, or to another place of the trail."""

    def __init__(self, objective: InPlaceObjective, copies: str = "auto") -> None:
        """The objective, any of the holder's, holds the start now."""
        self._objective = objective
        self._copies = copies
        self._stiff = checked_stiff(objective.stiff, objective.blocks)
        self._start = copy_of(objective, copies, count=2)  # and that of x_r, told before the run
        self._copy: Copy | None = None
        self._copied: Vector | None = None  # the trail to what the copy holds
        self._law: TrailLaw | None = None
        self._guide: Guide | None = None  # of the law
        self._arriving: Vector | None = None  # the trail to a snapshot, of which the copy holds
        self._arrived = 0  # so many bytes
        self._present: Vector | None = np.empty(0)  # the trail to the present parameters; None in the middle of a slot
        self.known = np.empty(0)  # the longest trail that was followed: later messages go on from there
        self.tensors = self._described()

    def go_to(self, trail: Vector, law: TrailLaw) -> None:
        """Lead the parameters to where a trail ends, from the nearest of the present, the copy and the start.

        Each is the same number of sums away from the start, so that all roads end in the same bits.
        """
        self.take_up(law)
        bases: dict[str, Vector | None] = {"present": self._present, "copy": self._copied, "start": np.empty(0)}
        lengths = {name: len(base) for name, base in bases.items() if base is not None and begins(base, trail)}
        nearest = max(lengths, key=lambda name: lengths[name])  # the first of equal ones
        self._present = None
        if nearest == "copy" and self._copy is not None:
            self._copy.put_back()
        elif nearest == "start":
            self._start.put_back()
        law.follow(self._objective, trail, lengths[nearest], self._guide)
        self._present = trail
        if not begins(trail, self.known):
            self.known = trail

    def directions(self, round_: int, slot: int, trail: Vector, law: TrailLaw) -> Sequence[Direction | Guided]:
        """Return the directions of a slot of the round to which a trail leads, good until the trail is followed on.

        Raises DataError where they do not fit into memory.
        """
        self.take_up(law)
        return law.directions(round_, slot, self._objective.blocks, trail, self._guide)

    def go_to_end(self) -> None:
        """Lead the parameters to the end of the longest trail that was followed."""
        if self._law is not None:
            self.go_to(self.known, self._law)

    @contextmanager
    def changed(self) -> Iterator[None]:
        """Let the block change the parameters; whatever happens in it, they are put back bit for bit."""
        assert self._present is not None  # ``go_to`` comes first
        here, copy = self._present, self._copy_here(self._present)
        self._present = None
        try:
            yield
        finally:
            copy.put_back()
            self._present = here

    def copy_at(self, trail: Vector, law: TrailLaw) -> Copy:
        """Lead the parameters to where a trail ends, and return a copy of them."""
        self.go_to(trail, law)
        return self._copy_here(trail)

    def copied_at(self, digest: str) -> Copy | None:
        """Return the latest copy where that is the end of a trail of this digest."""
        if digest == vector_digest(np.empty(0)):
            return self._start
        return self._copy if self._copied is not None and vector_digest(self._copied) == digest else None

    def length_held(self, trail: Vector, law: TrailLaw) -> int:
        """Return how many lengths of a trail need not be followed any more."""
        bases = (self._present, self._copied) if law == self._law else ()
        return max((len(base) for base in bases if base is not None and begins(base, trail)), default=0)

    def begin_arrival(self, trail: Vector, law: TrailLaw) -> None:
        """Prepare for the parameters at the end of a trail, which come in parts."""
        self.take_up(law)
        self._copied = None
        self._copy = self._copy or copy_of(self._objective, self._copies)
        self._arriving, self._arrived = trail, 0

    def arrive(self, start: int, part: bytes, digest: str) -> None:
        """Take in a part of them. With the last part the parameters are where the trail leads.

        Raises DataError for a part that is not the next one, or where all of them have another digest: then the
        parameters are at the start.
        """
        size = total_bytes(self._objective.blocks)
        if self._arriving is None or start != self._arrived or not 0 < len(part) <= size - start:
            raise DataError.public(f"the bytes of the parameters from {start} on are not those that come next")
        assert self._copy is not None
        self._copy.write(start, part)
        self._arrived += len(part)
        if self._arrived < size:
            return
        trail, self._arriving, self._present = self._arriving, None, None
        self._copy.put_back()
        if (found := self._objective.state_digest()) != digest:
            self._start.put_back()
            self._present = np.empty(0)
            raise DataError.public(f"the parameters that came have the digest {found}, not {digest}")
        self._present = self._copied = self.known = trail

    def is_led_by(self, law: TrailLaw) -> bool:
        """Return whether this law leads the parameters already."""
        return law == self._law

    def take_up(self, law: TrailLaw) -> None:
        """Be led by this law from now on. Raises ObjectiveError where there can be no guide."""
        if not self.is_led_by(law):  # other directions: nothing but the start is common
            _require_room(law, self._objective.dim)
            guide = law.guide(self._objective.blocks, self._stiff)
            self._present, self._copied = self._present if self._is_start else None, None
            self._law, self.known, self._arriving = law, np.empty(0), None
            self._guide = guide

    def _copy_here(self, here: Vector) -> Copy:
        """Return a copy of the present parameters, which are at the end of this trail."""
        if len(here) == 0:
            return self._start
        if self._copy is None or self._copied is None or not np.array_equal(here, self._copied):
            self._copied = self._arriving = None
            if self._copy is None:
                self._copy = copy_of(self._objective, self._copies)
            else:
                self._copy.take()
            self._copied = here
        return self._copy

    @property
    def _is_start(self) -> bool:
        return self._present is not None and len(self._present) == 0

    def _described(self) -> Tensors:
        """Return what must be the same at all clients; a direction of each law is added, and the start put back."""
        start = self._objective.state_digest()
        try:
            for number, probe in enumerate(PLACE_PROBES):
                self._objective.add(Direction(Address(2024, 7, 3), number, probe), _TRIED)
            draws = self._objective.state_digest()
        finally:
            self._start.put_back()
        blocks = self._objective.blocks
        return Tensors(self._objective.dim, blocks_as_text(blocks), start, draws, stiff_digest(self._stiff))


class Households:
    """The parameters of each holder of a process: clients that share a holder share them."""

    def __init__(self, copies: str = "auto") -> None:
        """``copies``: where copies lie, memory, disk or auto."""
        self._copies = copies
        self._held: list[tuple[object, Held]] = []

    def of(self, objective: InPlaceObjective) -> Held:
        """Return the parameters of an objective, which are at the start when they are first seen."""
        holder = objective.holder
        for known, held in self._held:
            if known is holder:
                return held
        held = Held(objective, self._copies)
        self._held.append((holder, held))
        return held

    def prepare(self, held: Held, law: TrailLaw, dimension: int) -> None:
        """Let the parameters be led by a law.

        Raises ObjectiveError where they cannot, and where the guides of all holders so far do not fit into memory.
        """
        if not held.is_led_by(law):  # a guide that is there needs no further room
            _require_room(law, dimension, len(self._held))
            held.take_up(law)


def _require_room(law: TrailLaw, dimension: int, holders: int = 1) -> None:
    """Raise ObjectiveError where the guides of so many models do not fit into the memory that is free."""
    what = f"the guide of memory = {law.memory} moves of n = {dimension:,} parameters in float32"
    what += f", for each of {holders} models," if holders > 1 else ""
    if text := lacking(holders * law.guide_bytes(dimension), what):
        raise ObjectiveError.public(f"{text}; a smaller memory takes less, and zofedavg-sgd has no guide")
