"""Server steps: what the mean of the moves becomes, in one formula and in whole runs."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers import quadratics, small
from zofedht.common.choices import SERVER_STEPS
from zofedht.common.config.run_config import RunConfig
from zofedht.common.errors import ConfigError
from zofedht.common.objective.base import Objective
from zofedht.common.typing import Vector
from zofedht.server.core.state import ServerState
from zofedht.server.inprocess import run_in_process
from zofedht.server.records.run_folder import RunFolder
from zofedht.server.rows.server_step import Moments, server_step

MOVES = np.random.default_rng(3).standard_normal((6, 9)) * np.logspace(-3, 3, 9)
WITH_MEMORY = ["momentum", "adam", "yogi", "adagrad", "refined-adam"]


def steps(moves: Any = MOVES, **keys: Any) -> tuple[list[Vector], Moments]:
    config, moments, taken = small(**keys), Moments(), []
    for move in moves:
        step, moments = server_step(move, moments, config)
        taken.append(step)
    return taken, moments


def state(**keys: Any) -> ServerState:
    return run_in_process(small(**keys), quadratics()).state


def test_the_plain_mean_is_the_mean_move() -> None:
    taken, moments = steps()
    assert [step.tobytes() for step in taken] == [move.tobytes() for move in MOVES]
    assert moments == Moments()
    np.testing.assert_array_equal(steps(server_rate=0.5)[0], 0.5 * MOVES)


def test_momentum_0_is_the_mean_bit_for_bit() -> None:
    assert state(server_step="momentum", server_momentum=0.0).x.tobytes() == state().x.tobytes()
    assert state(server_step="momentum").x.tobytes() != state().x.tobytes()


def test_momentum_sums_earlier_moves() -> None:
    taken, _ = steps(server_step="momentum", server_momentum=0.5, server_rate=2.0)
    np.testing.assert_allclose(taken[2], 2.0 * (MOVES[2] + 0.5 * MOVES[1] + 0.25 * MOVES[0]), rtol=1e-14)


def test_adam_without_memory_takes_sign_steps() -> None:
    moves = np.vstack([MOVES, np.zeros(9)])
    keys = {"server_momentum": 0.0, "server_decay": 0.0, "server_floor": 0.0, "server_rate": 0.25}
    taken, _ = steps(moves, server_step="adam", **keys)
    np.testing.assert_array_equal(taken, 0.25 * np.sign(moves))


@pytest.mark.parametrize("kind", ["adam", "yogi", "adagrad", "refined-adam"])
def test_adaptive_steps_follow_their_formula(kind: str) -> None:
    """Written once more, for one number at a time."""
    a, b, t, r = 0.8, 0.9, 0.01, 0.3
    keys = {"server_momentum": a, "server_decay": b, "server_floor": t, "server_rate": r}
    taken, _ = steps(server_step=kind, **keys)
    for place in range(MOVES.shape[1]):
        m, v = 0.0, t**2
        for move, step in zip(MOVES[:, place], (step[place] for step in taken), strict=True):
            m = a * m + (1 - a) * move
            if kind == "adam":
                v = b * v + (1 - b) * move**2
            elif kind == "refined-adam":
                v = b * v + (1 - b) * m**2
            elif kind == "adagrad":
                v += move**2
            else:
                v += (1 - b) * move**2 if move**2 > v else -(1 - b) * move**2
            assert step == pytest.approx(r * m / (v**0.5 + t), rel=1e-9)


def test_the_length_of_moves_does_not_matter_to_adaptive_steps() -> None:
    for kind in ("adam", "adagrad"):
        one, other = (steps(scale * MOVES, server_step=kind, server_floor=0.0)[0] for scale in (1.0, 1024.0))
        np.testing.assert_allclose(one, other, rtol=1e-12)


@pytest.mark.parametrize("kind", WITH_MEMORY)
def test_slopes_and_moves_lead_to_the_same_x(kind: str) -> None:
    keys = {"server_step": kind, "directions": "shared"}
    np.testing.assert_allclose(state(**keys, uplink="slopes").x, state(**keys).x, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("kind", WITH_MEMORY)
def test_a_resumed_run_equals_an_uninterrupted_one(kind: str, tmp_path: Path) -> None:
    config = small(server_step=kind, step_schedule="constant", dataset="digits", train_rows=300)
    folder = RunFolder(tmp_path)
    folder.begin(config.replace(rounds=3), "in-process")
    run_in_process(config.replace(rounds=3), folder=folder)
    longer, kept, _ = folder.reopen({"rounds": 7})
    resumed, whole = run_in_process(longer, folder=folder, state=kept).state, run_in_process(config).state
    assert resumed.x.tobytes() == whole.x.tobytes()
    assert resumed.moments.mean is not None
    assert whole.moments.mean is not None
    assert resumed.moments.mean.tobytes() == whole.moments.mean.tobytes()


@pytest.mark.parametrize("kind", WITH_MEMORY)
def test_the_trajectory_holds_what_x_moved(kind: str) -> None:
    states: list[ServerState] = []
    config = small(server_step=kind)
    run_in_process(config, quadratics(), observers=[lambda state, record: states.append(state)])
    for before, after in itertools.pairwise(states):
        np.testing.assert_allclose(after.trajectory[-1], after.x - before.x, rtol=1e-9, atol=1e-14)


@pytest.mark.parametrize("keys", [{"server_step": "adam"}, {"server_rate": 0.5}])
def test_clients_that_follow_by_slopes_refuse_other_steps(keys: dict[str, Any]) -> None:
    down = {"uplink": "slopes", "directions": "shared", "downlink": "slopes"}
    with pytest.raises(ConfigError, match="server-step must be mean, with server-rate = 1, where downlink is slopes"):
        small(**down, **keys)
    with pytest.raises(ConfigError, match="step-size must be a number when server-step"):
        small(step_size="auto", local_steps=9, **keys)


def test_squares_that_overflow_fail_the_round() -> None:
    class Steep(Objective):
        dim = 2

        def value(self, x: Vector, batch: Any) -> float:
            return float(1e170 * x.sum())

    with pytest.raises(Exception, match="overflows"):
        run_in_process(small(server_step="adam", max_retries=0, local_steps=1), [Steep()] * 4)


def test_rates_follow_the_kind_of_step() -> None:
    rates = {kind: RunConfig(server_step=kind).server_rate for kind in SERVER_STEPS}
    assert {kind for kind, rate in rates.items() if rate == 1.0} == {*SERVER_STEPS} - {*WITH_MEMORY[1:]}
    assert {rate for rate in rates.values() if rate != 1.0} == {0.01}
    assert RunConfig.from_mapping({"server-step": "adam", "server-rate": 1}).server_rate == 1.0


def test_a_config_tells_what_was_said() -> None:
    config = RunConfig.from_mapping({"server-step": "adam"})
    assert config.to_mapping()["server-rate"] == "default"
    assert config.replace(server_step="mean").server_rate == 1.0
    assert config.replace(server_rate=0.01) == config
