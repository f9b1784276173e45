"""The numbers of ``philox``, bit for bit, in vector code.

A row is made in chunks that stay in the first-level cache: words first, four a block, then numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from zofedht.common.random import philox
from zofedht.common.random.jit import bits_of, compiled, float_of, horner, root
from zofedht.common.random.philox import (
    COSINE,
    EIGHTH_TURN,
    LOG_2,
    LOGARITHM,
    MANTISSA,
    MULTIPLIERS,
    ROOT_OF_HALF,
    ROUNDS,
    SINE,
    WEYL,
    Key,
    blocks_of,
)
from zofedht.common.typing import Matrix

__all__ = ["bits", "normals"]

_CHUNK = 512
_M0, _M1 = (np.uint64(multiplier) for multiplier in MULTIPLIERS)
_W0, _W1 = (np.uint64(step) for step in WEYL)
_MASK = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_F = np.float32
_LOGARITHM, _SINE, _COSINE = (tuple(_F(c) for c in series) for series in (LOGARITHM, SINE, COSINE))
_UNIT, _MINUS_TWO = _F(2.0**-31), _F(-2.0)
_HALF_ONE, _ONE, _LOG_2, _EIGHTH = _F(0.5), _F(1.0), _F(LOG_2), _F(EIGHTH_TURN)
_I = np.int32
_ROOT, _MANTISSA = _I(ROOT_OF_HALF), _I(MANTISSA)
_1, _23, _31 = _I(1), _I(23), _I(31)


def normals(key: Key, first_row: int, rows: int, columns: int) -> Matrix:
    """Return rows first_row.. of the stream's standard normal numbers, (rows, columns) float64."""
    drawn = np.empty((rows, columns))
    _fill(key, first_row, drawn, blocks_of(columns))
    return drawn


def bits(key: Key, first_row: int, rows: int, columns: int) -> NDArray[np.uint8]:
    """Return rows first_row.. of the stream's random bits as 0 and 1, (rows, columns)."""
    return philox.bits(key, first_row, rows, columns, _words)


def _words(key: Key, first_row: int, rows: int, blocks: int) -> NDArray[np.uint32]:
    words = np.empty((4, rows, blocks), dtype=np.uint32)
    for row in range(rows):
        _philox(key, np.uint64(first_row + row), np.uint64(0), words[:, row], blocks)
    return words


@compiled
def _fill(key: Any, first_row: Any, drawn: Any, blocks: Any) -> None:
    words = np.empty((4, _CHUNK), np.uint32)
    numbers = np.empty((4, _CHUNK), np.float32)
    columns = drawn.shape[1]
    for row in range(drawn.shape[0]):
        for start in range(0, blocks, _CHUNK):
            count = min(_CHUNK, blocks - start)
            _philox(key, np.uint64(first_row + row), np.uint64(start), words, count)
            _box_muller(words[0], words[1], numbers[0], numbers[1], count)
            _box_muller(words[2], words[3], numbers[2], numbers[3], count)
            for lane in range(4):
                base = lane * blocks + start
                _widen(numbers[lane], drawn[row, base:], min(count, columns - base))


@compiled
def _widen(numbers: Any, target: Any, count: Any) -> None:
    for b in range(count):
        target[b] = numbers[b]


@compiled
def _philox(key: Any, row: Any, start: Any, words: Any, count: Any) -> None:
    first, second = np.uint64(key[0]), np.uint64(key[1])
    third, fourth = np.uint64(key[2]), np.uint64(key[3])
    for b in range(count):
        c0, c1, c2, c3 = start + np.uint64(b), row, third, fourth
        k0, k1 = first, second
        for _ in range(ROUNDS):
            low, high = _M0 * (c0 & _MASK), _M1 * (c2 & _MASK)
            c0, c1, c2, c3 = (high >> _HALF) ^ c1 ^ k0, high, (low >> _HALF) ^ c3 ^ k1, low
            k0, k1 = (k0 + _W0) & _MASK, (k1 + _W1) & _MASK
        words[0, b], words[1, b], words[2, b], words[3, b] = c0, c1, c2, c3


@compiled
def _box_muller(radius: Any, angle: Any, one: Any, other: Any, count: Any) -> None:
    # Each sum of int32 is cast back: numba would widen it to 64 bits, and half the vector lanes would be lost.
    for i in range(count):
        word, turned = radius[i], _I(angle[i])
        u = (_F(_I(word >> np.uint32(1))) + _HALF_ONE) * _UNIT
        shifted = _I(bits_of(u) - _ROOT)
        exponent = _F(_I(shifted >> _23))
        f = float_of(_I(_I(shifted & _MANTISSA) + _ROOT)) - _ONE
        square = f * f
        logarithm = f * square * horner(_LOGARITHM, f) - _HALF_ONE * square + f + exponent * _LOG_2
        r = float_of(_I(bits_of(root(_MINUS_TWO * logarithm)) ^ _I(_I(word) << _31)))
        t = _F(_I(_I(turned << _1) >> _1)) * _EIGHTH
        square = t * t
        cosine = horner(_COSINE, square)
        sine = horner(_SINE, square) * t
        x, y = bits_of(r * cosine), bits_of(r * sine)
        # Swapped where the top bit of the angle is set, without a branch.
        exchanged = _I(_I(x ^ y) & _I(turned >> _31))
        one[i], other[i] = float_of(_I(x ^ exchanged)), float_of(_I(y ^ exchanged))
