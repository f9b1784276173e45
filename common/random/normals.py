"""NumPy's normal numbers in one compiled loop: the words of PCG64DXSM, and the ziggurat whose tables numba has.

NumPy's own loop, and numba's copy of it, call the generator for each word. Here its state stays in registers.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numba.np.random._constants import fi_double, ki_double, wi_double, ziggurat_nor_inv_r, ziggurat_nor_r

from zofedht.common.random.jit import compiled
from zofedht.common.typing import Vector

__all__ = ["fill_normals"]

_MULTIPLIER = 0xDA942042E4DD58B5
_FACTOR = np.uint64(_MULTIPLIER)
_WORD = 2**64 - 1
_UNIT = 2.0**-53


def fill_normals(generator: np.random.Generator, drawn: Vector) -> None:
    """Fill ``drawn`` (count,) with the next standard normal numbers of a generator on PCG64DXSM."""
    bits: Any = generator.bit_generator  # the type of NumPy's base class knows no advance
    state, increment = bits.state["state"]["state"], bits.state["state"]["inc"]
    high, low, more_high, more_low = map(np.uint64, (state >> 64, state & _WORD, increment >> 64, increment & _WORD))
    bits.advance(_fill(high, low, more_high, more_low, drawn))


@intrinsic  # type: ignore[untyped-decorator]
def _advanced(_context: Any, high: Any, low: Any, more_high: Any, more_low: Any) -> Any:
    """Return the state after the next word: both halves of state * _MULTIPLIER + increment, in 128 bits."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        wide, half = ir.IntType(128), ir.IntType(64)
        high, low, more_high, more_low = (builder.zext(part, wide) for part in args)
        state = builder.or_(builder.shl(high, wide(64)), low)
        more = builder.or_(builder.shl(more_high, wide(64)), more_low)
        state = builder.add(builder.mul(state, wide(_MULTIPLIER)), more)
        parts = [builder.trunc(builder.lshr(state, wide(64)), half), builder.trunc(state, half)]
        return context.make_tuple(builder, signature.return_type, parts)

    return types.UniTuple(types.uint64, 2)(*4 * (types.uint64,)), generate


@compiled
def _word(high: Any, low: Any) -> Any:
    """Return the word of a state (O'Neill's DXSM)."""
    high ^= high >> np.uint64(32)
    high *= _FACTOR
    high ^= high >> np.uint64(48)
    return high * (low | np.uint64(1))


@compiled
def _uniform(high: Any, low: Any) -> Any:
    """Return the number in [0, 1) of a state."""
    return np.float64(np.int64(_word(high, low) >> np.uint64(11))) * _UNIT


@compiled
def _fill(high: Any, low: Any, more_high: Any, more_low: Any, drawn: Any) -> Any:
    """Fill ``drawn`` and return how many words that took."""
    words = 0
    for i in range(drawn.shape[0]):
        waits: Any = True
        while waits:
            word = _word(high, low)
            high, low = _advanced(high, low, more_high, more_low)
            words += 1
            strip, place = word & np.uint64(255), word >> np.uint64(9) & np.uint64(2**52 - 1)
            x = np.float64(np.int64(place)) * wi_double[strip]
            x = -x if word & np.uint64(256) else x
            waits = place >= ki_double[strip]  # 1.2% of them need another look
            if waits and strip == 0:
                while waits:  # the tail, by Marsaglia's method
                    far = -ziggurat_nor_inv_r * math.log1p(-_uniform(high, low))
                    high, low = _advanced(high, low, more_high, more_low)
                    second = -math.log1p(-_uniform(high, low))
                    high, low = _advanced(high, low, more_high, more_low)
                    words += 2
                    waits = second + second <= far * far
                x = ziggurat_nor_r + far
                x = -x if place >> np.uint64(8) & np.uint64(1) else x
            elif waits:
                height = (fi_double[strip - np.uint64(1)] - fi_double[strip]) * _uniform(high, low) + fi_double[strip]
                high, low = _advanced(high, low, more_high, more_low)
                words += 1
                waits = height >= math.exp(-0.5 * x * x)
        drawn[i] = x
    return words
