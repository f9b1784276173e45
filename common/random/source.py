"""Where the random numbers of directions come from: one row of numbers for each step.

A source is asked for rows in order. How many are asked for at once cannot change what is drawn.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from zofedht.common.random import philox
from zofedht.common.random.kernels import runs_compiled
from zofedht.common.random.streams import BIT_GENERATOR, Purpose, fits_words, key, stream
from zofedht.common.typing import Indices, Matrix

if TYPE_CHECKING:
    from zofedht.common.random.compiled_streams import Stream

__all__ = ["GENERATORS", "Noise", "Sequential", "indices", "noise"]


class Noise(Protocol):
    """Rows of independent numbers."""

    def normals(self, rows: int, columns: int) -> Matrix:
        """Return the next rows of standard normal numbers, (rows, columns)."""

    def bits(self, rows: int, columns: int) -> NDArray[np.uint8]:
        """Return the next rows of fair bits, 0 and 1, (rows, columns)."""


class Sequential:
    """NumPy's stream, read in order, from NumPy's generator or its compiled twin."""

    def __init__(self, generator: np.random.Generator | Stream) -> None:
        self._generator = generator

    def normals(self, rows: int, columns: int) -> Matrix:
        return self._generator.standard_normal((rows, columns))

    def bits(self, rows: int, columns: int) -> NDArray[np.uint8]:
        size = (rows, -(-columns // 64))
        if isinstance(self._generator, np.random.Generator):
            words = self._generator.integers(0, 2**64, size=size, dtype=np.uint64)
        else:
            words = self._generator.words(size)
        packed = np.ascontiguousarray(words, dtype="<u8").view(np.uint8)
        return np.unpackbits(packed, axis=1, count=columns, bitorder="little")


class _Addressed:
    """Philox: each number is a function of its row and column."""

    def __init__(self, kernel: str, seed: int, purpose: Purpose, round_: int, slot: int) -> None:
        self._row = 0
        if runs_compiled(kernel):
            from zofedht.common.random import (  # numba is there only with the extra ``fast``
                compiled_philox,
                compiled_streams,
            )

            self._normals, self._bits = compiled_philox.normals, compiled_philox.bits
            name_of = compiled_streams.key if fits_words(seed, round_, slot) else key
        else:
            self._normals, self._bits = philox.normals, philox.bits
            name_of = key
        self._key = name_of(seed, purpose, round_, slot)

    def normals(self, rows: int, columns: int) -> Matrix:
        return self._normals(self._key, self._advance(rows), rows, columns)

    def bits(self, rows: int, columns: int) -> NDArray[np.uint8]:
        return self._bits(self._key, self._advance(rows), rows, columns)

    def _advance(self, rows: int) -> int:
        first, self._row = self._row, self._row + rows
        return first


def _compiled_stream(kernel: str, seed: int, purpose: Purpose, round_: int, slot: int) -> Stream | None:
    """Return the compiled twin of ``stream``, or None where NumPy's own is to be used."""
    if not runs_compiled(kernel):
        return None
    from zofedht.common.random import compiled_streams  # numba is there only with the extra ``fast``

    if not fits_words(seed, round_, slot) or not compiled_streams.gives_numpys():
        return None
    return compiled_streams.Stream(seed, purpose, round_, slot)


def _sequential(kernel: str, seed: int, purpose: Purpose, round_: int, slot: int) -> Noise:
    twin = _compiled_stream(kernel, seed, purpose, round_, slot)
    return Sequential(twin or stream(seed, purpose, round_, slot))


def indices(
    kernel: str, seed: int, purpose: Purpose, round_: int, slot: int, high: int, size: tuple[int, int]
) -> Indices:
    """Return the first integers below ``high`` of the stream named (seed, purpose, round, slot), as ``size`` says."""
    twin = _compiled_stream(kernel, seed, purpose, round_, slot) if high < 2**32 else None
    if twin:
        return twin.below(high, size)
    return stream(seed, purpose, round_, slot).integers(0, high, size=size, dtype=np.intp)


GENERATORS: dict[str, Callable[[str, int, Purpose, int, int], Noise]] = {
    BIT_GENERATOR.lower(): _sequential,
    "philox4x32": _Addressed,
}
"""Sources by the name that the run config key ``generator`` takes."""


def noise(generator: str, kernel: str, seed: int, purpose: Purpose, round_: int, slot: int) -> Noise:
    """Return the source named (seed, purpose, round, slot). All kernels draw the same numbers."""
    return GENERATORS[generator](kernel, seed, purpose, round_, slot)
