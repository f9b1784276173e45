"""Fewer points of a curve that look the same: the lowest and the highest loss of each piece stay."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

__all__ = ["Point", "thinned"]


class Point(NamedTuple):
    """What the page draws of a round; totals are those of the run up to it."""

    round: int
    evaluations: int
    seconds: float
    bytes: int
    loss: float | None
    full: bool  # the loss is that of a full evaluation
    step_size: float | None
    weight: float
    replies: int
    lost: int  # slots

    @classmethod
    def of_row(cls, row: Mapping[str, Any]) -> Point:
        """Return the point of a line of history.jsonl. Raises KeyError, TypeError or ValueError for anything else."""
        return cls(
            round=int(row["round"]),
            evaluations=int(row["evaluations"]),
            seconds=round(float(row["seconds"]), 3),
            bytes=int(row["bytes_up"]) + int(row["bytes_down"]),
            loss=_short(row["train_loss"]),
            full=row["train_loss_source"] == "full",
            step_size=_short(row["step_size"]),
            weight=_short(row["subspace_weight"]) or 0.0,
            replies=int(row["replies"]),
            lost=len(row["failures"]),
        )


def _short(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.7g}")


def thinned(points: Sequence[Point], most: int) -> list[Point]:
    """Return at most ``most`` points, four or more: the first, the last, and of each piece the lowest and the highest.

    Where some losses of a piece are full evaluations, the lowest and the highest of these stay.

    Examples
    --------
    >>> flat = [Point(r, r, 0.0, 0, 1.0, True, None, 0.0, 1, 0) for r in range(1000)]
    >>> peak = flat[500]._replace(loss=9.0)
    >>> shown = thinned([*flat[:500], peak, *flat[501:]], 20)
    >>> len(shown) <= 20, shown[0].round, shown[-1].round, peak in shown
    (True, 0, 999, True)
    """
    if len(points) <= most:
        return list(points)
    pieces = (most - 2) // 2
    kept = [points[0]]
    inner = len(points) - 2
    for piece in range(pieces):
        part = points[1 + piece * inner // pieces : 1 + (piece + 1) * inner // pieces]
        kept.extend(_extremes(part))
    kept.append(points[-1])
    return kept


def _extremes(part: Sequence[Point]) -> list[Point]:
    known = [point for point in part if point.loss is not None]
    known = [point for point in known if point.full] or known
    if not known:
        return list(part[:1])
    low, high = min(known, key=_loss), max(known, key=_loss)
    return [low] if low is high else sorted((low, high), key=lambda point: point.round)


def _loss(point: Point) -> float:
    return math.inf if point.loss is None else point.loss
