"""NumPy's own numbers, bit for bit: PCG64DXSM, ``integers``, and the ziggurat of ``standard_normal``.

A state is six words: low and high half of the generator's, those of its increment, whether the upper half of a word
waits to be used, and that word.

A chunk of 64-bit words is made first, then in vector code the number that each word would give by itself, and
one bit that says whether it does (98.8% do). The others take words from behind them, one by one and in NumPy's order.

PCG64DXSM: O'Neill, "PCG: a family of simple fast space-efficient statistically good algorithms for random number
generation" (2014), with the output function and the 64-bit multiplier of NumPy's documentation. Ziggurat: Marsaglia and
Tsang, "The ziggurat method for generating random variables" (2000), with 256 strips.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

# The 3 x 256 numbers of NumPy's strips carry the roundings of the program that once made them: the defining equations
# give them only to 1e-14. numba keeps a copy for its own Generator.
from numba.np.random._constants import fi_double, ki_double, wi_double, ziggurat_nor_inv_r, ziggurat_nor_r

from zofedht.common.random.jit import array_data, compiled, high_product, trailing_zeros

__all__ = ["fill_below", "fill_normals", "fill_words"]

_CHUNK = 256
_U = np.uint64
_MULTIPLIER = _U(0xDA942042E4DD58B5)
_0, _1, _9, _11, _17, _32, _48, _STRIP = (_U(number) for number in (0, 1, 9, 11, 17, 32, 48, 255))
_HALF, _2_32 = _U(2**32 - 1), _U(2**32)
_UNIT = 2.0**-53
_TAIL, _INVERSE_TAIL = ziggurat_nor_r, ziggurat_nor_inv_r
_HEIGHTS = fi_double

# Nine bits of a word name strip and sign, the 52 above are the magnitude. A number is magnitude times scale, and
# is taken where the magnitude is below the limit.
_STRIPS = np.empty((512, 2))
_STRIPS[:, 0] = np.concatenate([wi_double, -wi_double])
_STRIPS[:, 1] = np.concatenate([ki_double, ki_double])


@compiled
def fill_words(state: Any, words: Any) -> None:
    """Fill ``words`` (count,) with the next 64-bit words."""
    low, high = state[0], state[1]
    for i in range(words.shape[0]):
        words[i], low, high = _next(low, high, state[2], state[3])
    state[0], state[1] = low, high


@compiled
def fill_below(state: Any, high: Any, drawn: Any) -> None:
    """Fill ``drawn`` (count,) with integers below ``high`` < 2^32, as ``Generator.integers`` does.

    Lemire, "Fast random integer generation in an interval" (2019), on half words; the upper half waits for its turn.
    """
    if high == _1:
        drawn[:] = 0
        return
    least = (_2_32 - high) % high
    low, upper, step_low, step_high, waits, word = state[0], state[1], state[2], state[3], state[4], state[5]
    for i in range(drawn.shape[0]):
        while True:
            if waits == _0:
                word, low, upper = _next(low, upper, step_low, step_high)
                half = word & _HALF
            else:
                half = word >> _32
            waits ^= _1
            product = half * high
            if product & _HALF >= least:
                break
        drawn[i] = product >> _32
    state[0], state[1], state[4], state[5] = low, upper, waits, word


@compiled
def fill_normals(state: Any, drawn: Any) -> None:
    """Fill ``drawn`` (count,) with standard normal numbers, as ``Generator.standard_normal`` does."""
    if drawn.shape[0] > 0:
        for _ in range(_fill(state, _STRIPS, _HEIGHTS, drawn)):
            _, state[0], state[1] = _next(state[0], state[1], state[2], state[3])


@compiled
def _fill(state: Any, strips: Any, heights: Any, drawn: Any) -> Any:
    """Fill ``drawn`` (count,), count > 0; leave the state before the last chunk and return how many words of it were
    used."""
    words, numbers, open_ = np.empty(_CHUNK, np.uint64), np.empty(_CHUNK), np.empty(_CHUNK // 64, np.uint64)
    count, done = drawn.shape[0], 0
    low, high, step_low, step_high = state[0], state[1], state[2], state[3]
    while True:
        state[0], state[1] = low, high
        for i in range(_CHUNK):
            words[np.uintp(i)], low, high = _next(low, high, step_low, step_high)
        for group in range(_CHUNK // 64):
            bits = _0
            for four in range(16):
                bits |= _candidates(words, strips, numbers, np.uintp(64 * group + 4 * four)) << _U(4 * four)
            open_[group] = bits
        place = 0
        for group in range(_CHUNK // 64):
            bits = open_[group]
            while bits != _0:
                stop = 64 * group + np.int64(trailing_zeros(bits))
                bits &= bits - _1
                if stop < place:  # the word was used by a number before it
                    continue
                more = min(stop - place, count - done)
                _copy(numbers, place, drawn, done, more)
                done += more
                if done == count:
                    return place + more
                number, taken, place, low, high = _look_closer(
                    words, stop, numbers[stop], heights, low, high, step_low, step_high
                )
                if taken:
                    drawn[done] = number
                    done += 1
                    if done == count:
                        return place
        more = min(max(_CHUNK - place, 0), count - done)
        _copy(numbers, place, drawn, done, more)
        done += more
        if done == count:
            return place + more


@compiled
def _copy(source: Any, start: Any, target: Any, place: Any, count: Any) -> None:
    for i in range(count):
        target[np.uintp(place + i)] = source[np.uintp(start + i)]


@compiled
def _next(low: Any, high: Any, step_low: Any, step_high: Any) -> Any:
    """Return the word of a state, and the state that follows."""
    word = high ^ (high >> _32)
    word *= _MULTIPLIER
    word ^= word >> _48
    word *= low | _1
    # What needs the high half comes last: its multiplication is what the next step waits for.
    next_low = low * _MULTIPLIER + step_low
    rest = high_product(low, _MULTIPLIER) + (step_high + _U(next_low < step_low))
    return word, next_low, high * _MULTIPLIER + rest


@compiled
def _word(words: Any, place: Any, low: Any, high: Any, step_low: Any, step_high: Any) -> Any:
    """Return the word at a place of the chunk or behind it, and the state, advanced where it was behind."""
    if place < _CHUNK:
        return words[np.uintp(place)], low, high
    return _next(low, high, step_low, step_high)


@compiled
def _uniform(word: Any) -> Any:
    """Return a number in [0, 1) from the upper 53 bits."""
    return np.float64(np.int64(word >> _11)) * _UNIT


@compiled
def _look_closer(
    words: Any, place: Any, number: Any, heights: Any, low: Any, high: Any, step_low: Any, step_high: Any
) -> Any:
    """Return the number of a word beyond its limit, whether it is taken, the place after the words used, the state."""
    word = words[np.uintp(place)]
    strip = np.uintp(word & _STRIP)
    place += 1
    if strip == np.uintp(0):  # the tail, which always gives one
        while True:
            first, low, high = _word(words, place, low, high, step_low, step_high)
            second, low, high = _word(words, place + 1, low, high, step_low, step_high)
            place += 2
            x = -_INVERSE_TAIL * math.log1p(-_uniform(first))
            y = -math.log1p(-_uniform(second))
            if y + y > x * x:
                return -(_TAIL + x) if word >> _17 & _1 else _TAIL + x, True, place, low, high
    following, low, high = _word(words, place, low, high, step_low, step_high)
    top, bottom = heights[strip - np.uintp(1)], heights[strip]
    taken = (top - bottom) * _uniform(following) + bottom < math.exp(-0.5 * number * number)
    return number, taken, place + 1, low, high


@intrinsic  # type: ignore[untyped-decorator]
def _candidates(_context: Any, words: Any, strips: Any, numbers: Any, place: Any) -> Any:
    """Write the numbers of words place..place+3; return a bit for each that is beyond its limit.

    Written as vector code, since a number needs both entries of a row of ``strips``: one load of 16 bytes, where a
    compiler would gather each by itself, at several times the price on processors with the repair of "Downfall".
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        word, four, row = ir.IntType(64), ir.VectorType(ir.IntType(64), 4), ir.VectorType(ir.DoubleType(), 2)
        reals = ir.VectorType(ir.DoubleType(), 4)
        arrays = [array_data(context, builder, signature, args, which) for which in range(3)]
        source, target = (builder.gep(array, [args[3]]) for array in (arrays[0], arrays[2]))
        table = builder.bitcast(arrays[1], row.as_pointer())
        rows = []
        for lane in range(4):
            named = builder.and_(builder.load(builder.gep(source, [word(lane)])), word(511))
            rows.append(builder.load(builder.gep(table, [named]), align=8))
        # Two rows a vector, then scales and limits apart.
        one, other = (_shuffled(builder, rows[i], rows[i + 1], (0, 1, 2, 3)) for i in (0, 2))
        scale, limit = _shuffled(builder, one, other, (0, 2, 4, 6)), _shuffled(builder, one, other, (1, 3, 5, 7))
        taken = builder.load(builder.bitcast(source, four.as_pointer()), align=8)
        # 52 bits below the exponent of 2^52 are 2^52 + magnitude.
        bits = builder.and_(builder.lshr(taken, four([9] * 4)), four([2**52 - 1] * 4))
        bits = builder.or_(bits, four([1075 << 52] * 4))
        magnitude = builder.fsub(builder.bitcast(bits, reals), reals([2.0**52] * 4))
        builder.store(builder.fmul(magnitude, scale), builder.bitcast(target, reals.as_pointer()), align=8)
        beyond = builder.fcmp_ordered(">=", magnitude, limit)
        return builder.zext(builder.bitcast(beyond, ir.IntType(4)), word)

    return types.uint64(words, strips, numbers, place), generate


def _shuffled(builder: Any, one: Any, other: Any, places: tuple[int, ...]) -> Any:
    return builder.shuffle_vector(one, other, ir.VectorType(ir.IntType(32), len(places))(list(places)))
