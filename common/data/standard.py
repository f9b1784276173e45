"""Mean and standard deviation of columns, agreed over clients: each tells three sums, and no row leaves it.

The sums are the number of rows and, for each column, its mean and the sum of its squared deviations from that mean.
They say the same as sum and sum of squares, and keep their digits where a column is far from 0. Sums of two parts are
merged as by Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances", 1979.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from zofedht.common.choices import parse_columns
from zofedht.common.errors import DataError
from zofedht.common.typing import Features, Vector, is_sparse

__all__ = ["LEAST_ROWS", "MOST_COLUMNS", "ColumnSums", "Standard", "columns_text", "merged", "standard_of", "sums_of"]

MOST_COLUMNS = 10_000
"""More columns are not told: their means would be most of each message."""

LEAST_ROWS = 5
"""Sums of fewer rows are not told: those of one row are the row, and those of two are both."""

_BLOCK = 4096  # rows whose deviations are in memory at once
_DIGITS = 9  # of a standard deviation; a mean has as many behind those of its deviation
_ROUNDING = 1e-12  # a deviation so much smaller than the mean is rounding


class ColumnSums(NamedTuple):
    """Rows, and of each column the mean and the sum of squared deviations from it."""

    rows: int
    means: Vector
    squares: Vector


class Standard(NamedTuple):
    """What is subtracted from each column, and what it is divided by then."""

    means: Vector
    deviations: Vector


def sums_of(features: Any, divisor: float = 1.0) -> ColumnSums:
    """Return the sums of features / divisor, (rows, columns) dense or CSR."""
    count, width = features.shape
    if is_sparse(features):
        data, columns = features.data.astype(np.float64) / divisor, features.indices
        means = np.bincount(columns, weights=data, minlength=width) / count
        zeros = count - np.bincount(columns, minlength=width)
        deviations = np.square(data - means[columns])
        squares = np.bincount(columns, weights=deviations, minlength=width) + zeros * np.square(means)
        return ColumnSums(count, means, squares)
    blocks = (features[start : start + _BLOCK].astype(np.float64) / divisor for start in range(0, count, _BLOCK))
    return merged([_of_block(block) for block in blocks])


def _of_block(block: Features) -> ColumnSums:
    with np.errstate(over="ignore", invalid="ignore"):  # columns_text refuses what is not finite
        means = block.mean(axis=0)
        return ColumnSums(len(block), means, np.square(block - means).sum(axis=0))


def merged(parts: Sequence[ColumnSums]) -> ColumnSums:
    """Return the sums of all rows of the parts, in their order."""
    return functools.reduce(_both, parts)


def _both(one: ColumnSums, other: ColumnSums) -> ColumnSums:
    count = one.rows + other.rows
    apart = other.means - one.means
    means = one.means + apart * (other.rows / count)
    squares = one.squares + other.squares + np.square(apart) * (one.rows * other.rows / count)
    return ColumnSums(count, means, squares)


def columns_text(sums: ColumnSums) -> str:
    """Return mean:deviation of each column, as the key ``standardize-by`` takes them.

    Raises DataError where a sum is not finite.
    """
    deviations = np.sqrt(sums.squares / sums.rows)
    if not (np.isfinite(sums.means).all() and np.isfinite(deviations).all()):
        column = int(np.argmin(np.isfinite(sums.means) & np.isfinite(deviations)))
        raise DataError.public(f"column {column + 1} is too large to be standardized; divide it before")
    return ",".join(_text(float(mean), float(one)) for mean, one in zip(sums.means, deviations, strict=True))


def _text(mean: float, deviation: float) -> str:
    if deviation <= _ROUNDING * abs(mean):
        return f"{mean:.15g}:0"
    digits = _DIGITS - math.floor(math.log10(deviation))
    return f"{round(mean, digits)!r}:{deviation:.{_DIGITS}g}"


def standard_of(text: str, columns: int) -> Standard:
    """Return what the key ``standardize-by`` says of so many columns; one of deviation 0 is only centred.

    Raises DataError for another number of columns.
    """
    pairs = np.array(parse_columns(text), dtype=np.float64).reshape(-1, 2)
    if len(pairs) != columns:
        raise DataError.public(
            f"standardize-by must have mean:deviation for each of the {columns} columns, got {len(pairs)}; leave it at"
            " auto, or name the columns with features"
        )
    return Standard(pairs[:, 0], np.where(pairs[:, 1] > 0.0, pairs[:, 1], 1.0))
