"""The compiler of the extra ``fast``, and loops that draw numbers; imported only where ``runs_compiled`` says so."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numba
import numpy as np

from zofedht.common.errors import DataError
from zofedht.common.machine.cache import data_folder

__all__ = [
    "add_quantiles",
    "add_signs",
    "add_two_quantiles",
    "add_two_signs",
    "compiled",
    "compiled_products",
    "compiled_sums",
    "fill_signs",
    "horner",
]

_Function = TypeVar("_Function", bound=Callable[..., Any])


def compiled(function: _Function) -> _Function:
    """Compile a function at its first call, and keep the code on disk where a folder can be written.

    Multiplications and additions are never fused nor reordered, so that arithmetic gives NumPy's bits.
    """
    return _compiled(function, fastmath=False)


def compiled_products(function: _Function) -> _Function:
    """Compile a function that may multiply and add at once, but adds in the order written."""
    return _compiled(function, fastmath={"contract"})


def compiled_sums(function: _Function) -> _Function:
    """Compile a function whose sums may be added in any order, and multiplied and added at once."""
    return _compiled(function, fastmath={"reassoc", "contract", "nsz"})


def _compiled(function: _Function, **options: Any) -> _Function:
    folder = _cache_folder()
    options |= {"nogil": True, "error_model": "numpy", "cache": folder is not None}
    before, numba.config.CACHE_DIR = numba.config.CACHE_DIR, folder or ""
    try:
        made: _Function = numba.njit(**options)(function)  # the folder is looked up here, once
    finally:
        numba.config.CACHE_DIR = before
    return made


@functools.cache
def _cache_folder() -> str | None:
    """Return the folder of this version of the loops, or None where none can be made: then each start compiles anew.

    numba compares the time of the file of a function, but not of those that it calls, and would go on with what is
    no longer there after one of them has changed.
    """
    digest = hashlib.sha256()
    package = Path(__file__).resolve().parents[2]
    for source in sorted([*package.glob("common/random/*.py"), *package.glob("client/kernels/*.py")]):
        digest.update(source.read_bytes())
    try:
        folder = data_folder("") / "compiled" / digest.hexdigest()[:16]
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, DataError):  # no home, or one that cannot be written
        return None
    return str(folder)


@compiled
def fill_signs(words: Any, signs: Any) -> None:
    """Fill the rows of ``signs`` (rows, columns) from those of ``words`` (rows, ceil(columns / 64)), a bit each."""
    rows, columns = signs.shape
    whole = columns // 64
    for row in range(rows):
        for place in range(whole):
            word = words[row, place]
            for bit in range(64):  # a constant, so that it becomes vector code
                signs[row, 64 * place + bit] = 1.0 if word >> np.uint64(bit) & np.uint64(1) else -1.0
        for bit in range(columns - 64 * whole):
            signs[row, 64 * whole + bit] = 1.0 if words[row, whole] >> np.uint64(bit) & np.uint64(1) else -1.0


@compiled
def _next_word(a: Any, b: Any, c: Any, count: Any) -> Any:
    """Return the next word of SFC64, and its state after it: the steps of NumPy's sfc64.h."""
    word = a + b + count
    turned = c << np.uint64(24) | c >> np.uint64(40)
    return word, b ^ b >> np.uint64(11), c + (c << np.uint64(3)), turned + word, count + np.uint64(1)


@compiled
def add_signs(state: Any, numbers: Any, length: Any) -> None:
    """Add ``length`` to ``numbers`` (count,), with the signs that the bits of the words say, from the lowest on.

    ``state`` is that of the SFC64 that gives the words, and stays as it is.
    """
    a, b, c, count = state[0], state[1], state[2], state[3]
    whole = numbers.shape[0] // 64
    for place in range(whole):
        word, a, b, c, count = _next_word(a, b, c, count)
        for bit in range(64):  # a constant, so that it becomes vector code
            numbers[64 * place + bit] += length if word >> np.uint64(bit) & np.uint64(1) else -length
    word, a, b, c, count = _next_word(a, b, c, count)
    for bit in range(numbers.shape[0] - 64 * whole):
        numbers[64 * whole + bit] += length if word >> np.uint64(bit) & np.uint64(1) else -length


@compiled
def add_quantiles(state: Any, numbers: Any, quantiles: Any, length: Any) -> None:
    """Add ``length`` times the 2^16 quantiles that 16 bits each of the words choose, from the lowest on, to numbers."""
    a, b, c, count = state[0], state[1], state[2], state[3]
    mask = np.uint64(0xFFFF)
    whole = numbers.shape[0] // 4
    for place in range(whole):
        word, a, b, c, count = _next_word(a, b, c, count)
        for part in range(4):
            numbers[4 * place + part] += length * quantiles[word >> np.uint64(16 * part) & mask]
    word, a, b, c, count = _next_word(a, b, c, count)
    for part in range(numbers.shape[0] - 4 * whole):
        numbers[4 * whole + part] += length * quantiles[word >> np.uint64(16 * part) & mask]


@compiled
def add_two_signs(first: Any, second: Any, numbers: Any, length: Any, other: Any) -> None:
    """Do what ``add_signs`` does with one state and length after the other, in one pass over the numbers."""
    a, b, c, count = first[0], first[1], first[2], first[3]
    d, e, f, many = second[0], second[1], second[2], second[3]
    whole = numbers.shape[0] // 64
    for place in range(whole):  # no branch within: that would cost the vector code
        word, a, b, c, count = _next_word(a, b, c, count)
        more, d, e, f, many = _next_word(d, e, f, many)
        for bit in range(64):
            one = numbers[64 * place + bit] + (length if word >> np.uint64(bit) & np.uint64(1) else -length)
            numbers[64 * place + bit] = one + (other if more >> np.uint64(bit) & np.uint64(1) else -other)
    word, a, b, c, count = _next_word(a, b, c, count)
    more, d, e, f, many = _next_word(d, e, f, many)
    for bit in range(numbers.shape[0] - 64 * whole):
        one = numbers[64 * whole + bit] + (length if word >> np.uint64(bit) & np.uint64(1) else -length)
        numbers[64 * whole + bit] = one + (other if more >> np.uint64(bit) & np.uint64(1) else -other)


@compiled
def add_two_quantiles(first: Any, second: Any, numbers: Any, quantiles: Any, length: Any, other: Any) -> None:
    """Do what ``add_quantiles`` does with one state and length after the other, in one pass over the numbers."""
    a, b, c, count = first[0], first[1], first[2], first[3]
    d, e, f, many = second[0], second[1], second[2], second[3]
    mask, whole = np.uint64(0xFFFF), numbers.shape[0] // 4
    for place in range(whole):
        word, a, b, c, count = _next_word(a, b, c, count)
        more, d, e, f, many = _next_word(d, e, f, many)
        for part in range(4):
            one = numbers[4 * place + part] + length * quantiles[word >> np.uint64(16 * part) & mask]
            numbers[4 * place + part] = one + other * quantiles[more >> np.uint64(16 * part) & mask]
    word, a, b, c, count = _next_word(a, b, c, count)
    more, d, e, f, many = _next_word(d, e, f, many)
    for part in range(numbers.shape[0] - 4 * whole):
        one = numbers[4 * whole + part] + length * quantiles[word >> np.uint64(16 * part) & mask]
        numbers[4 * whole + part] = one + other * quantiles[more >> np.uint64(16 * part) & mask]


@compiled
def horner(coefficients: Any, x: Any) -> Any:
    """Return the polynomial with these coefficients, a tuple with the highest power first."""
    value = coefficients[0]
    for coefficient in coefficients[1:]:
        value = value * x + coefficient
    return value
