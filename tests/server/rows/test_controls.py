"""Estimates of clients' gradients: what they learn, what is taken off slopes, and where x goes by them."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from tests.helpers import quadratics, small, states
from zofedht.common.config.run_config import RunConfig
from zofedht.common.errors import ConfigError
from zofedht.common.models.quadratic import QuadraticObjective
from zofedht.common.objective.base import Objective
from zofedht.common.typing import Vector
from zofedht.server.rows.controls import Control, corrections, mean_control

EVERYBODY = {"clients_per_round": 4, "sampling": "without-replacement", "batch_size": 0}


def config(algorithm: str = "zo-scaffold", **keys: Any) -> RunConfig:
    return small(**({"algorithm": algorithm} | keys))


def gradient(objective: Objective, x: Vector) -> Vector:
    return objective.value_and_gradient(x, slice(None))[1]


def test_a_correction_is_the_estimate_less_their_mean() -> None:
    one = config(num_clients=4)
    held = (Control("0", np.array([4.0, 0.0])), Control("2", np.array([0.0, 8.0])))
    np.testing.assert_array_equal(mean_control(held, 4, 2), [1.0, 2.0])
    wanted = {"0": [3.0, -2.0], "1": [-1.0, -2.0], "2": [-1.0, 6.0]}
    for client, correction in wanted.items():
        np.testing.assert_array_equal(corrections(held, one, 2)(client)["control"], correction)
    assert corrections((), one, 2)("0") == {}
    assert corrections(held, config("zofedavg-sgd"), 2)("0") == {}


@pytest.mark.parametrize("uplink", ["move", "slopes"])
def test_estimates_come_to_the_gradients_of_their_clients(uplink: str) -> None:
    """x hardly moves, so each estimate converges: slopes of a quadratic hold no noise beyond the estimate."""
    objectives = quadratics()
    keys = {"rounds": 60, "local_steps": 12, "step_size": 1e-6, "step_schedule": "constant", "uplink": uplink}
    state = states(config(**EVERYBODY, **keys), objectives)[-1]
    assert [control.client for control in state.controls] == ["0", "1", "2", "3"]
    for control, objective in zip(state.controls, objectives, strict=True):
        np.testing.assert_allclose(control.estimate, gradient(objective, state.x), atol=2e-3)


def test_corrected_clients_meet_where_all_gradients_cancel() -> None:
    """Two clients that bend differently: long local ways end between them elsewhere than at the optimum."""
    rng = np.random.default_rng(0)
    curvatures = [np.linspace(0.1, 1.9, 6), np.linspace(1.9, 0.1, 6)]
    centres = [rng.standard_normal((1, 6)) * 3.0 for _ in curvatures]
    clients: list[Objective] = [
        QuadraticObjective(centre, bent) for centre, bent in zip(centres, curvatures, strict=True)
    ]
    optimum = sum(b * c[0] for b, c in zip(curvatures, centres, strict=True)) / sum(curvatures)
    keys = {"num_clients": 2, "clients_per_round": 2, "sampling": "without-replacement", "batch_size": 0}
    keys |= {"rounds": 300, "local_steps": 60, "step_size": 0.05, "step_schedule": "constant"}
    apart = {
        name: np.linalg.norm(states(config(name, **keys), clients)[-1].x - optimum)
        for name in ("zofedavg-sgd", "zo-scaffold")
    }
    assert apart["zo-scaffold"] < 1e-2
    assert apart["zofedavg-sgd"] > 0.3


def test_corrections_cancel_along_shared_directions() -> None:
    """One step, all clients: the mean of the corrected slopes is that of the slopes."""
    keys = {"local_steps": 1, "directions": "shared", "uplink": "slopes", **EVERYBODY}
    plain, corrected = (states(config(name, **keys))[-1].x for name in ("zofedavg-sgd", "zo-scaffold"))
    np.testing.assert_allclose(corrected, plain, rtol=1e-9, atol=1e-12)


def test_tracking_moves_along_the_mean_momentum() -> None:
    """Written once more: h_i <- b h_i + (1-b) g_i, and the mean over the clients that were seen."""
    one = config("zo-mgt", server_momentum=0.75, uplink="slopes")
    seen = states(one)
    for before, after in itertools.pairwise(seen):
        step = one.step(before.round, before.totals.evaluations)
        move = -step * one.local_steps * np.mean([control.estimate for control in after.controls], axis=0)
        np.testing.assert_allclose(after.x - before.x, move, rtol=1e-9, atol=1e-14)
    first = {control.client: control.estimate for control in seen[0].controls}
    for control in seen[1].controls:
        assert control.client in first or np.any(control.estimate)


def test_tracking_of_one_client_is_momentum() -> None:
    keys = {"num_clients": 1, "clients_per_round": 1, "server_momentum": 0.5, "step_schedule": "constant"}
    tracked = states(config("zo-mgt", **keys))[-1].x
    smoothed = states(config("zo-mgt", **keys, server_step="momentum", server_rate=0.5))[-1].x
    np.testing.assert_allclose(tracked, smoothed, rtol=1e-9)


@pytest.mark.parametrize("keys", [{"algorithm": "zo-scaffold"}, {"algorithm": "zo-mgt"}])
def test_moves_of_single_clients_must_be_known(keys: dict[str, Any]) -> None:
    private = {"privacy": "local", "uplink": "slopes", "sampling": "without-replacement"}
    with pytest.raises(ConfigError, match="privacy must be none where the server learns from the moves of each client"):
        small(**keys, **private)
    with pytest.raises(ConfigError, match="aggregation must be mean where the server learns"):
        small(**keys, aggregation="median")
    with pytest.raises(ConfigError, match="step-size must be a number when correction is control"):
        small(algorithm="zo-scaffold", step_size="auto")
