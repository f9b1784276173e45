"""Tables of answers in which some sites may be false: (sites, points), NaN where an answer is lost.

A site's level says nothing about points, so each row is centred by its own median first. Then the rule of the run is
applied to each point over the sites, and to the levels. What the rule leaves out gets the mean of the rest, so that the
plain mean of a column is the rule's: whoever reads the table needs to know nothing of false sites.

Source: Yin et al. 2018 (median, trimmed mean).
"""

from __future__ import annotations

import numpy as np

from zofedht.common.rules import LARGEST_LOSS
from zofedht.common.typing import Matrix, Vector

__all__ = ["robust_table", "spreads_of"]


def robust_table(rule: str, table: Matrix, tolerated: int) -> Matrix:
    """Return a table whose column means are those of the rule.

    Parameters
    ----------
    rule : str
        mean, trimmed-mean or median.
    table : (sites, points) array
    tolerated : int
        How many sites may be false, for trimmed-mean; fewer where too few have answered.

    Examples
    --------
    >>> table = np.array([[1.0, 2.0], [1.1, 2.1], [0.9, 1.9], [-1000.0, -2000.0]])
    >>> robust_table("median", table, 1).mean(axis=0).round(3).tolist()
    [0.95, 1.95]
    """
    if rule == "mean":
        return table
    with np.errstate(all="ignore"):
        levels = _levels(table)
        level = np.nanmean(_replaced(rule, levels[:, None], tolerated)) if np.any(~np.isnan(levels)) else np.nan
        centred = _replaced(rule, table - levels[:, None], tolerated)
    return np.asarray(level + centred)


def spreads_of(table: Matrix) -> Vector:
    """Return how far each site's answers lie from their median, in the median: (sites,), 0 for one point."""
    with np.errstate(all="ignore"):
        found = np.array([_median(np.abs(row)) for row in table - _levels(table)[:, None]])
    spreads: Vector = np.minimum(np.nan_to_num(found, nan=0.0, posinf=LARGEST_LOSS), LARGEST_LOSS)
    return spreads  # a median of several of these does not overflow


def _levels(table: Matrix) -> Vector:
    return np.array([_median(row) for row in table])


def _median(numbers: Vector) -> float:
    known = numbers[~np.isnan(numbers)]
    return float(np.median(known)) if known.size else np.nan


def _replaced(rule: str, table: Matrix, tolerated: int) -> Matrix:
    """Return the table with the mean of what the rule keeps of a column in the place of what it leaves out."""
    out = table.copy()
    for place in range(table.shape[1]):
        there = np.flatnonzero(~np.isnan(table[:, place]))
        ordered = there[np.argsort(table[there, place], kind="stable")]
        half = max(len(ordered) - 1, 0) // 2
        cut = half if rule == "median" else min(tolerated, half)
        if cut:
            kept = ordered[cut : len(ordered) - cut]
            out[np.setdiff1d(ordered, kept), place] = np.mean(table[kept, place])
    return out
