"""Directions of parameters that are tensors: drawn piece by piece, so that neither x nor v exists as a whole.

v is a function of (seed, round, slot, number of the direction, block, piece): the same numbers on every machine, in any
order, and as often as they are needed. A piece has at most PIECE numbers. Numbers of v are float32: signs from raw bits
(rademacher), or normal numbers (gaussian), which are one of 2^16 quantiles by 16 raw bits each: mean 0, variance 1,
fourth moment 2.999, at most 4.3. No law here needs rarer ones. Compiled, they take less than a tenth of NumPy's time.

An array of type T gets T(a) T(v): the product is rounded to T, and then the sum. For signs the product is exact.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from zofedht.common.errors import ObjectiveError
from zofedht.common.random.kernels import runs_compiled
from zofedht.common.random.streams import Address

__all__ = ["PIECE", "WORTH_COMPILING", "Bent", "Direction", "Numbers", "add_all", "add_piece"]

PIECE = 2**18
"""Numbers of a piece: 1 MB, which stays in a core's cache. A constant, since a piece has a stream of its own."""

_CELLS = 2**16  # that normal numbers are drawn from: 16 bits each

_WORDS = 2**13  # drawn at a time: memory of 64 kB is used again, while larger blocks are mapped anew each time

WORTH_COMPILING = 2**16
"""Numbers of a tensor from which a compiled loop is worth loading."""

Numbers = NDArray[Any]


class Bent(Protocol):
    """A law that is not isotropic, as ``laws`` has them."""

    def covers(self, block: int) -> bool:
        """Return whether v is not 0 in all of a block."""
        return True

    def numbers(self, direction: Direction, block: int, piece: int, part: slice) -> Numbers:
        """Return v on a stretch of a block, as float32 numbers of the caller's own."""


@dataclass(frozen=True)
class Direction:
    """One direction v over all blocks, of which no number is held.

    Attributes
    ----------
    address : Address
        Seed, round and slot of the directions.
    number : int
        Which direction of the slot, from 0: step k has those from k q on.
    probe : str
        gaussian or rademacher.
    bent : Bent, optional
        What becomes of its isotropic numbers, where the law has no such ones.
    """

    address: Address
    number: int
    probe: str
    bent: Bent | None = None

    def pieces(self, block: int, size: int) -> Iterator[tuple[slice, Numbers]]:
        """Yield the stretches of a block, the ``block``-th of so many numbers, and v there as float32.

        None where v is 0 in all of the block.
        """
        covered = size if self.bent is None or self.bent.covers(block) else 0
        for piece, start in enumerate(range(0, covered, PIECE)):
            part = slice(start, min(start + PIECE, size))
            yield part, self.numbers(block, piece, part)

    def numbers(self, block: int, piece: int, part: slice) -> Numbers:
        """Return v on a piece of a block, which is this stretch of it, as float32."""
        bent = self.bent
        return self.isotropic(block, piece, part) if bent is None else bent.numbers(self, block, piece, part)

    def isotropic(self, block: int, piece: int, part: slice) -> Numbers:
        """Return the numbers of the probe there, as float32."""
        found: Numbers = np.empty(part.stop - part.start, np.float32)
        for strip, words in self._strips(block, piece, part):
            if self.probe == "rademacher":
                found[strip] = _signs(words)[: strip.stop - strip.start]
            else:
                np.take(_quantiles(found.dtype), _sixteens(words)[: strip.stop - strip.start], out=found[strip])
        return found

    def add_to(self, array: Numbers, block: int, coefficient: float) -> None:
        """Add coefficient * v to the ``block``-th tensor, a contiguous array of floats, in place."""
        add_all(array, block, [self], [coefficient])

    def words(self, block: int, piece: int) -> np.random.SFC64:
        """Return what draws the raw words of a piece of a block."""
        return self.address.piece_words(self.number, block, piece)

    def _strips(self, block: int, piece: int, part: slice) -> Iterator[tuple[slice, NDArray[np.uint64]]]:
        """Yield stretches of a piece, and the raw words of each."""
        raw = self.words(block, piece).random_raw
        size, each = part.stop - part.start, 64 if self.probe == "rademacher" else 4  # numbers of a word
        for start in range(0, size, _WORDS * each):
            strip = slice(start, min(start + _WORDS * each, size))
            yield strip, np.asarray(raw(-(-(strip.stop - start) // each)), dtype=np.uint64)


def add_all(array: Numbers, block: int, directions: Sequence[Direction], coefficients: Sequence[float]) -> None:
    """Add the sum of coefficient * v to the ``block``-th tensor, direction by direction, in place.

    A piece takes all directions before the next piece, so that it stays in the cache; the numbers are those of one
    direction after the other. Raises ObjectiveError for an array that is not contiguous or not of floats.
    """
    if not (isinstance(array, np.ndarray) and array.flags.c_contiguous and array.flags.writeable):
        raise ObjectiveError(
            f"block {block} must be a contiguous NumPy array that can be written, to be changed in place"
        )
    if array.dtype.kind != "f":
        raise ObjectiveError(f"block {block} must be an array of floats, got {array.dtype}")
    flat = array.reshape(-1)
    for piece, start in enumerate(range(0, flat.size, PIECE)):
        part = slice(start, min(start + PIECE, flat.size))
        add_piece(flat[part], block, piece, part, directions, coefficients, worth=flat.size >= WORTH_COMPILING)


def add_piece(
    stretch: Numbers,
    block: int,
    piece: int,
    part: slice,
    directions: Sequence[Direction],
    coefficients: Sequence[float],
    *,
    worth: bool = False,
) -> None:
    """Add the sum of coefficient * v to a piece of a block, in place; ``worth``: a compiled loop is worth loading."""
    kind = stretch.dtype.type
    loaded = worth or bool(_compiled.cache_info().currsize)  # small blocks gain too, once a large one has loaded them
    compiled = _compiled() if loaded and stretch.itemsize > 2 else None
    with np.errstate(over="ignore", invalid="ignore"):  # who evaluates sees what is not finite
        place = 0
        while place < len(directions):
            direction, length = directions[place], kind(coefficients[place])
            if direction.bent is None and compiled is not None:
                together = directions[place : place + 2]
                alike = all(one.bent is None and one.probe == direction.probe for one in together)
                together = together if alike else together[:1]
                states = [_state(one.address, one.number, block, piece) for one in together]
                table = () if direction.probe == "rademacher" else (_quantiles(stretch.dtype),)
                lengths = map(kind, coefficients[place : place + len(together)])
                loop = compiled[direction.probe, len(together)]
                loop(*states, stretch, *table, *lengths)
                place += len(together)
                continue
            if direction.bent is None or direction.bent.covers(block):
                numbers = direction.numbers(block, piece, part).astype(kind, copy=False)
                numbers *= length
                stretch += numbers
            place += 1


@functools.lru_cache(maxsize=4096)  # a step adds each of its directions three times
def _state(address: Address, number: int, block: int, piece: int) -> NDArray[np.uint64]:
    """Return the state of what draws the words of a piece of a block in a direction."""
    found: Any = address.piece_words(number, block, piece).state
    state: NDArray[np.uint64] = found["state"]["state"]
    state.flags.writeable = False
    return state


def _signs(words: NDArray[np.uint64]) -> Numbers:
    """Return the signs that the bits say, from the lowest bit of each word on."""
    return np.take(_table(), words.astype("<u8", copy=False).view(np.uint8), axis=0).reshape(-1)


def _sixteens(words: NDArray[np.uint64]) -> NDArray[np.uint16]:
    """Return the numbers of 16 bits of each word, from the lowest on."""
    return words.astype("<u8", copy=False).view("<u2")


@functools.cache
def _compiled() -> dict[tuple[str, int], Callable[..., None]] | None:
    """Return the loops of the extra ``fast`` by the probe and how many directions they add; None without the extra.

    The bits are equal. A loop of two directions keeps both generators busy, and loads and stores each number once.
    """
    if not runs_compiled("auto"):
        return None
    from zofedht.common.random import jit  # numba is there only with the extra ``fast``

    return {
        ("rademacher", 1): jit.add_signs,
        ("rademacher", 2): jit.add_two_signs,
        ("gaussian", 1): jit.add_quantiles,
        ("gaussian", 2): jit.add_two_quantiles,
    }


@functools.cache
def _quantiles(kind: np.dtype[Any]) -> Numbers:
    """Return the normal quantiles of 2^16 equal chances, rounded to float32, of mean 0 and variance 1."""
    upper = np.array([NormalDist().inv_cdf(0.5 + (place + 0.5) / _CELLS) for place in range(_CELLS // 2)])
    upper /= math.sqrt(math.fsum(upper * upper) / len(upper))
    return np.concatenate([-upper[::-1], upper]).astype(np.float32).astype(kind)


@functools.cache
def _table() -> Numbers:
    """Return the signs that each byte stands for, (256, 8)."""
    bits = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little")
    return (2.0 * bits - 1.0).astype(np.float32)
