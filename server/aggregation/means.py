"""The mean of the moves of a round (Algorithm 1, line 20), and what a slot weighs in it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from zofedht.common.typing import Vector
from zofedht.common.wire.messages import Update

__all__ = ["mean_move", "slot_weight"]


def slot_weight(update: Update, weighting: str) -> float:
    """Return a slot's weight: 1 where they weigh equally, as in the paper; for ``examples`` the client's rows."""
    return float(update.examples) if weighting == "examples" else 1.0


def mean_move(moves: Sequence[tuple[float, Vector]]) -> Vector:
    """Return the weighted mean of moves, (weight, move) each, in the order given (Algorithm 1, line 20)."""
    if len(moves) == 1:  # as it is: w m / w would round
        return moves[0][1]
    total = None
    with np.errstate(over="ignore", invalid="ignore"):  # ``tell`` looks for the inf of an overflow
        for weight, move in moves:
            weighted = weight * move
            total = weighted if total is None else total + weighted
        assert total is not None
        return total / sum(weight for weight, _ in moves)
