"""Evaluations, time and bytes of a run, from a short run on a stand-in with the same number of parameters.

The stand-in sends the messages of the run and counts them as every run does, so no formula for each algorithm can be
wrong. The sites are not asked.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from zofedht.common.config.run_config import RunConfig
from zofedht.common.objective.base import Objective
from zofedht.common.typing import Indices, Vector
from zofedht.server.core.round_record import RoundRecord
from zofedht.server.inprocess import run_in_process
from zofedht.server.plan.measure import SiteReading

__all__ = ["Estimate", "estimated"]

_MOST_ROUNDS = 24
_LEAST_ROUNDS = 4
_EVALUATED_AT_THE_END = 3  # the start, the best and the last x; more often where answers are noisy


@dataclass(frozen=True)
class Estimate:
    """What the whole run takes.

    ``slot_seconds`` are those of a slot at the slowest site, ``seconds`` those of the run where sites work at once,
    without the time of messages; ``work`` is the time of all evaluations one after another.
    """

    rounds: int
    evaluations: int
    full_evaluations: int
    slot_seconds: float
    seconds: float
    work: float
    bytes_up: float
    bytes_down: float


class _StandIn(Objective):
    """A smooth function with slopes of at most 1 / n: no step makes it diverge."""

    def __init__(self, dimension: int, samples: int) -> None:
        self.dim, self._samples = dimension, samples

    def __len__(self) -> int:
        return self._samples

    def value(self, x: Vector, batch: Indices | slice) -> float:
        return float(np.mean(np.sqrt(1.0 + np.square(x - 1.0))))


def estimated(config: RunConfig, dimension: int, sites: Sequence[SiteReading], *, discrete: bool = False) -> Estimate:
    """Return what a run of this config takes at these sites; ``discrete``: parameters are whole numbers or choices.

    Raises ZofedhtError where its messages cannot be made.
    """
    period = config.refresh if config.row.follows_trajectory else 1
    tried = min(_MOST_ROUNDS, max(_LEAST_ROUNDS, 2 * period + 2))
    keys: dict[str, Any] = {} if config.asks_points else {"kernel": "numpy", "radius": config.radius}
    keys |= {name: getattr(config, name) for name in config.row.own}  # which a built-in model would not get
    if config.algorithm == "auto" and (discrete or any(site.noise for site in sites)):
        keys["algorithm"] = "cma-es"  # as auto will find
    short = config.replace(
        objective="", dataset="digits", parameters="", rounds=tried, budget=0, num_clients=len(sites), evaluate_every=0,
        init="zeros", out="", **keys,
    )  # fmt: skip
    rows: list[RoundRecord] = []
    stand_ins = [_StandIn(dimension, site.samples) for site in sites]
    run_in_process(short.fitted(dimension), stand_ins, observers=[lambda _, row: rows.append(row)])
    middle, last = rows[len(rows) // 2 - 1], rows[-1]
    steady = len(rows) - len(rows) // 2
    of_round = (last.evaluations - middle.evaluations) / steady
    rounds = _rounds(config, of_round)

    def whole(end: float, half: float) -> float:
        return end * rounds / len(rows) if rounds <= len(rows) else end + (end - half) / steady * (rounds - len(rows))

    slots = max(1, rows[-1].replies)
    seconds = [site.seconds for site in sites if math.isfinite(site.seconds)] or [math.nan]
    shards = sum(site.samples for site in sites)
    passes = 1 + (rounds // config.evaluate_every if config.evaluate_every else 0) + 1 + _EVALUATED_AT_THE_END
    slowest = max((site.seconds * site.samples for site in sites if math.isfinite(site.seconds)), default=math.nan)
    slot = of_round / slots * max(seconds)
    total = whole(last.evaluations, middle.evaluations)
    work = (total + passes * shards) * float(np.mean(seconds))
    return Estimate(
        rounds=rounds,
        evaluations=round(total),
        full_evaluations=passes * shards,
        slot_seconds=slot,
        seconds=min(work, rounds * slot + passes * slowest),
        work=work,
        bytes_up=whole(last.bytes_up, middle.bytes_up),
        bytes_down=whole(last.bytes_down, middle.bytes_down),
    )


def _rounds(config: RunConfig, of_round: float) -> int:
    paid = math.ceil(config.budget / of_round) if config.budget and of_round else 0
    return min((count for count in (config.rounds, paid) if count), default=0)
