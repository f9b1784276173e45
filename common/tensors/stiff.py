"""Directions in place that shrink along stiff ones, which the objectives of all clients name alike.

Told are k directions d_i, the rows of D: numbers of some blocks, 0 elsewhere. With P the projection onto their span

    v = u - (1-f) P u,   P = D' (D D')^-1 D,   so that E[v v'] = I - (1 - f^2) P

as ``directions/law`` has it. D u is summed over the named blocks alone, whose numbers of u are drawn once more.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from zofedht.common.errors import ObjectiveError
from zofedht.common.tensors.blocks import Block
from zofedht.common.tensors.directions import Bent, Direction, Numbers
from zofedht.common.tensors.guide import Along, Guided, columns_of, dot, pieces, polar_coefficients, product
from zofedht.common.typing import Vector

__all__ = ["Shrunk", "Stiff", "checked_stiff", "stiff_digest"]

_MOST = 100

Stiff = tuple[dict[int, Numbers], ...]
"""Directions as float32 numbers by the number of their blocks."""


def checked_stiff(named: Any, blocks: Sequence[Block]) -> Stiff:
    """Return the directions that an objective names, scaled so that the largest number is 1.

    Raises ObjectiveError unless these are at most 100 directions, each of finite numbers of known blocks, not all 0.
    """
    known = {block.name: (place, block) for place, block in enumerate(blocks)}
    if not isinstance(named, Sequence) or len(named) > _MOST or not all(isinstance(one, Mapping) for one in named):
        raise ObjectiveError(
            f"stiff must be at most {_MOST} dicts from names of blocks to their numbers, got {type(named).__name__}"
        )
    found = []
    for one in named:
        parts: dict[int, Numbers] = {}
        for name, given in one.items():
            if name not in known:
                raise ObjectiveError(f"stiff must name blocks of the objective, got {name!r}")
            place, block = known[name]
            numbers = np.asarray(given)
            if numbers.shape != block.shape or numbers.dtype.kind not in "fiu" or not np.all(np.isfinite(numbers)):
                raise ObjectiveError(
                    f"stiff must have finite numbers of shape {block.shape} for block {name}, got an array of"
                    f" {numbers.dtype} of shape {numbers.shape}"
                )
            parts[place] = numbers.reshape(-1)
        largest = max((float(np.max(np.abs(part))) for part in parts.values()), default=0.0)
        if largest == 0.0:
            raise ObjectiveError("stiff must have directions that are not 0 everywhere")
        found.append({place: (parts[place] / largest).astype(np.float32) for place in sorted(parts)})
    return tuple(found)


def stiff_digest(stiff: Stiff) -> str:
    """Return a digest of the directions, an empty text where there are none."""
    found = hashlib.blake2b(digest_size=16)
    for one in stiff:
        for place, part in one.items():
            found.update(f"{place} {len(part)} ".encode() + part.astype("<f4", copy=False).tobytes())
        found.update(b"\n")
    return found.hexdigest() if stiff else ""


@dataclass(frozen=True, eq=False)
class _Told(Bent):
    """A told direction as the numbers of one."""

    parts: Mapping[int, Numbers]

    def covers(self, block: int) -> bool:
        """Return whether it is not 0 in all of a block."""
        return block in self.parts

    def numbers(self, direction: Direction, block: int, piece: int, part: slice) -> Numbers:
        """Return it on a stretch of a block."""
        found: Numbers = self.parts[block][part].copy()
        return found


class Shrunk:
    """Shrinks directions along those that are told, from a round on."""

    def __init__(self, stiff: Stiff, factor: float, first: int, blocks: Sequence[Block]) -> None:
        """``factor`` is f, and ``first`` the 0-based round."""
        self._stiff, self._factor, self._first = stiff, factor, first
        used = {place for one in stiff for place in one}
        self._pieces = [found for found in pieces(blocks) if found[0] in used]
        gram = np.array([[self._product(one, other) for other in stiff] for one in stiff])
        root = polar_coefficients(gram, np.ones(len(stiff)))
        self._inverse = product(root, root.T)  # of D D', for those that are independent
        self._columns = columns_of([_Told(one) for one in stiff])

    def bend(
        self, drawn: Sequence[Direction], round_: int, trail: Vector, along: Along
    ) -> Sequence[Direction | Guided]:
        """Return the directions of a slot of a round from their isotropic parts."""
        if round_ < self._first or not drawn:
            return drawn
        parts = np.array([self._along(v) for v in drawn])  # D u, (directions, k)
        inside = (self._factor - 1.0) * product(parts, self._inverse)
        return [Guided(v, 1.0, self._columns, tuple(own)) for v, own in zip(drawn, inside.tolist(), strict=True)]

    def _along(self, u: Direction) -> list[float]:
        found: list[list[float]] = [[] for _ in self._stiff]
        for block, piece, part in self._pieces:
            numbers = u.isotropic(block, piece, part)
            for sums, one in zip(found, self._stiff, strict=True):
                if block in one:
                    sums.append(dot(one[block][part], numbers))
        return [math.fsum(sums) for sums in found]

    def _product(self, one: Mapping[int, Numbers], other: Mapping[int, Numbers]) -> float:
        both = [(block, part) for block, _, part in self._pieces if block in one and block in other]
        return math.fsum(dot(one[block][part], other[block][part]) for block, part in both)
