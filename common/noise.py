"""Where the random numbers of directions come from: one row of numbers for each step.

A source is asked for rows in order. How many are asked for at once cannot change what is drawn.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from common import philox
from common.kernels import runs_compiled
from common.streams import BIT_GENERATOR, Purpose, key, stream
from common.typing import Matrix

__all__ = ["GENERATORS", "Noise", "Sequential", "noise"]


_FEW = 2000
"""Numbers below which NumPy's call costs less than a compiled one."""


class Noise(Protocol):
    """Rows of independent numbers."""

    def normals(self, rows: int, columns: int) -> Matrix:
        """Return the next rows of standard normal numbers, (rows, columns)."""

    def bits(self, rows: int, columns: int) -> NDArray[np.uint8]:
        """Return the next rows of fair bits, 0 and 1, (rows, columns)."""


class Sequential:
    """NumPy's stream, read in order; with ``compiled`` its own numbers, made faster (from a PCG64DXSM only)."""

    def __init__(self, generator: np.random.Generator, *, compiled: bool = False) -> None:
        self._generator = generator
        self._compiled = compiled

    def normals(self, rows: int, columns: int) -> Matrix:
        if self._compiled and rows * columns >= _FEW:
            from common import compiled_pcg  # numba is there only with the extra ``fast``

            if compiled_pcg.gives_numpys():
                return compiled_pcg.normals(self._generator, rows, columns)
        return self._generator.standard_normal((rows, columns))

    def bits(self, rows: int, columns: int) -> NDArray[np.uint8]:
        words = self._generator.integers(0, 2**64, size=(rows, -(-columns // 64)), dtype=np.uint64)
        packed = np.ascontiguousarray(words, dtype="<u8").view(np.uint8)
        return np.unpackbits(packed, axis=1, count=columns, bitorder="little")


class _Addressed:
    """Philox: each number is a function of its row and column."""

    def __init__(self, name: NDArray[np.uint32], kernel: str) -> None:
        self._key = name
        self._row = 0
        if runs_compiled(kernel):
            from common import compiled_philox  # numba is there only with the extra ``fast``

            self._normals, self._bits = compiled_philox.normals, compiled_philox.bits
        else:
            self._normals, self._bits = philox.normals, philox.bits

    def normals(self, rows: int, columns: int) -> Matrix:
        return self._normals(self._key, self._advance(rows), rows, columns)

    def bits(self, rows: int, columns: int) -> NDArray[np.uint8]:
        return self._bits(self._key, self._advance(rows), rows, columns)

    def _advance(self, rows: int) -> int:
        first, self._row = self._row, self._row + rows
        return first


GENERATORS: dict[str, Callable[[str, int, Purpose, int, int], Noise]] = {
    BIT_GENERATOR.lower(): lambda kernel, *address: Sequential(stream(*address), compiled=runs_compiled(kernel)),
    "philox4x32": lambda kernel, *address: _Addressed(key(*address), kernel),
}
"""Sources by the name that the run config key ``generator`` takes."""


def noise(generator: str, kernel: str, seed: int, purpose: Purpose, round_: int, slot: int) -> Noise:
    """Return the source named (seed, purpose, round, slot). All kernels draw the same numbers."""
    return GENERATORS[generator](kernel, seed, purpose, round_, slot)
