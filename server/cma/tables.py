"""What a table of answers says: (sites, candidates), NaN where an answer is lost."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from zofedht.common.typing import Indices, Matrix, Vector

__all__ = ["Reading", "read", "whole"]


@dataclass(frozen=True)
class Reading:
    """values: of the candidates, (candidates,); inf where most sites gave none. Variances are of one site's answer."""

    values: Vector
    variance: float  # of the candidates' means
    residual: float  # of one answer around site and candidate; NaN where there are too few answers
    sites: int
    answers: float  # of a candidate, in the mean: less than the sites where some are lost


def whole(table: Matrix) -> tuple[Matrix, Indices, int]:
    """Return the table without its gaps, the candidates that it holds, and how many of its answers were given.

    A candidate that most sites have lost is left out, then a site that has less than half of the others. What is still
    missing is the level of its site plus the effect of its candidate, by least squares.
    """
    there = ~np.isnan(table)
    kept = np.flatnonzero(2 * there.sum(axis=0) >= max(len(table), 1))
    if not there.any() or not kept.size:
        return np.empty((0, 0)), np.empty(0, dtype=np.intp), 0
    table, there = table[:, kept], there[:, kept]
    sites = 2 * there.sum(axis=1) >= len(kept)
    table, there = table[sites], there[sites]
    full = there.any(axis=0)
    kept, table, there = kept[full], table[:, full], there[:, full]
    if there.all():
        return table, kept, table.size
    count, candidates = table.shape
    rows, columns = np.nonzero(there)
    design = np.zeros((len(rows), count + candidates))
    design[np.arange(len(rows)), rows] = 1.0
    design[np.arange(len(rows)), count + columns] = 1.0
    effects = np.linalg.lstsq(design, table[there], rcond=None)[0]
    return np.where(there, table, effects[:count, None] + effects[None, count:]), kept, int(there.sum())


def read(table: Matrix) -> tuple[Reading, Indices]:
    """Return what the whole candidates say, and which these are."""
    filled, kept, given = whole(table)
    count, candidates = filled.shape
    if not candidates:
        return Reading(np.empty(0), 0.0, np.nan, 0, 0.0), kept
    centred = filled - filled.mean(axis=1, keepdims=True)  # a site's level says nothing about candidates
    means = _mean(centred)
    left = centred - means
    freedom = given - count - candidates + 1  # what was filled in has no residual
    residual = float(np.sum(left * left)) / freedom if freedom > 0 else np.nan
    variance = float(np.sum(means * means)) / (candidates - 1) if candidates > 1 else 0.0
    return Reading(_mean(filled), variance, residual, count, given / candidates), kept


def _mean(rows: Matrix) -> Vector:
    total = np.zeros(rows.shape[1])
    for row in rows:
        total += row
    return total / len(rows)
