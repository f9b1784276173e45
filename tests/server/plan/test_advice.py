"""Which K, M and b to take."""

from __future__ import annotations

from typing import Any

import numpy as np

from zofedht.common.config.run_config import RunConfig
from zofedht.server.plan.advice import advised
from zofedht.server.plan.measure import SiteReading


def sites(slopes: list[list[float]], **changes: Any) -> list[SiteReading]:
    of = {"samples": 100, "seconds": 1e-4} | changes
    return [SiteReading(str(index), slopes=np.array(row), **of) for index, row in enumerate(slopes)]


def values(config: RunConfig, found: list[SiteReading]) -> dict[str, int]:
    return {advice.key: advice.value for advice in advised(config, found)}


CONFIG = RunConfig(objective="a:b", num_clients=10, clients_per_round=3, local_steps=20)
ALIKE = [[1.0, -2.0]] * 10


def test_alike_sites_change_nothing():
    assert values(CONFIG, sites(ALIKE)) == {"clients-per-round": 3, "local-steps": 20}


def test_different_sites_need_more_slots():
    rng = np.random.default_rng(0)
    some = [[1.0 + 0.9 * rng.standard_normal(), -2.0] for _ in range(10)]
    many = [[10.0 * rng.standard_normal(), 10.0 * rng.standard_normal()] for _ in range(10)]
    assert values(CONFIG, sites(some))["clients-per-round"] == 3
    assert values(CONFIG, sites(many))["clients-per-round"] == 10


def test_scattered_batches_need_to_be_larger():
    calm = values(CONFIG, sites(ALIKE, batch_spread=1.0))
    wild = values(CONFIG, sites(ALIKE, batch_spread=50.0))
    assert (calm["batch-size"], wild["batch-size"]) == (64, 100)  # never more than a shard


def test_a_slot_fits_into_the_timeout():
    slow = values(CONFIG, sites(ALIKE, samples=1, seconds=10.0))
    assert slow["local-steps"] * 2 * 10.0 <= 150.0
    assert slow["local-steps"] == 7


def test_a_budget_pays_for_30_rounds():
    config = RunConfig(objective="a:b", num_clients=10, clients_per_round=3, local_steps=50, rounds=0, budget=3600)
    assert values(config, sites(ALIKE, samples=1))["local-steps"] == 3600 // (30 * 3 * 2)


def test_a_search_by_points_has_none_of_these():
    assert advised(RunConfig(objective="a:b", algorithm="cma-es", num_clients=10), sites(ALIKE)) == []
