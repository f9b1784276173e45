"""Rows in groups of four neighbouring columns, for vector code: pictures and tables are not zero in stretches.

Four products for w and four for v then cost three loads of 32 bytes and one of a place, where entries by themselves
cost sixteen.
"""

from __future__ import annotations

import weakref
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from zofedht.common.models.linear import LinearObjective
from zofedht.common.models.rows import CompressedRows
from zofedht.common.random.jit import compiled
from zofedht.common.typing import Matrix

__all__ = ["ColumnGroups", "rows_of", "sums_of_groups"]

_WIDTH = 4
_FULL = 0.5
"""Share of the entries of groups that are not zero, from which groups are faster than single entries."""


class ColumnGroups(NamedTuple):
    """Row i has ``values[k]`` in the columns from ``starts[k]`` on, for k in bounds[i]..bounds[i + 1] - 1."""

    bounds: NDArray[np.int64]
    starts: NDArray[np.int32]
    values: Matrix  # (groups, 4)


_ROWS: weakref.WeakKeyDictionary[LinearObjective, CompressedRows | ColumnGroups] = weakref.WeakKeyDictionary()


def rows_of(objective: LinearObjective) -> CompressedRows | ColumnGroups:
    """Return the rows of an objective as groups where these are at least half full, else as ``objective.rows``.

    They are made once and kept as long as the objective is.
    """
    rows = _ROWS.get(objective)
    if rows is None:
        rows = _ROWS[objective] = _in_groups(objective.rows, objective.dim) or objective.rows
    return rows


def _in_groups(rows: CompressedRows, columns: int, full: float = _FULL) -> ColumnGroups | None:
    if columns < _WIDTH:
        return None
    bounds = np.empty(len(rows.bounds), np.int64)
    count = _count_groups(rows.bounds, rows.columns, bounds)
    if len(rows.values) < full * _WIDTH * count:
        return None
    groups = ColumnGroups(bounds, np.empty(count, np.int32), np.zeros((count, _WIDTH)))
    _fill_groups(*rows, columns, *groups)
    return groups


@compiled
def _begins(columns: Any, place: Any, first: Any, start: Any) -> Any:
    """Whether the entry at a place begins a group: it is its row's first, too far from ``start``, or out of order."""
    column = columns[place]
    return place == first or column >= start + _WIDTH or column <= columns[place - 1]


@compiled
def _count_groups(bounds: Any, columns: Any, group_bounds: Any) -> Any:
    count = 0
    for row in range(bounds.shape[0] - 1):
        group_bounds[row] = count
        start = 0
        for place in range(bounds[row], bounds[row + 1]):
            if _begins(columns, place, bounds[row], start):
                start = columns[place]
                count += 1
    group_bounds[-1] = count
    return count


@compiled
def _fill_groups(
    bounds: Any, columns: Any, values: Any, width: Any, group_bounds: Any, group_starts: Any, group_values: Any
) -> None:
    for row in range(bounds.shape[0] - 1):
        group = group_bounds[row] - 1
        start = 0
        for place in range(bounds[row], bounds[row + 1]):
            if _begins(columns, place, bounds[row], start):
                start = columns[place]
                group += 1
                # The last columns are reached from before them: a group never leaves the row.
                group_starts[group] = min(start, width - _WIDTH)
            group_values[group, columns[place] - group_starts[group]] = values[place]


@intrinsic  # type: ignore[untyped-decorator]
def sums_of_groups(_context: Any, starts: Any, values: Any, w: Any, v: Any, begin: Any, end: Any) -> Any:
    """Return x.w and x.v of the row whose groups are begin..end-1, as a pair."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        place, four = ir.IntType(64), ir.VectorType(ir.DoubleType(), _WIDTH)
        kinds = [context.make_array(kind) for kind in signature.args[:4]]
        first, entries, *sides = (kind(context, builder, array).data for kind, array in zip(kinds, args, strict=False))
        # Two running sums a side: one alone would wait for each addition to end before the next begins.
        sums = [[cgutils.alloca_once(builder, four) for _ in sides] for _ in range(2)]
        for total in (total for pair in sums for total in pair):
            builder.store(four([0.0] * _WIDTH), total)

        def add(group: Any, totals: Any) -> None:
            column = builder.zext(builder.load(builder.gep(first, [group])), place)
            x = _four(builder, entries, builder.mul(group, place(_WIDTH)))
            for side, total in zip(sides, totals, strict=True):
                product = builder.fmul(x, _four(builder, side, column), flags=("contract",))
                builder.store(builder.fadd(builder.load(total), product, flags=("contract",)), total)

        begin, end = args[4:]
        even = builder.sub(end, builder.and_(builder.sub(end, begin), place(1)))
        with cgutils.for_range_slice(builder, begin, even, place(2)) as (group, _):
            add(group, sums[0])
            add(builder.add(group, place(1)), sums[1])
        with builder.if_then(builder.icmp_signed("<", even, end)):
            add(even, sums[0])
        both = [builder.fadd(*(builder.load(pair[side]) for pair in sums)) for side in range(2)]
        return context.make_tuple(builder, signature.return_type, [_total(builder, vector) for vector in both])

    return types.UniTuple(types.float64, 2)(starts, values, w, v, types.int64, types.int64), generate


def _four(builder: Any, array: Any, place: Any) -> Any:
    kind = ir.VectorType(ir.DoubleType(), _WIDTH)
    return builder.load(builder.bitcast(builder.gep(array, [place]), kind.as_pointer()), align=8)


def _total(builder: Any, vector: Any) -> Any:
    parts = [builder.extract_element(vector, ir.IntType(32)(lane)) for lane in range(_WIDTH)]
    return builder.fadd(builder.fadd(parts[0], parts[2]), builder.fadd(parts[1], parts[3]))
