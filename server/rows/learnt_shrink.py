"""The stiff direction of an F whose objective names none, learnt from how slopes change along a shift. Pure.

In J rounds of the warm-up each step measures its slopes twice on the same samples: at w, and at w + delta p. The change
of c along v is delta v'Hp, so z, the mean of (change / delta) v, is H p but for noise. p is a random unit vector in the
first half of these rounds, and z/|z| in the second: d = z/|z| of the second half is near the stiffest direction.

The gate: there are enough slopes (those of the second half number at least 2 n), learning costs at most a tenth of the
rounds, it ends with the warm-up, and d'Hd is at least .15 of the trace of H, which n p'Hp of the random p tells, and
three times the mean eigenvalue.
Otherwise nothing is shrunk.

Source: this project; the four-point slopes are those of Zhang et al. 2022.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from zofedht.common.config.run_config import RunConfig
from zofedht.common.random.streams import stream
from zofedht.common.typing import Matrix, Vector
from zofedht.common.wire.messages import Broadcast, Update
from zofedht.server.rows.second_order import mean_change

__all__ = ["Learning", "begun", "learns_in", "learnt_direction", "schedule", "shift_of", "told_changes"]

_SHIFT = 1000.0  # in units of the radius: a tenth of it and ten times as much learn the same
_LEAST_PART = 0.15  # of the trace of H that d'Hd must be, and not less than this many times the mean eigenvalue:
_LEAST_TIMES = 3.0
_LONG = 80  # rounds from which four rounds learn, else two: never more than a tenth of the evaluations


@dataclass(frozen=True)
class Learning:
    """What is known of the stiffest direction."""

    p: Vector  # the unit vector along which is shifted: (n,)
    total: Vector  # sum over slopes of (change / delta) v: (n,)
    slopes: int = 0  # so many
    random_bend: float = 0.0  # p'Hp of the random p


def schedule(config: RunConfig, dimension: int) -> range:
    """Return the 0-based rounds that learn; none where the gate is shut from the beginning."""
    rounds = config.expected_rounds
    count, first = (4, 2) if rounds >= _LONG else (2, 1)
    slopes = count // 2 * config.clients_per_round * config.step_spec(step_size=0.0).slopes
    open_ = config.row.shrinks and config.shrink < 1.0 and slopes >= 2 * dimension and 20 * count <= rounds
    return range(first, first + count) if open_ and first + count <= config.warm_up_rounds else range(0)


def begun(config: RunConfig, dimension: int) -> Learning | None:
    """Return what is known before the first of these rounds, or None where no round learns."""
    if not schedule(config, dimension):
        return None
    p = stream(config.seed, "shift").standard_normal(dimension)
    return Learning(p / np.linalg.norm(p), np.zeros(dimension))


def learns_in(learning: Learning | None, round_: int, config: RunConfig) -> bool:
    """Whether this 0-based round learns."""
    return learning is not None and round_ in schedule(config, len(learning.p))


def shift_of(learning: Learning, config: RunConfig) -> Vector:
    """Return delta p, (n,)."""
    return _SHIFT * config.radius * learning.p


def told_changes(
    learning: Learning,
    updates: Sequence[Update],
    asked: Mapping[int, Broadcast],
    basis: Matrix | None,
    round_: int,
    config: RunConfig,
) -> Learning:
    """Return what is known after a round that learns; halfway p becomes z/|z|, and z begins anew."""
    total, count = mean_change(updates, asked, basis)
    total = learning.total + total / (_SHIFT * config.radius)
    if not np.all(np.isfinite(total)):
        return learning
    after = replace(learning, total=total, slopes=learning.slopes + count)
    rounds = schedule(config, len(total))
    length = float(np.linalg.norm(total))
    if round_ != rounds[len(rounds) // 2 - 1] or not after.slopes or length == 0.0:
        return after
    return Learning(total / length, np.zeros_like(total), random_bend=float(learning.p @ total) / after.slopes)


def learnt_direction(learning: Learning) -> Matrix | None:
    """Return d as a column, (n, 1), or None where F does not bend far more along it than along others."""
    length = float(np.linalg.norm(learning.total))
    if not learning.slopes or length == 0.0:
        return None
    bend = float(learning.p @ learning.total) / learning.slopes  # p'Hp of the second half's p, near d'Hd
    trace = len(learning.p) * max(learning.random_bend, 0.0)
    if not bend > max(_LEAST_PART, _LEAST_TIMES / len(learning.p)) * trace or not bend > 0.0:
        return None
    return (learning.total / length)[:, None]
