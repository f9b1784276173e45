"""Which K, M and b a run should take, from what its sites have shown. Pure functions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from zofedht.common.config.run_config import RunConfig
from zofedht.server.plan.measure import SiteReading

__all__ = ["Advice", "advised"]

_SHARE = 0.5  # of a slope: the error that the choice of sites, or of samples, may bring into it
_LEAST_ROUNDS = 30  # of a budget: fewer leave a step schedule no room
_OF_THE_TIMEOUT = 0.5
_LEAST_SITES = 2


@dataclass(frozen=True)
class Advice:
    """A key, the value to take, and why."""

    key: str
    value: int
    why: str


def advised(config: RunConfig, sites: Sequence[SiteReading]) -> list[Advice]:
    """Return advice on clients-per-round, batch-size and local-steps; none for rows whose server asks for points."""
    if config.asks_points:
        return []
    found = [*_slots(config, sites), *_batch(config, sites)]
    taken = {advice.key: advice.value for advice in found}
    return [*found, *_steps(config, sites, taken)]


def _slots(config: RunConfig, sites: Sequence[SiteReading]) -> list[Advice]:
    """M: at least so many sites that the mean slope of those drawn is within half of a slope of the mean of all."""
    slopes = [site.slopes for site in sites if site.slopes is not None]
    if len(slopes) < _LEAST_SITES:
        return []
    table = np.array(slopes)
    level = math.sqrt(float(np.mean(np.square(table.mean(axis=0)))))
    spread = math.sqrt(float(np.mean(np.var(table, axis=0, ddof=1))))
    if not level:
        return []
    ratio = spread / level
    wanted = min(len(sites), max(config.clients_per_round, math.ceil((ratio / _SHARE) ** 2)))
    return [Advice("clients-per-round", wanted, f"slopes of sites differ by {ratio:.2g} times their mean")]


def _batch(config: RunConfig, sites: Sequence[SiteReading]) -> list[Advice]:
    """b: at least so many samples that the mean over the batches of a slot is within half of a slope of the shard's."""
    spreads = [site.batch_spread for site in sites if math.isfinite(site.batch_spread)]
    if not spreads or not config.batch:
        return []
    ratio = float(np.median(spreads))
    largest = max(site.samples for site in sites)
    batches, shown = config.local_steps, f"slopes of batches of {config.batch} differ by {ratio:.2g} times their mean"
    wanted = math.ceil(config.batch * (ratio / _SHARE) ** 2 / batches)
    wanted = max(config.batch, min(largest, wanted))
    return [Advice("batch-size", wanted, f"{shown}, and a slot has {batches} batches")]


def _steps(config: RunConfig, sites: Sequence[SiteReading], taken: dict[str, int]) -> list[Advice]:
    """K: as given, unless the timeout or the budget needs a smaller one."""
    config = config.replace(batch_size=taken.get("batch-size", config.batch_size)) if "batch-size" in taken else config
    slots = taken.get("clients-per-round", config.clients_per_round)
    spec = config.step_spec(step_size=0.0)
    costs = [(spec.evaluations(site.samples) / spec.local_steps, site.seconds) for site in sites]
    times = [count * seconds for count, seconds in costs if math.isfinite(seconds)]
    steps, why = config.local_steps, "a slot is done well within round-timeout"
    if times and max(times) > 0.0:
        in_time = int(_OF_THE_TIMEOUT * config.round_timeout / max(times))
        if in_time < steps:
            steps, why = (
                in_time,
                f"a step takes {max(times):.2g} s at the slowest site, and round-timeout is twice a slot",
            )
    if config.budget:
        paid = int(config.budget / (_LEAST_ROUNDS * slots * max(count for count, _ in costs)))
        if paid < steps:
            steps, why = paid, f"the budget then pays for {_LEAST_ROUNDS} rounds"
    return [Advice("local-steps", max(1, steps), why)]
