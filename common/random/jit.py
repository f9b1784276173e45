"""The compiler of the extra ``fast``: numba, told what all our loops need.

Only modules named ``compiled_*`` import this one, and they are imported only where ``runs_compiled`` says so.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numba
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from zofedht.common.data.named_sets import data_folder
from zofedht.common.errors import DataError

__all__ = [
    "array_data",
    "bits_of",
    "compiled",
    "compiled_products",
    "compiled_sums",
    "float_of",
    "high_product",
    "horner",
    "root",
    "trailing_zeros",
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


@intrinsic  # type: ignore[untyped-decorator]
def bits_of(_context: Any, value: Any) -> Any:
    """Return the bits of a float32 as int32, or of a float64 as int64."""
    bits, kind = (types.int32, ir.IntType(32)) if value == types.float32 else (types.int64, ir.IntType(64))
    return bits(value), lambda _c, builder, _s, args: builder.bitcast(args[0], kind)


@intrinsic  # type: ignore[untyped-decorator]
def float_of(_context: Any, bits: Any) -> Any:
    """Return the float32 of these int32 bits, or the float64 of these int64 bits."""
    value, kind = (types.float32, ir.FloatType()) if bits == types.int32 else (types.float64, ir.DoubleType())
    return value(bits), lambda _c, builder, _s, args: builder.bitcast(args[0], kind)


@intrinsic  # type: ignore[untyped-decorator]
def root(_context: Any, _value: Any) -> Any:
    """Return the square root of a float32 that is not negative; math.sqrt's check would stop vector code."""

    def generate(_c: Any, builder: Any, _s: Any, args: Any) -> Any:
        return builder.call(builder.module.declare_intrinsic("llvm.sqrt", [ir.FloatType()]), args)

    return types.float32(types.float32), generate


@intrinsic  # type: ignore[untyped-decorator]
def high_product(_context: Any, _one: Any, _other: Any) -> Any:
    """Return the upper 64 bits of the 128-bit product of two uint64."""

    def generate(_c: Any, builder: Any, _s: Any, args: Any) -> Any:
        wide = ir.IntType(128)
        product = builder.mul(*(builder.zext(value, wide) for value in args))
        return builder.trunc(builder.lshr(product, wide(64)), ir.IntType(64))

    return types.uint64(types.uint64, types.uint64), generate


@intrinsic  # type: ignore[untyped-decorator]
def trailing_zeros(_context: Any, _value: Any) -> Any:
    """Return the place of the lowest bit that is set in a uint64 other than 0."""
    return types.uint64(types.uint64), lambda _c, builder, _s, args: builder.cttz(args[0], ir.IntType(1)(1))


def array_data(context: Any, builder: Any, signature: Any, args: Any, which: int) -> Any:
    """Return the pointer to the data of an array that an intrinsic is given."""
    return context.make_array(signature.args[which])(context, builder, args[which]).data


@compiled
def horner(coefficients: Any, x: Any) -> Any:
    """Return the polynomial with these coefficients, a tuple with the highest power first."""
    value = coefficients[0]
    for coefficient in coefficients[1:]:
        value = value * x + coefficient
    return value
