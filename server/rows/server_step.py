"""From the mean move of a round to the step of x: what the server makes of Algorithm 1, line 20. Pure.

With d the mean of the moves, r ``server-rate``, a ``server-momentum``, b ``server-decay`` and t ``server-floor``:

    mean       x <- x + r d
    momentum   m <- a m + d                          x <- x + r m
    adam       m <- a m + (1-a) d                    x <- x + r m / (sqrt(v) + t)
               v <- b v + (1-b) d^2
    yogi       the same, but v <- v - (1-b) d^2 sign(v - d^2)
    adagrad    the same, but v <- v + d^2
    tracking   x <- x + r d, with d along the mean of all clients' momenta (``controls``)
    newton, quasi-newton  x <- x + r d, with d what they make of the mean of the moves (``second_order``)
    refined-adam  adam, but v <- b v + (1-b) m^2, with the new m

m begins at 0 and v at t^2. Squares, roots and quotients are taken number by number.

Sources: Hsu et al. 2019 (momentum), Reddi et al. 2021, algorithm 2, with d in the place of their mean difference (adam,
yogi, adagrad), Shu et al. 2025, algorithm 2 (refined-adam).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from zofedht.common.config.run_config import RunConfig
from zofedht.common.typing import Vector

__all__ = ["Moments", "server_step"]


@dataclass(frozen=True)
class Moments:
    """What the server step remembers of the moves before; None until there was one."""

    mean: Vector | None = None  # m: (n,)
    square: Vector | None = None  # v: (n,)

    @property
    def finite(self) -> bool:
        """Whether nothing has overflowed."""
        return all(bool(np.all(np.isfinite(held))) for held in (self.mean, self.square) if held is not None)


def server_step(mean_move: Vector, moments: Moments, config: RunConfig) -> tuple[Vector, Moments]:
    """Return the step of x, (n,), and what to remember; the caller checks that both are finite.

    The plain mean at rate 1 is the mean move itself, bit for bit, and so is momentum 0.
    """
    rate, kept, decay, floor = (
        config.server_rate, config.server_momentum, config.server_decay, config.server_floor
    )  # fmt: skip
    with np.errstate(over="ignore", invalid="ignore"):
        if config.server_step in ("mean", "tracking", "newton", "quasi-newton"):
            return (mean_move if rate == 1.0 else rate * mean_move), moments
        before = np.zeros_like(mean_move) if moments.mean is None else moments.mean
        if config.server_step == "momentum":
            mean = kept * before + mean_move
            return rate * mean, Moments(mean)
        mean = kept * before + (1.0 - kept) * mean_move
        square = np.full_like(mean_move, floor * floor) if moments.square is None else moments.square
        new = mean_move * mean_move
        match config.server_step:  # algorithm 2 of Reddi et al., and of Shu et al. for the last
            case "adam":
                square = decay * square + (1.0 - decay) * new
            case "yogi":
                square = square - (1.0 - decay) * new * np.sign(square - new)
            case "adagrad":
                square = square + new
            case "refined-adam":
                square = decay * square + (1.0 - decay) * mean * mean
        below = np.sqrt(square) + floor
        # Without a floor, a coordinate that never moved has 0/0: it stays.
        return np.divide(rate * mean, below, out=np.zeros_like(mean), where=below > 0.0), Moments(mean, square)
