"""What a run will take, against what it took."""

from __future__ import annotations

from typing import Any

import pytest

from tests.helpers import quadratics, searches, small
from zofedht.server.inprocess import run_in_process
from zofedht.server.plan.estimate import estimated
from zofedht.server.plan.measure import SiteReading

SITES = [SiteReading(str(index), 6 + index, seconds=1e-3 * (index + 1)) for index in range(4)]


@pytest.mark.parametrize(
    "keys",
    [
        {},
        {"algorithm": "zofedavg-sgd"},
        {"uplink": "slopes", "directions": "shared"},
        {"wire_dtype": "float32", "memory": 3},
        {"local_steps": 7, "slopes_per_step": 3, "slope": "forward"},
    ],
)
def test_evaluations_and_bytes_are_those_of_the_run(keys: dict[str, Any]):
    config = small(rounds=60, step_size=0.01, **keys)
    told = estimated(config, 12, SITES)
    run = run_in_process(config, quadratics()).state.totals
    assert told.rounds == 60
    assert told.evaluations == pytest.approx(run.evaluations, rel=0.02)
    assert told.bytes_up == pytest.approx(run.bytes_up, rel=0.1)
    assert told.bytes_down == pytest.approx(run.bytes_down, rel=0.1)
    assert run.full_evaluations <= told.full_evaluations <= 1.2 * run.full_evaluations


def test_rows_of_your_own_objective_are_planned_as_they_run():
    """zofed-shrink takes one central slope a step there, not nine forward ones."""
    own = small(algorithm="zofed-shrink", objective="valve:make", uplink="slopes", rounds=60, step_size=0.01)
    named = own.replace(objective="", slope="central", slopes_per_step=1, evaluate_every=own.evaluate_every)
    assert estimated(own, 12, SITES).bytes_up == pytest.approx(estimated(named, 12, SITES).bytes_up, rel=0.02)


@pytest.mark.parametrize("algorithm", ["cma-es", "lbfgs", "auto"])
def test_a_search_has_an_estimate_too(algorithm: str):
    config = searches(algorithm=algorithm, budget=20_000, batch_size=0, rounds="default")
    told = estimated(config, 12, SITES)
    run = run_in_process(config, quadratics()).state.totals
    assert run.evaluations <= 1.05 * told.evaluations  # a descent may end before its budget
    assert told.evaluations == pytest.approx(20_000, rel=0.1)
    assert told.bytes_up / told.evaluations == pytest.approx(run.bytes_up / run.evaluations, rel=0.5)
    assert told.bytes_down / told.evaluations == pytest.approx(run.bytes_down / run.evaluations, rel=0.5)


def test_auto_is_planned_as_what_it_will_find():
    config = searches(algorithm="auto", budget=20_000, batch_size=0, rounds="default")
    noisy = [SiteReading(site.name, site.samples, site.seconds, noise=0.1) for site in SITES]
    recipe = estimated(config.replace(algorithm="cma-es"), 12, SITES)
    assert estimated(config, 12, noisy) == recipe
    assert estimated(config, 12, SITES, discrete=True) == recipe
    assert estimated(config, 12, SITES) != recipe


def test_a_budget_gives_the_rounds():
    config = small(rounds=0, budget=5000, step_size=0.01)
    told = estimated(config, 12, SITES)
    assert told.rounds == run_in_process(config, quadratics()).state.round


def test_the_slowest_site_sets_the_time():
    slow = [*SITES[:3], SiteReading("3", 9, seconds=1.0)]
    assert estimated(small(), 12, slow).slot_seconds == pytest.approx(250 * estimated(small(), 12, SITES).slot_seconds)
    told = estimated(small(), 12, slow)
    assert told.slot_seconds < told.seconds <= told.work
