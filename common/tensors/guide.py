"""Guides in place: the last moves as arrays beside the parameters, rebuilt from the trail by whoever follows it.

A guide is made of the moves of the last tau rounds, the rows of M, (tau, n) in float32. Their polar factor is Q = M' R,
as ``directions/trajectory`` has it, and R is a small matrix. A direction along it is a sum of an isotropic one and of
rows of M (paper eq. 9):

    v = sqrt(1-a) v1 + sqrt(a s) Q v2 = sqrt(1-a) v1 + M' g,   g = sqrt(a s) R v2

So a guide takes tau n numbers and no more, and is never sent. Products are summed in float64 in one order, and R comes
from elementary operations, so that all machines have the same bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from zofedht.common.directions.law import subspace_gain
from zofedht.common.directions.probes import LAWS
from zofedht.common.random.source import Source
from zofedht.common.random.streams import Address
from zofedht.common.tensors.blocks import Block, total
from zofedht.common.tensors.directions import PIECE, WORTH_COMPILING, Bent, Direction, Numbers, add_piece
from zofedht.common.typing import Matrix, Vector

__all__ = [
    "Along",
    "Guide",
    "Guided",
    "Trajectory",
    "columns_of",
    "dot",
    "pieces",
    "plain",
    "polar_coefficients",
    "product",
]

_LANES = 64  # sums that a product of two pieces is made of
_RELATIVE_ZERO = 1e-12  # a move this much shorter than the longest one is rounding
_INDEPENDENT = 1e-10  # of a unit move's square that must lie across those before it: moves are float32
_TURNS = 100  # of the iteration, which takes some 45 for moves that hardly differ

_NOWHERE = Address(0, 0, 0)

Along = Callable[[int], tuple[list[Direction], list[float]]]
"""The plain directions of a round of the trail, and how far it leads along each."""


@dataclass(frozen=True)
class Guided:
    """v = scale u + sum of inside * column."""

    u: Direction
    scale: float
    columns: tuple[Direction, ...]
    inside: tuple[float, ...]


def plain(
    directions: Sequence[Direction | Guided], coefficients: Sequence[float]
) -> tuple[list[Direction], list[float]]:
    """Return plain directions with the same sum of coefficient * v: each column once, after all others."""
    found: list[tuple[Direction, float]] = []
    inside: dict[Direction, float] = {}
    for v, coefficient in zip(directions, coefficients, strict=True):
        if isinstance(v, Direction):
            found.append((v, coefficient))
            continue
        if v.scale:
            found.append((v.u, coefficient * v.scale))
        for column, part in zip(v.columns, v.inside, strict=True):
            inside[column] = inside.get(column, 0.0) + coefficient * part
    found += [(column, part) for column, part in inside.items() if part]
    return [v for v, _ in found], [coefficient for _, coefficient in found]


@dataclass(frozen=True, eq=False)
class _Row(Bent):
    """A row of M as the numbers of a direction."""

    rows: Sequence[Numbers]  # M of each block, (tau, size)
    row: int

    def numbers(self, direction: Direction, block: int, piece: int, part: slice) -> Numbers:
        """Return it on a stretch of a block."""
        found: Numbers = self.rows[block][self.row, part].copy()
        return found


class Guide(Protocol):
    """What bends directions, and what is kept for it."""

    def bend(
        self, drawn: Sequence[Direction], round_: int, trail: Vector, along: Along
    ) -> Sequence[Direction | Guided]:
        """Return the directions of a slot of a round from their isotropic parts, all of one address.

        ``trail`` leads to this round, or farther. ``along`` is asked about earlier rounds one after the other, while
        they are guided by this.
        """


class Trajectory:
    """The last moves of a trail, and Q, which they span: made anew every ``refresh`` rounds."""

    def __init__(
        self, memory: int, refresh: int, weight: float, covariance: str, lengths: int, blocks: Sequence[Block]
    ) -> None:
        """``lengths`` are those that a round adds to the trail; the others are keys of the config."""
        self._memory, self._refresh, self._lengths, self._blocks = memory, refresh, lengths, blocks
        self._weight, self._covariance = weight, covariance
        self._rows: list[Numbers] = []  # M of each block, whose first rows are moves, the oldest first
        self._trail = np.empty(0)  # to where the guide was made
        self._gram, self._sizes = np.empty((0, 0)), np.empty(0)
        self._coefficients, self._columns = np.empty((0, 0)), tuple[Direction, ...]()  # R, (moves, tau'), and M

    def bend(
        self, drawn: Sequence[Direction], round_: int, trail: Vector, along: Along
    ) -> Sequence[Direction | Guided]:
        """Return the directions of a slot, good until the guide is led on.

        The coefficients v2 are those of a run on a vector: ``law.slot_directions`` draws the same.
        """
        self._go_to(trail, round_, along)
        rank = self._coefficients.shape[1]
        if not rank or not drawn:
            return drawn
        first = drawn[0]
        gain = subspace_gain(self._covariance, total(self._blocks), rank)
        inside = LAWS[first.probe](Source(first.address.stream("subspace"), "numpy"), len(drawn), rank)
        inside = math.sqrt(self._weight * gain) * product(inside, self._coefficients.T)
        scale = math.sqrt(1.0 - self._weight)
        return [Guided(v, scale, self._columns, tuple(own)) for v, own in zip(drawn, inside.tolist(), strict=True)]

    def _go_to(self, trail: Vector, round_: int, along: Along) -> None:
        end = round_ - round_ % self._refresh
        made = len(self._trail) // self._lengths
        if made > end or not np.array_equal(self._trail, trail[: made * self._lengths]):
            self._begin()
            made = 0
        for start in range(made, end, self._refresh):
            self._advance([along(one) for one in range(start, start + self._refresh)[-self._memory :]])
            self._trail = trail[: (start + self._refresh) * self._lengths].copy()

    def _begin(self) -> None:
        self._trail = np.empty(0)
        self._gram, self._sizes = np.empty((0, 0)), np.empty(0)
        self._coefficients, self._columns = np.empty((0, 0)), tuple[Direction, ...]()

    def _advance(self, fresh: Sequence[tuple[list[Direction], list[float]]]) -> None:
        """Take in the moves of further rounds, in the place of the oldest."""
        sizes = [max((abs(one) for one in coefficients), default=0.0) for _, coefficients in fresh]
        scaled = [  # only their directions count, and float32 has no tiny numbers
            (directions, [one / size for one in coefficients] if size else coefficients)
            for (directions, coefficients), size in zip(fresh, sizes, strict=True)
        ]
        before = len(self._sizes)
        kept = min(before, self._memory - len(fresh))
        count = kept + len(fresh)
        if not self._rows:
            self._rows = [np.empty((self._memory, block.size), np.float32) for block in self._blocks]
        products: dict[tuple[int, int], list[float]] = {(i, j): [] for i in range(kept, count) for j in range(i + 1)}
        for block, piece, part in pieces(self._blocks):
            rows, large = self._rows[block][:, part], self._blocks[block].size >= WORTH_COMPILING
            moves = np.zeros((len(fresh), part.stop - part.start), np.float32)
            for move, (directions, coefficients) in zip(moves, scaled, strict=True):
                add_piece(move, block, piece, part, directions, coefficients, worth=large)
            for row in range(kept):
                rows[row] = rows[before - kept + row]
            rows[kept:count] = moves
            for (i, j), found in products.items():
                found.append(dot(rows[i], rows[j]))
        gram = np.zeros((count, count))
        gram[:kept, :kept] = self._gram[before - kept :, before - kept :]
        for (i, j), found in products.items():
            gram[i, j] = gram[j, i] = math.fsum(found)
        self._gram, self._sizes = gram, np.concatenate([self._sizes[before - kept :], sizes])
        self._coefficients = polar_coefficients(gram, self._sizes)
        self._columns = columns_of([_Row(self._rows, row) for row in range(count)])


def columns_of(parts: Sequence[Bent]) -> tuple[Direction, ...]:
    """Return numbers that are there, and not drawn, as directions."""
    return tuple(Direction(_NOWHERE, place, "", part) for place, part in enumerate(parts))


def pieces(blocks: Sequence[Block]) -> Iterator[tuple[int, int, slice]]:
    """Yield the number of each block, that of each of its pieces, and the stretch that this is."""
    for index, block in enumerate(blocks):
        for piece, start in enumerate(range(0, block.size, PIECE)):
            yield index, piece, slice(start, min(start + PIECE, block.size))


def dot(a: Numbers, b: Numbers) -> float:
    """Return a.b of two pieces of float32, whose products are exact in float64, summed in one order on all machines."""
    products = np.multiply(a, b, dtype=np.float64)
    whole = len(products) - len(products) % _LANES
    return math.fsum([*products[:whole].reshape(-1, _LANES).sum(axis=0).tolist(), *products[whole:].tolist()])


def product(a: Matrix, b: Matrix) -> Matrix:
    """Return a b of small matrices, summed in one order on all machines."""
    total = np.zeros((a.shape[0], b.shape[1]))
    for column, row in zip(a.T, b, strict=True):
        total += np.multiply.outer(column, row)
    return total


def polar_coefficients(gram: Matrix, sizes: Vector) -> Matrix:
    """Return R, (moves, tau'): the columns of M' R are the orthonormal ones nearest to the moves of unit length.

    Parameters
    ----------
    gram : (moves, moves) array
        M M'.
    sizes : (moves,) array
        By what each move was divided.

    A move that is relatively zero, or in the span of those before it, is dropped. R = D^-1 (U'U)^(-1/2), where U are
    the others at unit length and D their lengths; the root by the coupled iteration of Newton and Schulz (Higham,
    "Functions of Matrices", 2008, eq. 6.35).
    """
    lengths = np.sqrt(np.diag(gram))
    longest = max((sizes * lengths).tolist(), default=0.0)
    usable = [i for i in range(len(gram)) if sizes[i] * lengths[i] > _RELATIVE_ZERO * longest]
    kept = _independent(gram, lengths, usable)
    coefficients = np.zeros((len(gram), len(kept)))
    if not kept:
        return coefficients
    count, unit = len(kept), np.eye(len(kept))
    y = gram[np.ix_(kept, kept)] / np.multiply.outer(lengths[kept], lengths[kept]) / count
    z, error = unit, math.inf
    for _ in range(_TURNS):
        turn = product(z, y)
        found = float(np.max(np.abs(unit - turn)))
        if found < 0.1 and found >= 0.5 * error:
            break  # what is left is rounding
        error, step = found, 0.5 * (3.0 * unit - turn)
        y, z = product(y, step), product(step, z)
    coefficients[kept] = z / math.sqrt(count) / lengths[kept][:, None]
    return coefficients


def _independent(gram: Matrix, lengths: Vector, usable: Sequence[int]) -> list[int]:
    """Return the moves that do not lie in the span of the kept ones before them, by Cholesky's decomposition."""
    kept: list[int] = []
    rows: list[Vector] = []
    for one in usable:
        rest = gram[kept, one] / lengths[kept] / lengths[one]
        for place, row in enumerate(rows):
            rest[place] /= row[place]
            below = np.array([other[place] for other in rows[place + 1 :]])
            rest[place + 1 :] -= below * rest[place]
        across = 1.0 - sum((rest * rest).tolist())
        if across > _INDEPENDENT:
            kept.append(one)
            rows.append(np.append(rest, math.sqrt(across)))
    return kept
