"""Laws of isotropic rows v with E[v v^T] = I: the probes that directions are made from."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from zofedht.common.random.source import Source
from zofedht.common.typing import Matrix

__all__ = ["LAWS", "framed"]


def _gaussian(source: Source, rows: int, columns: int) -> Matrix:
    """N(0, I): the paper's."""
    return source.normals(rows, columns)


def _rademacher(source: Source, rows: int, columns: int) -> Matrix:
    """Independent signs: |v|^2 = n exactly."""
    return source.signs(rows, columns)


def _sphere(source: Source, rows: int, columns: int) -> Matrix:
    """Uniform on the sphere of radius sqrt(n): a normal row, scaled."""
    v = source.normals(rows, columns)
    v *= math.sqrt(columns) / np.sqrt(np.einsum("ij,ij->i", v, v))[:, None]
    return v


def framed(v: Matrix, together: int) -> Matrix:
    """Return the rows with those of each step, ``together`` at a time, orthogonal: a uniform frame of length sqrt(n).

    There must be no more of them than n.
    """
    frames = []
    for start in range(0, len(v), together):
        columns, sides = np.linalg.qr(v[start : start + together].T)
        frames.append((columns * np.sign(np.diag(sides))).T)
    return math.sqrt(v.shape[1]) * np.concatenate(frames)


LAWS: dict[str, Callable[[Source, int, int], Matrix]] = {
    "gaussian": _gaussian,
    "rademacher": _rademacher,
    "sphere": _sphere,
    "frame": _sphere,
}
"""Draws ``rows`` rows of ``columns`` numbers, by the name that the run config key ``probe`` takes."""
