"""Runs along the candidates of a pool: S sums tell x, and no x leaves their span."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.helpers import Fleet, quadratics, small
from zofedht.common.config.run_config import RunConfig
from zofedht.common.errors import ConfigError
from zofedht.common.models.quadratic import QuadraticObjective
from zofedht.server.core.coordinator import Coordinator
from zofedht.server.core.state import ServerState, initial_state
from zofedht.server.inprocess import run_in_process
from zofedht.server.rows.pool import x_of

ROWS = ("fedkseed", "fedkseed-pro")


def config(algorithm: str = "fedkseed", **keys: Any) -> RunConfig:
    return small(**({"algorithm": algorithm, "pool_size": 5} | keys))


def ended(one: RunConfig) -> ServerState:
    return run_in_process(one, quadratics()).state


@pytest.mark.parametrize("name", ROWS)
def test_the_sums_lead_to_x(name: str) -> None:
    one = config(name)
    state = ended(one)
    assert state.pool is not None
    assert x_of(state.pool, one, None).tobytes() == state.x.tobytes()
    assert np.all(state.pool.origin == 0.0)
    assert np.linalg.norm(state.x) > 0.1


@pytest.mark.parametrize("name", ROWS)
def test_clients_follow_by_sums_bit_for_bit(name: str) -> None:
    by_x = ended(config(name, downlink="x"))
    assert by_x.x.tobytes() == ended(config(name)).x.tobytes()


def test_x_stays_in_the_span_of_its_pool() -> None:
    moves = np.stack([ended(config(rounds=rounds, pool_size=3)).x for rounds in range(1, 8)])
    assert np.linalg.matrix_rank(moves, tol=1e-9) == 3


@pytest.mark.parametrize(("size", "reaches"), [(24, True), (6, False)])
def test_a_pool_of_n_directions_reaches_the_optimum(size: int, reaches: bool) -> None:
    """One client with its whole shard: twelve parameters, and the optimum is the mean row."""
    objective = quadratics(1)[0]
    assert isinstance(objective, QuadraticObjective)
    keys = {"num_clients": 1, "clients_per_round": 1, "batch_size": 0, "rounds": 400, "step_schedule": "constant"}
    one = config(pool_size=size, **keys)
    gap = np.linalg.norm(run_in_process(one, [objective]).state.x - objective.centres.mean(axis=0))
    assert (gap < 1e-3) == reaches


def test_the_mean_of_moves_is_the_change_of_the_sums() -> None:
    """Slopes up and moves up: the latter go into the origin, and x is the same up to rounding."""
    by_moves = ended(config(uplink="move", downlink="x"))
    np.testing.assert_allclose(by_moves.x, ended(config()).x, rtol=1e-9)
    assert by_moves.pool is not None
    assert np.all(by_moves.pool.sums == 0.0)


def test_a_client_that_lost_its_origin_is_sent_it_again() -> None:
    one, fleet = config(clients_per_round=4, sampling="without-replacement"), Fleet(quadratics(dimension=200))
    coordinator = Coordinator(one, initial_state(one, np.zeros(200)))
    for round_ in range(3):
        fleet.sent.clear()
        if round_ == 2:
            fleet.forget("1")
        fleet.round(coordinator)
        with_x = [sent.client for sent in fleet.sent if sent.x.size]
        assert sorted(with_x) == [["0", "1", "2", "3"], [], ["1"]][round_]
    assert coordinator.state.round == 3


def test_a_round_costs_sums_down_and_slopes_up() -> None:
    """n is 2000; S is 5, and K is 4."""
    one = config(rounds=2, num_clients=1, clients_per_round=1)
    totals = run_in_process(one, quadratics(1, dimension=2000)).state.totals
    assert 16_000 < totals.bytes_down < 16_000 + 6_000
    assert totals.bytes_up < 2_000


def test_a_round_costs_less_than_the_published_18_kilobytes() -> None:
    """The title of Qin et al. 2024, with their K = 200 and S = 1024: the second round, both ways together."""
    keys = {"pool_size": 1024, "local_steps": 200, "num_clients": 1, "clients_per_round": 1}
    first, both = (
        run_in_process(config(rounds=rounds, **keys), quadratics(1, dimension=3000)).state.totals for rounds in (1, 2)
    )
    assert both.bytes_down + both.bytes_up - first.bytes_down - first.bytes_up < 18_000


def test_only_the_plain_mean_can_be_summed() -> None:
    with pytest.raises(ConfigError, match="server-step must be mean, with server-rate = 1, with fedkseed"):
        config(server_step="adam")
    with pytest.raises(ConfigError, match="uplink must be slopes with fedkseed-pro"):
        config("fedkseed-pro", uplink="move")
