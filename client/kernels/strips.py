"""Products of rows with two matrices in one pass over the entries, for vector code of fixed width.

The rows of both matrices are padded to whole vectors that begin at a cache line. So no load crosses two lines, and the
sums of a sample stay in registers as long as its entries last. Vector code that numba finds by itself takes 2.5 times
as long: it reads and writes the sums for each four entries, and half of its loads cross two lines.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from zofedht.common.random.jit import compiled, compiled_products

__all__ = ["add_products", "aligned", "pad", "padded_width", "unpad"]

_LANES = 8
_LINE = 64  # bytes
_BLOCKS = 8
"""The columns are taken in so many parts: that of both matrices stays in the first-level cache for all rows."""


def _strip(vectors: int) -> Any:
    """Return code that adds the products of a row's entries begin..end-1 with ``vectors`` vectors of both matrices."""

    @intrinsic  # type: ignore[untyped-decorator]
    def add(
        _context: Any, columns: Any, values: Any, begin: Any, end: Any, left: Any, right: Any, stride: Any, width: Any,
        first: Any, sums: Any, place: Any,
    ) -> Any:  # fmt: skip
        places = (types.int64, types.int64, types.int64)
        return types.void(columns, values, *places[:2], left, right, *places, sums, types.int64), generate

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        integer, lanes = ir.IntType(64), ir.VectorType(ir.DoubleType(), _LANES)
        arrays = {k: context.make_array(signature.args[k])(context, builder, args[k]).data for k in (0, 1, 4, 5, 9)}
        begin, end, stride, width, first, place = (args[k] for k in (2, 3, 6, 7, 8, 10))
        undefined, zeros = ir.Constant(lanes, ir.Undefined), ir.Constant(ir.VectorType(ir.IntType(32), _LANES), None)

        def vector(array: Any, start: Any, number: int) -> Any:
            at = builder.gep(array, [builder.add(start, integer(number * _LANES))])
            return builder.bitcast(at, lanes.as_pointer())

        homes = [(side, k, builder.add(place, width) if side else place) for side in (0, 1) for k in range(vectors)]
        totals = [cgutils.alloca_once(builder, lanes) for _ in homes]  # LLVM keeps them in registers
        for total, (_, k, home) in zip(totals, homes, strict=True):
            builder.store(builder.load(vector(arrays[9], builder.add(home, first), k), align=8), total)
        with cgutils.for_range_slice(builder, begin, end, integer(1)) as (entry, _):
            x = builder.insert_element(undefined, builder.load(builder.gep(arrays[1], [entry])), ir.IntType(32)(0))
            x = builder.shuffle_vector(x, undefined, zeros)
            column = builder.zext(builder.load(builder.gep(arrays[0], [entry])), integer)
            row = builder.add(builder.mul(column, stride), first)
            for total, (side, k, _) in zip(totals, homes, strict=True):
                product = builder.fmul(x, builder.load(vector(arrays[4 + side], row, k), align=8), flags=("contract",))
                builder.store(builder.fadd(builder.load(total), product, flags=("contract",)), total)
        for total, (_, k, home) in zip(totals, homes, strict=True):
            builder.store(builder.load(total), vector(arrays[9], builder.add(home, first), k), align=8)
        return context.get_dummy_value()

    return add


_one, _two, _three, _four = (_strip(vectors) for vectors in (1, 2, 3, 4))


@compiled
def padded_width(columns: Any) -> Any:
    """Return ``columns`` rounded up to whole vectors."""
    return (columns + _LANES - 1) // _LANES * _LANES


@compiled
def aligned(size: Any) -> Any:
    """Return an empty vector, (size,), that begins at a cache line."""
    room = np.empty(size + _LANES)
    skip = (-room.ctypes.data % _LINE) // 8
    return room[skip : skip + size]


@compiled
def pad(w: Any, shape: Any, width: Any, padded: Any) -> None:
    """Copy w, a matrix of a shape and a rest, with ``width`` numbers a row of the matrix and zeros after the rest."""
    count = shape[0] * shape[1]
    matrix, rows = w[:count].reshape(shape), padded[: shape[0] * width].reshape((shape[0], width))
    for row in range(matrix.shape[0]):
        for h in range(matrix.shape[1]):
            rows[row, h] = matrix[row, h]
        for h in range(matrix.shape[1], width):
            rows[row, h] = 0.0
    rest = padded[shape[0] * width :]
    rest[: w.shape[0] - count] = w[count:]
    rest[w.shape[0] - count :] = 0.0


@compiled
def unpad(padded: Any, shape: Any, width: Any, w: Any) -> None:
    """Copy back to w what ``pad`` has copied."""
    count = shape[0] * shape[1]
    matrix, rows = w[:count].reshape(shape), padded[: shape[0] * width].reshape((shape[0], width))
    for row in range(matrix.shape[0]):
        for h in range(matrix.shape[1]):
            matrix[row, h] = rows[row, h]
    w[count:] = padded[shape[0] * width : shape[0] * width + w.shape[0] - count]


@compiled_products
def add_products(
    bounds: Any, columns: Any, values: Any, batch: Any, left: Any, right: Any, height: Any, stride: Any, width: Any,
    sums: Any,
) -> None:  # fmt: skip
    """Add the products of the rows of a batch with two matrices to ``sums``, (rows, 2, width) as one vector.

    ``left`` and ``right`` begin with the matrices row by row, (height, stride). With a stride below ``width`` the last
    sums of a row are of what follows it.
    """
    size = batch.shape[0]
    begins, ends = np.empty(size, np.int64), np.empty(size, np.int64)
    for i in range(size):
        ends[i] = bounds[batch[i]]
    part = (height + _BLOCKS - 1) // _BLOCKS
    for edge in range(part, height + part, part):
        for i in range(size):
            begins[i] = ends[i]
            last = bounds[batch[i] + 1] if edge >= height else ends[i]
            end = bounds[batch[i] + 1]
            while last < end and columns[last] < edge:
                last += 1
            ends[i] = last
        for first in range(0, width, 4 * _LANES):
            vectors = min(4, (width - first) // _LANES)
            for i in range(size):
                begin, end, place = begins[i], ends[i], 2 * i * width
                if vectors == 4:
                    _four(columns, values, begin, end, left, right, stride, width, first, sums, place)
                elif vectors == 3:
                    _three(columns, values, begin, end, left, right, stride, width, first, sums, place)
                elif vectors == 2:
                    _two(columns, values, begin, end, left, right, stride, width, first, sums, place)
                else:
                    _one(columns, values, begin, end, left, right, stride, width, first, sums, place)
