"""fzoos: what clients see, what the server keeps and tells of it, and where the steps lead."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.common.samples import BlackBox
from tests.helpers import Fleet, quadratics, small
from zofedht.client.steps.worker import Worker
from zofedht.common.config.run_config import RunConfig
from zofedht.common.errors import ConfigError, RoundError
from zofedht.common.models.quadratic import QuadraticObjective
from zofedht.common.surrogate import feature_weights
from zofedht.common.typing import Matrix
from zofedht.common.wire.messages import Broadcast, Update
from zofedht.server.core.coordinator import Coordinator
from zofedht.server.core.state import initial_state
from zofedht.server.inprocess import run_in_process
from zofedht.server.rows.surrogates import Seen, learnt_surrogates, of_each

OBJECTIVES = quadratics()
N = OBJECTIVES[0].dim
ALL = slice(None)


def config(**keys: Any) -> RunConfig:
    return small(**({"algorithm": "fzoos", "local_steps": 3, "memory": 60, "step_size": 0.02} | keys))


def one_slot(one: RunConfig, **fields: Any) -> tuple[Broadcast, Update]:
    """The first slot of a run, with other fields of its broadcast."""
    run = Coordinator(one, initial_state(one, np.zeros(N)))
    asked = replace(run.ask(Fleet(OBJECTIVES).members)[0], **fields)
    return asked, Worker(lambda broadcast: OBJECTIVES[int(broadcast.client)]).work(asked)


def rows(client: int, count: int = 40) -> Matrix:
    points = np.random.default_rng(client).uniform(-0.05, 0.05, (count, N))
    return np.column_stack([points, [OBJECTIVES[client].value(point, ALL) for point in points]])


def test_a_slot_tells_f_where_it_asked() -> None:
    asked, update = one_slot(config())
    assert update.queries is not None
    assert update.queries.shape == (asked.spec.queries, N + 1) == (51 + 3 + 2 * 5, N + 1)
    np.testing.assert_array_equal(update.queries[0, :-1], asked.x)
    client = OBJECTIVES[int(asked.client)]
    assert [client.value(row[:-1], ALL) for row in update.queries] == list(update.queries[:, -1])
    assert update.evaluations == len(client) * len(update.queries)


def test_what_others_know_leads_where_they_go() -> None:
    """One Adam step goes along signs: with the features of another client less its own, along those of the other."""
    one = config(local_steps=1)
    asked, _ = one_slot(one)
    own, other = int(asked.client), (int(asked.client) + 1) % 4
    told = [feature_weights(rows(i)[:, :-1], rows(i)[:, -1], one.radius, one.seed) for i in (own, other)]
    for surplus, leader in ((told[1] - told[0], other), (0.0 * told[0], own)):
        _, update = one_slot(one, queries=rows(own), surplus=surplus)
        gradient = OBJECTIVES[leader].value_and_gradient(np.zeros(N), ALL)[1]
        clear = np.abs(gradient) > 0.1 * np.max(np.abs(gradient))
        assert update.move is not None
        np.testing.assert_allclose(update.move[clear], -asked.spec.step_size * np.sign(gradient[clear]), rtol=1e-4)


def test_a_correction_fades_with_the_steps() -> None:
    """Adam's steps by d, d/2 and d/3 with the same d: 1, .932 and .873 of eta, while a constant d makes three."""
    one, points = config(), np.random.default_rng(0).uniform(-0.3, 0.3, (300, N))
    steep = feature_weights(points, 1e6 * points.sum(axis=1), one.radius, one.seed)
    asked, update = one_slot(one, queries=rows(0), surplus=steep)
    assert update.move is not None
    assert -np.median(update.move) / asked.spec.step_size == pytest.approx(2.805, abs=0.03)


def test_equal_clients_correct_nothing() -> None:
    weights = np.arange(4.0)
    sent = of_each([Seen(str(i), rows(0), weights) for i in range(4)])
    assert not np.any(sent("2")["surplus"])
    sent = of_each([Seen("0", rows(0), weights), Seen("1", rows(1), weights + 2.0)])
    np.testing.assert_array_equal(sent("1")["surplus"], -1.0)
    np.testing.assert_array_equal(sent("1")["queries"], rows(1))
    assert sent("2") == of_each(())("0") == {}


def test_the_newest_queries_are_kept() -> None:
    one = config()
    asked, update = one_slot(one)
    held = learnt_surrogates((), [update], {asked.slot: asked}, one)
    assert update.queries is not None
    np.testing.assert_array_equal(held[0].queries, update.queries[-60:])
    again = learnt_surrogates(held, [replace(update, queries=update.queries[:25])], {asked.slot: asked}, one)
    np.testing.assert_array_equal(again[0].queries, np.vstack([update.queries[-35:], update.queries[:25]]))
    far = update.queries.copy()
    far[-2:, -1] = 1.7e308, -1.7e308
    wild = learnt_surrogates(held, [replace(update, queries=far)], {asked.slot: asked}, one)
    assert wild[0].queries.tobytes() == held[0].queries.tobytes()


def test_more_is_seen_with_surrogates_than_with_slopes() -> None:
    """60 parameters, five clients, evaluations alike: what is left above the optimum, plain steps at their best."""
    rng = np.random.default_rng(0)
    clients = [QuadraticObjective(rng.normal(0, 0.3, (6, 60)), np.linspace(0.5, 1.5, 60)) for _ in range(5)]
    best = np.mean([client.centres.mean(axis=0) for client in clients], axis=0)

    def excess(**keys: Any) -> float:
        plain = {"num_clients": 5, "clients_per_round": 5, "sampling": "without-replacement", "evaluate_every": 0}
        x = run_in_process(RunConfig(**plain | keys), clients).state.x
        return float(np.mean([client.value(x, ALL) - client.value(best, ALL) for client in clients]))

    ours = excess(algorithm="fzoos", rounds=6, local_steps=5, memory=100, step_size=0.05)  # 76 queries a slot
    others = [excess(algorithm="zofedavg-gd", rounds=6, local_steps=38, step_size=eta) for eta in (0.003, 0.01, 0.02)]
    assert ours < 0.8 * min(others)


def test_a_query_that_fails_loses_its_slot() -> None:
    class Broken(BlackBox):
        def value(self, x: Any, batch: Any) -> float:
            return super().value(x, batch) if not np.any(x) else float("inf")

    with pytest.raises(RoundError, match="not a finite number"):
        run_in_process(config(max_retries=0), [Broken(inner) for inner in OBJECTIVES])


def test_what_cannot_work_is_refused() -> None:
    for keys, text in (
        ({"algorithm": "zofedht", "slope": "surrogate"}, "slope must be surrogate with fzoos and with no"),
        ({"slope": "central"}, "slope must be surrogate with fzoos"),
        ({"uplink": "slopes"}, "uplink must be move with fzoos"),
        ({"privacy": "central", "uplink": "slopes"}, "privacy must be none with fzoos"),
        ({"aggregation": "median"}, "aggregation must be mean with fzoos"),
        ({"server_step": "tracking"}, "server-step must not be tracking with fzoos"),
        ({"step_size": "auto"}, "step-size must be a number with fzoos"),
    ):
        with pytest.raises(ConfigError, match=text):
            config(**keys)
    with pytest.raises(ConfigError, match="fzoos is for at most 300"):
        run_in_process(config(num_clients=1, clients_per_round=1), [QuadraticObjective(np.zeros((2, 301)))])
