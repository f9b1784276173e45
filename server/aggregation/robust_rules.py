"""Rules for rounds in which some rows may be false, in the place of the mean.

A row is what a slot contributes: its move, or its slopes times the step size where all slots share their directions.
A rule is a pure function of the rows, (m, n), in slot order; m is small, and n may be large.

Sources: Blanchard et al. 2017 (krum, multi-krum), Yin et al. 2018 (median, trimmed mean), Karimireddy et al. 2021
(centered clipping).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from zofedht.common.typing import Indices, Matrix, Vector

__all__ = ["OUTLIER", "RULES", "lengths_of", "robust_mean", "usual_length"]

OUTLIER = 5.0
"""A move more than this many times as long as usual is an outlier; honest moves differ by a factor of two."""

_CLIP = 2.0  # times the usual length that a row may have under ``clipped``
_PASSES = 3  # of centered clipping: more change nothing that was measured
_ROUNDS = 5  # whose medians make the usual length


def usual_length(medians: Sequence[float], lengths: Sequence[float]) -> tuple[float, tuple[float, ...]]:
    """Return the running median length of rows, and the medians to remember for the next round.

    Parameters
    ----------
    medians : floats
        Median lengths of the rounds before, the newest last.
    lengths : floats
        Lengths of this round's rows; at least one.

    Returns
    -------
    usual : float
        Median over the latest five rounds, this one included.
    medians : tuple of floats
        Median lengths of at most five rounds.
    """
    kept = (*medians, float(np.median(lengths)))[-_ROUNDS:]
    return float(np.median(kept)), kept


def robust_mean(rule: str, rows: Matrix, usual: float, tolerated: int) -> Vector:
    """Return one row for many.

    Parameters
    ----------
    rule : str
        Name of a rule in ``RULES``.
    rows : (m, n) array
        One row for each usable slot, in slot order, finite.
    usual : float
        The usual length of a row (``usual_length``), for ``clipped``.
    tolerated : int
        How many rows may be false, for krum, multi-krum and trimmed-mean; fewer where m is too small for so many.

    Returns
    -------
    (n,) array
    """
    with np.errstate(over="ignore", invalid="ignore"):  # ``tell`` looks for the inf of an overflow
        return RULES[rule](rows, usual, tolerated)


def _clipped(rows: Matrix, usual: float, tolerated: int) -> Vector:
    """The mean of rows cut to twice the usual length."""
    return _mean(_cut(rows, _CLIP * usual))


def _trimmed_mean(rows: Matrix, usual: float, tolerated: int) -> Vector:
    """In each coordinate, the mean without the f largest and the f smallest numbers (Yin et al., definition 2)."""
    dropped = min(tolerated, (len(rows) - 1) // 2)
    return _mean(np.sort(rows, axis=0)[dropped : len(rows) - dropped])


def _median(rows: Matrix, usual: float, tolerated: int) -> Vector:
    """In each coordinate, the median (Yin et al., definition 1)."""
    median: Vector = np.median(rows, axis=0)
    return median


def _krum(rows: Matrix, usual: float, tolerated: int) -> Vector:
    """The row whose m - f - 2 nearest rows are nearest in sum of squared distances (Blanchard et al., section 4)."""
    best: Vector = rows[_by_score(rows, tolerated)[0]]
    return best


def _multi_krum(rows: Matrix, usual: float, tolerated: int) -> Vector:
    """The mean of the m - f rows of the best krum scores."""
    best = _by_score(rows, tolerated)[: max(1, len(rows) - tolerated)]
    return _mean(rows[np.sort(best)])


def _centered_clipping(rows: Matrix, usual: float, tolerated: int) -> Vector:
    """v <- v + mean of (row - v) cut to their median length, from v = 0 (Karimireddy et al., algorithm 2)."""
    v = np.zeros(rows.shape[1])
    for _ in range(_PASSES):
        apart = rows - v
        v = v + _mean(_cut(apart, float(np.median(lengths_of(apart)))))
    return v


RULES: Mapping[str, Callable[[Matrix, float, int], Vector]] = {
    "clipped": _clipped,
    "trimmed-mean": _trimmed_mean,
    "median": _median,
    "krum": _krum,
    "multi-krum": _multi_krum,
    "centered-clipping": _centered_clipping,
}
"""(rows, usual length, tolerated false rows) -> row, by the name that the run config key ``aggregation`` takes."""


def _mean(rows: Matrix) -> Vector:
    mean: Vector = np.mean(rows, axis=0)
    return mean


def lengths_of(rows: Matrix) -> Vector:
    """Return the length of each row, (m,)."""
    largest = np.max(np.abs(rows), axis=1)  # divided out: squares of large numbers overflow
    scaled = rows / np.where(largest > 0.0, largest, 1.0)[:, None]
    with np.errstate(over="ignore"):
        return np.asarray(largest * np.sqrt(np.einsum("ij,ij->i", scaled, scaled)))


def _cut(rows: Matrix, longest: float) -> Matrix:
    lengths = lengths_of(rows)
    return rows * np.divide(longest, lengths, out=np.ones_like(lengths), where=lengths > longest)[:, None]


def _by_score(rows: Matrix, tolerated: int) -> Indices:
    """Return the numbers of the rows, that of the best score first."""
    nearest = max(1, len(rows) - tolerated - 2)
    largest = float(np.max(np.abs(rows))) or 1.0
    squares = np.array([np.einsum("ij,ij->i", apart, apart) for apart in ((rows - row) / largest for row in rows)])
    scores = np.sort(squares, axis=1)[:, 1 : nearest + 1].sum(axis=1)  # the first is the row itself
    return np.argsort(scores, kind="stable")
