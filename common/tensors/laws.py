"""Laws of directions in place that are not isotropic: matrices of low rank, and a subset of the parameters.

Matrices are blocks with two or more axes, the first of which are the rows, whose sides are both longer than r. Their
part of v is L R' in float32, summed over the r columns one after the other, so that all machines round alike:

lowrank: L = U / sqrt(r), U (rows, r) drawn for each direction; R (columns, r) normal, one for some rounds.
subspace-core: L = A Z sqrt(rows columns) / r and R = B, A and B orthonormal for some rounds, Z (r, r) drawn for each
    direction.

All other blocks have isotropic parts. Over all draws E[v v^T] = I. ``common/directions/blocks`` has the same for
vectors, with the sources.

subset: isotropic numbers where a parameter is one of those that moved farthest, of all blocks together; 0 elsewhere.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zofedht.common.random.streams import stream
from zofedht.common.tensors.blocks import Block, total
from zofedht.common.tensors.directions import PIECE, Bent, Direction

__all__ = ["LowRankLaw", "Subset", "farthest"]

Numbers = NDArray[Any]

_HALF = 16  # bits of a key that are counted at a time
_BINS = 2**_HALF


@dataclass(frozen=True)
class LowRankLaw(Bent):
    """Low rank in the matrices among ``blocks``; what sides have in common is that of round ``since``."""

    law: str  # lowrank or subspace-core
    rank: int  # r
    since: int
    blocks: tuple[Block, ...]

    def numbers(self, direction: Direction, block: int, piece: int, part: slice) -> Numbers:
        """Return v on a stretch of a block."""
        shape = self.blocks[block].shape
        rows, columns = (shape[0], math.prod(shape[1:])) if len(shape) > 1 else (1, 1)
        if min(rows, columns) <= self.rank:
            return direction.isotropic(block, piece, part)
        left, right = _sides(self, direction, block, rows, columns)
        first, last = part.start // columns, -(-part.stop // columns)
        found = np.multiply.outer(left[first:last, 0], right[:, 0])
        for one in range(1, self.rank):
            found += np.multiply.outer(left[first:last, one], right[:, one])
        flat: Numbers = found.reshape(-1)[part.start - first * columns : part.stop - first * columns]
        return flat


@functools.lru_cache(maxsize=64)  # the pieces of a block follow each other
def _sides(law: LowRankLaw, direction: Direction, block: int, rows: int, columns: int) -> tuple[Numbers, Numbers]:
    """Return L (rows, r) and R (columns, r), float32."""
    fixed, r = _fixed(law, direction.address.seed, block, rows, columns), law.rank
    count = rows * r if law.law == "lowrank" else r * r
    drawn = direction.isotropic(block, 0, slice(0, count)).reshape(-1, r)
    if law.law == "lowrank":
        return drawn * np.float32(1.0 / math.sqrt(r)), fixed[1]
    core = drawn * np.float32(math.sqrt(rows * columns) / r)
    left = np.multiply.outer(fixed[0][:, 0], core[0])
    for one in range(1, r):
        left += np.multiply.outer(fixed[0][:, one], core[one])
    return left, fixed[1]


@functools.lru_cache(maxsize=1024)
def _fixed(law: LowRankLaw, seed: int, block: int, rows: int, columns: int) -> tuple[Numbers, Numbers]:
    """Return the sides of a block that stay for some rounds, those of rows where the law has any, and of columns."""
    numbers = stream(seed, "blocks", law.since, block)
    if law.law == "lowrank":
        return np.empty((0, law.rank), np.float32), numbers.standard_normal((columns, law.rank)).astype(np.float32)
    left, right = (_orthonormal(numbers.standard_normal((side, law.rank))) for side in (rows, columns))
    return left, right


def _orthonormal(matrix: Numbers) -> Numbers:
    """Return orthonormal columns with the same span, by exact sums: LAPACK rounds otherwise on each machine."""
    done: list[Numbers] = []
    for column in matrix.T:
        for _ in range(2):
            for other in done:
                column = column - math.fsum(column * other) * other
        done.append(column / math.sqrt(math.fsum(column * column)))
    return np.stack(done, axis=1).astype(np.float32)


@dataclass(frozen=True)
class Subset(Bent):
    """Which parameters directions change: a bit for each number of each block."""

    bits: tuple[NDArray[np.uint8], ...]

    def numbers(self, direction: Direction, block: int, piece: int, part: slice) -> Numbers:
        """Return v on a stretch of a block."""
        kept = self.bits[block][part.start // 8 : -(-part.stop // 8)]  # a piece begins with a byte
        found: Numbers = direction.isotropic(block, piece, part)
        return found * np.unpackbits(kept, count=part.stop - part.start)


def farthest(moved: Callable[[int], Numbers], blocks: Sequence[Block], share: float) -> Subset:
    """Return the given share of all parameters, at least one: those of the largest |moved|, the first of equal ones.

    ``moved(block)`` is how far its numbers have moved, float32, of one block at a time: the keys are their bits without
    the sign, whose order is that of the sizes. Two passes count them, by the upper and by the lower half.
    """
    kept = max(1, round(share * total(blocks)))

    def keys() -> Iterator[NDArray[np.uint32]]:
        for block in range(len(blocks)):
            yield np.abs(moved(block)).view(np.uint32)

    upper = sum((np.bincount(one >> _HALF, minlength=_BINS) for one in keys()), np.zeros(_BINS, np.int64))
    above = _crossing(upper, kept)
    kept -= int(upper[above + 1 :].sum())
    among = (one[one >> _HALF == above] & (_BINS - 1) for one in keys())
    lower = sum((np.bincount(one, minlength=_BINS) for one in among), np.zeros(_BINS, np.int64))
    below = _crossing(lower, kept)
    kept -= int(lower[below + 1 :].sum())  # so many of those that are equal to the least
    least, bits = (above << _HALF) + below, []
    for one in keys():
        chosen = one > least
        equal = np.flatnonzero(one == least)[:kept]
        chosen[equal] = True
        kept -= len(equal)
        bits.append(np.packbits(chosen))
    return Subset(tuple(bits))


def _crossing(counts: NDArray[np.int64], kept: int) -> int:
    """Return the highest bin with which there are as many as are to be kept."""
    return int(np.flatnonzero(counts[::-1].cumsum()[::-1] >= kept)[-1])


assert PIECE % 8 == 0
