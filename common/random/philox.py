"""Normal numbers and bits that are functions of their address: Philox4x32-10 and Box and Muller.

Number j of row k depends on (key, k, j) alone, so any part can be drawn anywhere, in any order and by
several threads. ``compiled_philox`` gives the same numbers, bit for bit, and is some ten times as fast.

Philox4x32-10: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011). The
counter of a block is (block, row, key[2], key[3]), its key (key[0], key[1]). A block gives four
numbers: block b of a row of n gives the numbers b, b + q, b + 2q and b + 3q with q = ceil(n/4).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from zofedht.common.typing import Matrix

__all__ = ["Key", "bits", "blocks_of", "box_muller", "normals", "philox"]

Key = NDArray[np.uint32]
"""Four 32-bit words that name a stream."""

Words = NDArray[np.uint32]

MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
WEYL = (0x9E3779B9, 0xBB67AE85)
ROUNDS = 10
_CHUNK = 8192
_MASK = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)

# Chebyshev fits, highest power first; the errors are those of exact arithmetic.
# log(1 + f) = f - f^2/2 + f^3 P(f) for sqrt(1/2) <= 1 + f < sqrt(2), relative error 2e-7.
LOGARITHM = (
    0.09272214025259018,
    -0.1411842554807663,
    0.14676396548748016,
    -0.16592855751514435,
    0.19985127449035645,
    -0.2500092089176178,
    0.3333340883255005,
)
# sin(t)/t and cos(t) as polynomials of t^2 for |t| <= pi/4, errors 3e-9 and 3e-8.
SINE = (-1.95039631e-04, 8.33203633e-03, -1.66666507e-01, 0.999999997)
COSINE = (-0.00135858, 0.04165502, -0.49999857, 0.99999997)
EIGHTH_TURN = math.pi / 4 * 2.0**-30
"""An angle of pi/4 is cut in 2^30 parts."""
MANTISSA = 0x007FFFFF
ROOT_OF_HALF = 0x3F3504F3
"""The bits of the float32 sqrt(1/2)."""
LOG_2 = 0.69314718056


def blocks_of(columns: int) -> int:
    """Return q, the number of Philox blocks that hold ``columns`` normal numbers."""
    return -(-columns // 4)


def philox(key: Key, first_row: int, rows: int, blocks: int) -> Words:
    """Return the four words of each block, (4, rows, blocks)."""
    shape = (rows, blocks)
    c0 = np.broadcast_to(np.arange(blocks, dtype=np.uint64), shape)
    c1 = np.broadcast_to(np.arange(first_row, first_row + rows, dtype=np.uint64)[:, None], shape)
    c2, c3 = (np.full(shape, word, dtype=np.uint64) for word in key[2:])
    k0, k1 = int(key[0]), int(key[1])
    for _ in range(ROUNDS):
        low, high = np.uint64(MULTIPLIERS[0]) * c0, np.uint64(MULTIPLIERS[1]) * c2
        c0, c1 = (high >> _HALF) ^ c1 ^ np.uint64(k0), high & _MASK
        c2, c3 = (low >> _HALF) ^ c3 ^ np.uint64(k1), low & _MASK
        k0, k1 = (k0 + WEYL[0]) & 0xFFFFFFFF, (k1 + WEYL[1]) & 0xFFFFFFFF
    return np.stack([c0, c1, c2, c3]).astype(np.uint32)


def box_muller(radius: Words, angle: Words) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return two independent normal numbers for each pair of words.

    Of ``radius`` 31 bits make u in (0, 1) and r = sqrt(-2 log u), the lowest is the sign of both numbers;
    ``angle`` is an angle within an eighth of a turn of an axis (31 bits), and which axis (1 bit). All
    operations are single float32 operations, which IEEE 754 defines to the last bit.
    """
    u = ((radius >> np.uint32(1)).astype(np.int32).astype(np.float32) + np.float32(0.5)) * np.float32(2.0**-31)
    shifted = u.view(np.int32) - np.int32(ROOT_OF_HALF)
    exponent = (shifted >> np.int32(23)).astype(np.float32)
    f = ((shifted & np.int32(MANTISSA)) + np.int32(ROOT_OF_HALF)).view(np.float32) - np.float32(1.0)
    square = f * f
    logarithm = f * square * _polynomial(LOGARITHM, f) - np.float32(0.5) * square + f + exponent * np.float32(LOG_2)
    r = np.sqrt(np.float32(-2.0) * logarithm)
    r = (r.view(np.int32) ^ (radius.view(np.int32) << np.int32(31))).view(np.float32)
    turned = angle.view(np.int32)
    t = ((turned << np.int32(1)) >> np.int32(1)).astype(np.float32) * np.float32(EIGHTH_TURN)
    square = t * t
    one = r * _polynomial(COSINE, square)
    other = r * (_polynomial(SINE, square) * t)
    swapped = turned < 0
    return np.where(swapped, other, one), np.where(swapped, one, other)


def normals(key: Key, first_row: int, rows: int, columns: int) -> Matrix:
    """Return rows first_row.. of the stream's standard normal numbers, (rows, columns) float64."""
    blocks = blocks_of(columns)
    drawn = np.empty((rows, 4, blocks))
    most = max(1, _CHUNK // blocks)  # rows at a time: the work arrays stay in the processor's cache
    for start in range(0, rows, most):
        part = slice(start, min(start + most, rows))
        words = philox(key, first_row + start, part.stop - start, blocks)
        drawn[part, 0], drawn[part, 1] = box_muller(words[0], words[1])
        drawn[part, 2], drawn[part, 3] = box_muller(words[2], words[3])
    return np.ascontiguousarray(drawn.reshape(rows, 4 * blocks)[:, :columns])


def bits(
    key: Key, first_row: int, rows: int, columns: int, words_of: Callable[[Key, int, int, int], Words] = philox
) -> NDArray[np.uint8]:
    """Return rows first_row.. of the stream's random bits as 0 and 1, (rows, columns)."""
    words = words_of(key, first_row, rows, -(-columns // 128))
    packed = np.ascontiguousarray(np.moveaxis(words, 0, 2), dtype="<u4").view(np.uint8).reshape(rows, -1)
    return np.unpackbits(packed, axis=1, count=columns, bitorder="little")


def _polynomial(coefficients: tuple[float, ...], x: NDArray[np.float32]) -> NDArray[np.float32]:
    value = np.float32(coefficients[0]) * x + np.float32(coefficients[1])
    for coefficient in coefficients[2:]:
        value = value * x + np.float32(coefficient)
    return value
