"""The streams of ``streams`` without NumPy's objects: the same numbers, bit for bit, from compiled code.

A slot needs three streams, and making one by NumPy costs as much as some steps of a linear model. Names must be made of
words (``streams.fits_words``).

The hash is that of ``numpy.random.SeedSequence`` (O'Neill, "Developing a seed_seq alternative", 2015), whose words
NumPy promises to keep; the generator and its normal numbers are in ``compiled_pcg``.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zofedht.common.random import streams
from zofedht.common.random.compiled_pcg import fill_below, fill_normals, fill_words
from zofedht.common.random.jit import compiled, high_product
from zofedht.common.random.streams import CODES, Purpose
from zofedht.common.typing import Indices, Matrix

__all__ = ["Stream", "gives_numpys", "key"]

_U = np.uint64
_MASK, _ONE, _16, _32, _63 = _U(0xFFFFFFFF), _U(1), _U(16), _U(32), _U(63)
_FIRST, _FIRST_FACTOR = _U(0x43B0D7E5), _U(0x931E8875)
_SECOND, _SECOND_FACTOR = _U(0x8B51F9DD), _U(0x58F38DED)
_LEFT, _RIGHT = _U(0xCA01F9DD), _U(0x4973F715)
_SEEDING_HIGH, _SEEDING_LOW = _U(0x2360ED051FC65DA4), _U(0x4385DF649FCCF645)
"""The multiplier of PCG's first step."""


def key(seed: int, purpose: Purpose, round_: int, slot: int) -> NDArray[np.uint32]:
    """Return what ``streams.key`` does."""
    words = np.empty(4, np.uint32)
    _generate(_U(seed), _U(CODES[purpose]), _U(round_), _U(slot), words)
    return words


class Stream:
    """The part of ``streams.stream(seed, purpose, round, slot)`` that local steps use."""

    def __init__(self, seed: int, purpose: Purpose, round_: int, slot: int) -> None:
        self._state = _seeded(_U(seed), _U(CODES[purpose]), _U(round_), _U(slot))

    def standard_normal(self, size: tuple[int, int]) -> Matrix:
        """Return standard normal numbers."""
        drawn = np.empty(size)
        fill_normals(self._state, drawn.reshape(-1))
        return drawn

    def below(self, high: int, size: tuple[int, int]) -> Indices:
        """Return ``integers(0, high, size, dtype=np.intp)``, for high < 2^32."""
        drawn = np.empty(size, np.intp)
        fill_below(self._state, _U(high), drawn.reshape(-1))
        return drawn

    def words(self, size: tuple[int, int]) -> NDArray[np.uint64]:
        """Return ``integers(0, 2**64, size, dtype=np.uint64)``."""
        drawn = np.empty(size, np.uint64)
        fill_words(self._state, drawn.reshape(-1))
        return drawn


@functools.cache
def gives_numpys() -> bool:
    """Whether the numbers are those of the NumPy that runs here, by 100,000 normal ones, some 26 from the tail.

    NumPy may change its methods in a later version, and on some processors its compiler multiplies and adds at once.
    """
    name: tuple[int, Purpose, int, int] = (0, "check", 0, 0)
    ours, numpys = Stream(*name), streams.stream(*name)
    return all(
        one.tobytes() == other.tobytes()
        for one, other in [
            (ours.below(480, (1, 101)), numpys.integers(0, 480, (1, 101), dtype=np.intp)),
            (ours.standard_normal((1, 100_000)), numpys.standard_normal((1, 100_000))),
            (ours.words((1, 3)), numpys.integers(0, 2**64, (1, 3), dtype=np.uint64)),
        ]
    )


@compiled
def _stirred(value: Any, constant: Any, factor: Any) -> Any:
    value ^= constant
    constant = constant * factor & _MASK
    value = value * constant & _MASK
    return value ^ (value >> _16), constant


@compiled
def _mixed(x: Any, y: Any) -> Any:
    value = (_LEFT * x - _RIGHT * y) & _MASK
    return value ^ (value >> _16)


@compiled
def _generate(seed: Any, code: Any, round_: Any, slot: Any, words: Any) -> None:
    """Fill ``words`` as ``SeedSequence(seed, spawn_key=(code, round, slot)).generate_state`` does."""
    pool = np.zeros(4, np.uint64)
    pool[0] = seed
    constant = _FIRST
    for i in range(4):
        pool[i], constant = _stirred(pool[i], constant, _FIRST_FACTOR)
    for source in range(4):
        for target in range(4):
            if source != target:
                value, constant = _stirred(pool[source], constant, _FIRST_FACTOR)
                pool[target] = _mixed(pool[target], value)
    for part in (code, round_, slot):
        for target in range(4):
            value, constant = _stirred(part, constant, _FIRST_FACTOR)
            pool[target] = _mixed(pool[target], value)
    constant = _SECOND
    for i in range(words.shape[0]):
        words[i], constant = _stirred(pool[i % 4], constant, _SECOND_FACTOR)


@compiled
def _seeded(seed: Any, code: Any, round_: Any, slot: Any) -> Any:
    """Return the state of a PCG64DXSM: low and high half, those of the increment, no half word kept, and that word."""
    halves = np.empty(8, np.uint32)
    _generate(seed, code, round_, slot, halves)
    words = np.empty(4, np.uint64)
    for i in range(4):
        words[i] = _U(halves[2 * i]) | _U(halves[2 * i + 1]) << _32
    state = np.zeros(6, np.uint64)
    state[2], state[3] = words[3] << _ONE | _ONE, words[2] << _ONE | words[3] >> _63
    # (start + increment) times the multiplier, plus the increment.
    low = words[1] + state[2]
    high = words[0] + state[3] + _U(low < state[2])
    state[0] = low * _SEEDING_LOW + state[2]
    state[1] = high_product(low, _SEEDING_LOW) + high * _SEEDING_LOW + low * _SEEDING_HIGH + state[3]
    state[1] += _U(state[0] < state[2])
    return state
