"""ask and tell: when the basis is made anew, what is sent, and that a failed round is not a move."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.helpers import reply, small
from zofedht.common.config.run_config import RunConfig
from zofedht.common.errors import ConfigError
from zofedht.common.shards import members_of
from zofedht.common.wire.arrays import basis_digest
from zofedht.common.wire.messages import NO_BASIS
from zofedht.server.core.ask import ask
from zofedht.server.core.state import ServerState, initial_state, initial_vector
from zofedht.server.core.tell import tell

DIMENSION = 6
MEMBERS = members_of(small())


def play(config: RunConfig, state: ServerState, moves: Sequence[Sequence[float]]) -> list[ServerState]:
    """Tell one round after another in which every slot moves alike; return all states."""
    states = [state]
    for move in moves:
        asked = {b.slot: b for b in ask(states[-1], config, MEMBERS)}
        following, _ = tell(states[-1], [reply(b, move) for b in asked.values()], asked, config)
        assert following is not None
        states.append(following)
    return states


def start(config: RunConfig) -> ServerState:
    return initial_state(config, np.zeros(DIMENSION))


def random_moves(count: int) -> list[list[float]]:
    return np.random.default_rng(2).standard_normal((count, DIMENSION)).tolist()


@pytest.mark.parametrize("memory", [1, 2, 3, 5])
def test_the_basis_is_renewed_every_tau_rounds(memory: int):
    config = small(memory=memory, rounds=20)
    states = play(config, start(config), random_moves(11))
    versions = [state.basis_version for state in states]
    assert versions == [NO_BASIS if r < memory else r - r % memory for r in range(12)]


def test_the_basis_spans_the_last_tau_moves():
    moves = random_moves(4)
    state = play(small(memory=2), start(small()), moves)[-1]
    newest, _ = np.linalg.qr(np.array(moves[2:]).T)
    np.testing.assert_allclose(state.basis @ state.basis.T, newest @ newest.T, atol=1e-12)


def test_the_window_holds_the_last_tau_moves_newest_last():
    moves = random_moves(5)
    state = play(small(memory=3), start(small(memory=3)), moves)[-1]
    np.testing.assert_allclose(state.trajectory, moves[2:], rtol=1e-15)


def test_x_moves_by_the_mean():
    state = play(small(), start(small()), [[1.0] * 6, [2.0] * 6])[-1]
    np.testing.assert_array_equal(state.x, np.full(6, 3.0))


def test_before_the_first_refresh_directions_are_isotropic():
    config = small(memory=3)
    for state in play(config, start(config), random_moves(2)):
        sent = {
            (b.spec.subspace_weight, b.spec.subspace_gain, b.basis_version, b.basis_rank)
            for b in ask(state, config, MEMBERS)
        }
        assert sent == {(0, 1, NO_BASIS, 0)}


@pytest.mark.parametrize(("covariance", "gain"), [("trace", 6.0), ("paper", 1.0)])
def test_the_gain_uses_the_rank_and_not_the_memory(covariance: str, gain: float):
    config = small(memory=2, covariance=covariance)
    state = play(config, start(config), [[1.0, 0, 0, 0, 0, 0], [-2.0, 0, 0, 0, 0, 0]])[-1]  # one line, two moves
    (slot, *_) = ask(state, config, MEMBERS)
    assert (slot.basis_rank, slot.spec.subspace_gain) == (1, gain)  # n/tau' = 6/1
    assert slot.spec.subspace_weight == config.subspace_weight


def test_a_trajectory_without_direction_leaves_directions_isotropic():
    config = small(memory=2)
    state = play(config, start(config), [[0.0] * 6, [0.0] * 6])[-1]
    assert state.rank == 0
    assert {(b.spec.subspace_weight, b.basis_version) for b in ask(state, config, MEMBERS)} == {(0.0, NO_BASIS)}


def test_ask_names_version_and_digest_and_ships_no_basis():
    config = small(memory=2)
    state = play(config, start(config), random_moves(3))[-1]
    for slot in ask(state, config, MEMBERS):
        assert (slot.basis_version, slot.basis_digest, slot.basis) == (2, basis_digest(state.basis), None)


@pytest.mark.parametrize("algorithm", ["zofedavg-sgd", "zofedavg-gd"])
def test_isotropic_algorithms_keep_no_trajectory(algorithm: str):
    config = small(algorithm=algorithm)
    state = play(config, start(config), random_moves(4))[-1]
    assert (state.trajectory, state.basis, state.basis_version) == ((), None, NO_BASIS)


def test_gd_asks_for_the_whole_shard():
    config = small(algorithm="zofedavg-gd", batch_size=64)
    assert {slot.spec.batch_size for slot in ask(start(config), config, MEMBERS)} == {0}


def test_step_sizes_fall_with_the_root_of_the_round():
    config = small(step_size=0.3, step_schedule="inverse-sqrt")
    sizes = [ask(replace(start(config), round=r), config, MEMBERS)[0].spec.step_size for r in (0, 3, 8)]
    np.testing.assert_allclose(sizes, [0.3, 0.15, 0.1], rtol=1e-15)


def test_a_linear_step_falls_with_the_budget():
    config = small(step_schedule="linear", step_size=0.5, rounds=0, budget=120)
    states = play(config, start(config), random_moves(3))
    assert [state.totals.evaluations for state in states] == [0, 24, 48, 72]  # 3 replies of 8
    sizes = [ask(state, config, MEMBERS)[0].spec.step_size for state in states]
    np.testing.assert_allclose(sizes, 0.5 * np.array([120, 96, 72, 48]) / 120, rtol=1e-15)


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param({"move": np.full(DIMENSION, np.nan)}, id="NaN"),
        pytest.param({"status": "failed", "reason": "broken", "move": None}, id="failed"),
        pytest.param({"round": 99}, id="stale"),
    ],
)
def test_too_few_replies_make_no_move(spoil: dict[str, Any]):
    config = small(min_replies=3)
    state = play(config, start(config), random_moves(3))[-1]
    kept = replace(state)
    asked = {b.slot: b for b in ask(state, config, MEMBERS)}
    good, other, bad = asked.values()
    following, outcome = tell(
        state, [reply(good, [1.0] * 6), reply(other, [1.0] * 6), reply(bad, **spoil)], asked, config
    )
    assert following is None
    assert outcome.usable == 2
    assert [failure.slot for failure in outcome.failures] == [bad.slot]
    assert all(getattr(state, name) is getattr(kept, name) for name in ("x", "trajectory", "basis", "round", "totals"))


def test_moves_whose_mean_overflows_are_not_a_move():
    config = small()
    asked = {b.slot: b for b in ask(start(config), config, MEMBERS)}
    following, outcome = tell(start(config), [reply(b, [1.7e308] * 6) for b in asked.values()], asked, config)
    assert following is None
    assert "overflows; lower step-size" in outcome.failures[0].reason


def test_evaluations_of_the_usable_replies_are_counted():
    config = small()
    asked = {b.slot: b for b in ask(start(config), config, MEMBERS)}
    following, _ = tell(start(config), [reply(b, [1.0] * 6) for b in asked.values()], asked, config)
    assert following is not None
    assert following.totals.evaluations == 3 * 8


def test_start_loss_is_the_mean_of_slots():
    config = small()
    asked = {b.slot: b for b in ask(start(config), config, MEMBERS)}
    first, second, third = asked.values()
    replies = [reply(first, [1.0] * 6, start_loss=0.25), reply(second, [1.0] * 6, start_loss=0.5)]
    lost = reply(third, None, status="failed", reason="broken", start_loss=9.0)
    _, outcome = tell(start(config), [*replies, lost], asked, config)
    assert (outcome.usable, outcome.start_loss) == (2, 0.375)
    _, outcome = tell(start(config), [lost], asked, config)
    assert np.isnan(outcome.start_loss)


def test_a_trajectory_longer_than_x_is_refused():
    with pytest.raises(ConfigError, match="memory must be at most n = 6, the number of parameters, got 7"):
        start(small(memory=7))


def test_x_starts_where_init_says():
    own = np.full(4, 7.0)
    np.testing.assert_array_equal(initial_vector(small(init="auto"), 4, own), own)
    np.testing.assert_array_equal(initial_vector(small(init="auto"), 4, None), np.zeros(4))
    np.testing.assert_array_equal(initial_vector(small(init="zeros"), 4, own), np.zeros(4))
    np.testing.assert_array_equal(initial_vector(small(init="ones"), 4, own), np.ones(4))


def test_a_random_start_has_length_near_one():
    x = initial_vector(small(init="random"), 10_000, None)
    np.testing.assert_array_equal(x, initial_vector(small(init="random"), 10_000, None))
    assert not np.array_equal(x, initial_vector(small(init="random", seed=12), 10_000, None))
    # |x|^2 ~ chi-square(n)/n: mean 1, standard error sqrt(2/n); five of them.
    assert abs(float(x @ x) - 1.0) < 5 * np.sqrt(2 / 10_000)
