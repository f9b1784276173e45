"""The random numbers of a slot's directions: a stream read in rows, one row for each step.

The number of rows that is asked for at once cannot change what is drawn. Compiled loops read the same streams and
give the same numbers, bit for bit.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from zofedht.common.random.kernels import runs_compiled
from zofedht.common.random.streams import stream
from zofedht.common.typing import Matrix, Vector

__all__ = ["Source"]

_CHECKED = 100_000  # some 1,200 of them need a second look in the ziggurat, 26 are from its tail
_FEWEST = 512
"""Numbers from which a compiled loop wins back what it costs to hand it a generator, some 4 microseconds."""


class Source:
    """A stream, read in order by the loops of a kernel."""

    def __init__(self, generator: np.random.Generator, kernel: str) -> None:
        self._generator = generator
        self._compiled = runs_compiled(kernel)

    def normals(self, rows: int, columns: int) -> Matrix:
        """Return the next rows of standard normal numbers, (rows, columns)."""
        fill = _compiled_normals() if self._compiled and rows * columns >= _FEWEST else None
        if fill is None:
            return self._generator.standard_normal((rows, columns))
        drawn = np.empty((rows, columns))
        fill(self._generator, drawn.reshape(-1))
        return drawn

    def signs(self, rows: int, columns: int) -> Matrix:
        """Return the next rows of fair signs, -1 and 1, (rows, columns).

        A 64-bit word of the stream gives 64 of them, from its lowest bit on. Each row begins with a new word.
        """
        words = self._generator.integers(0, 2**64, size=(rows, -(-columns // 64)), dtype=np.uint64)
        if self._compiled:
            from zofedht.common.random.jit import fill_signs  # numba is there only with the extra ``fast``

            signs = np.empty((rows, columns))
            fill_signs(words, signs)
            return signs
        packed = words.astype("<u8").view(np.uint8)
        signs = np.unpackbits(packed, axis=1, count=columns, bitorder="little").astype(np.float64)
        signs *= 2.0
        signs -= 1.0
        return signs


@functools.cache
def _compiled_normals() -> Callable[[np.random.Generator, Vector], None] | None:
    """Return the compiled loop, or None where its numbers are not those of the NumPy that runs here.

    The loop repeats NumPy's method, which a later NumPy may change; then NumPy draws, at a quarter of the speed.
    """
    from zofedht.common.random.normals import fill_normals  # numba is there only with the extra ``fast``

    drawn, ours, numpys = np.empty(_CHECKED), stream(0, "check"), stream(0, "check")
    fill_normals(ours, drawn)
    same = drawn.tobytes() == numpys.standard_normal(_CHECKED).tobytes()
    return fill_normals if same and ours.bit_generator.random_raw() == numpys.bit_generator.random_raw() else None
