"""Directions of low rank, for parameters that are matrices: x begins with blocks of rows x columns each, row by row.

lowrank: a block's part of v is U V' / sqrt(r), U (rows, r) and V (columns, r) of normal numbers. U is drawn for each
    direction; V is one for some rounds (LOZO, Chen et al. 2025, which has no 1 / sqrt(r)).
subspace-core: U Z V' sqrt(rows columns) / r, U and V orthonormal for some rounds, Z (r, r) normal for each
    direction (SubZero, Yu et al. 2025, algorithm 3).

Over all draws E[v v^T] = I. The rest of x, and all of it without blocks, has isotropic parts.
"""

from __future__ import annotations

import math

import numpy as np

from zofedht.common.choices import parse_shapes
from zofedht.common.random.streams import Address, stream
from zofedht.common.typing import Matrix

__all__ = ["low_rank"]


def low_rank(v: Matrix, blocks: str, rank: int, law: str, address: Address, rounds: int) -> Matrix:
    """Return directions v (steps, n) with the parts of blocks at rank r, made from the numbers that stand there.

    What blocks have in common stays for so many ``rounds``.
    """
    held = v.copy()
    since = address.round - address.round % rounds
    start = 0
    for place, (rows, columns) in enumerate(parse_shapes(blocks)):
        size, r = rows * columns, min(rank, rows, columns)
        part = slice(start, start + size)
        start += size
        fixed = stream(address.seed, "blocks", since, place)
        numbers = v[:, part]
        if law == "lowrank":
            right = fixed.standard_normal((columns, r))
            left = numbers[:, : rows * r].reshape(-1, rows, r)
            held[:, part] = (left @ right.T).reshape(len(v), size) / math.sqrt(r)
        else:
            left, right = (np.linalg.qr(fixed.standard_normal((side, r)))[0] for side in (rows, columns))
            core = numbers[:, : r * r].reshape(-1, r, r)
            held[:, part] = (left @ core @ right.T).reshape(len(v), size) * (math.sqrt(size) / r)
    return held
