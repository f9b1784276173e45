"""What the server learns for the cone and the diagonal, in one formula and in runs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.helpers import broadcast, quadratics, reply, small
from zofedht.common.config.run_config import RunConfig
from zofedht.common.errors import ConfigError
from zofedht.common.models.quadratic import QuadraticObjective
from zofedht.common.typing import Vector
from zofedht.server.core.guide import guide_of, learn, mean_diagonal
from zofedht.server.core.state import ServerState
from zofedht.server.inprocess import run_in_process
from zofedht.server.rows.second_order import directions_of

MOVE = np.array([0.3, -0.4, 0.0])


def config(algorithm: str, **keys: Any) -> RunConfig:
    return small(algorithm=algorithm, **keys)


def learnt(one: RunConfig, moves: list[Vector], step_size: float = 0.5) -> Vector:
    held = None
    for move in moves:
        held = learn(held, move, one.step_spec(step_size=step_size), one)
    assert held is not None
    return held


def test_the_cone_smooths_moves_step_by_step() -> None:
    """K steps in one move forget as much as K moves of one step."""
    one, two = config("conmezo", guide_decay=0.5, local_steps=1), config("conmezo", guide_decay=0.5, local_steps=2)
    np.testing.assert_allclose(learnt(one, [MOVE, -2 * MOVE]), 0.25 * MOVE - MOVE)
    np.testing.assert_allclose(learnt(two, [MOVE, -2 * MOVE]), 0.25 * 0.75 * MOVE - 2 * 0.75 * MOVE)
    guide = guide_of(MOVE, one)
    assert guide is not None
    np.testing.assert_allclose(guide[:, 0], [0.6, -0.8, 0.0])
    assert guide_of(np.zeros(3), one) is None
    tiny = guide_of(1e-200 * MOVE, one)
    assert tiny is not None
    np.testing.assert_allclose(tiny, guide)


def test_the_diagonal_smooths_squares_of_mean_slopes() -> None:
    one = config("hiso", guide_decay=0.75, guide_floor=0.8, local_steps=2, slopes_per_step=2)
    held = learnt(one, [MOVE])
    np.testing.assert_allclose(held, 0.75 + 0.25 * (MOVE / (0.5 * 4)) ** 2)
    guide = guide_of(held, one)
    assert guide is not None
    np.testing.assert_allclose(guide[:, 0], np.maximum(held, 0.8))


def test_what_overflows_is_not_learnt() -> None:
    one = config("hiso")
    before = learnt(one, [MOVE])
    after = learn(before, np.full(3, 1e200), one.step_spec(step_size=0.5), one)
    assert after is before


@pytest.mark.parametrize("algorithm", ["conmezo", "hiso", "sges"])
def test_the_first_round_is_isotropic(algorithm: str) -> None:
    states: list[ServerState] = []
    run_in_process(config(algorithm), quadratics(), observers=[lambda state, record: states.append(state)])
    assert [state.basis_version for state in states] == [1, 2, 3, 4, 5, 6, 7]
    plain = config(algorithm).settled() | {"algorithm": "zofedavg-sgd", "rounds": 1, "step-schedule": "constant"}
    first = run_in_process(config(algorithm, rounds=1, step_schedule="constant"), quadratics()).state.x
    assert first.tobytes() == run_in_process(RunConfig.from_mapping(plain), quadratics()).state.x.tobytes()


def test_a_cone_of_a_right_angle_is_the_isotropic_row() -> None:
    plain = run_in_process(config("zofedavg-sgd"), quadratics()).state.x
    wide = run_in_process(config("conmezo", cone_angle=np.pi / 2, radius=1e-4), quadratics()).state.x
    np.testing.assert_allclose(wide, plain, rtol=1e-9, atol=1e-12)


def test_a_diagonal_that_learns_nothing_is_the_isotropic_row() -> None:
    keys = {"slope": "forward", "slopes_per_step": 10, "uplink": "slopes", "directions": "shared"}
    plain = run_in_process(config("zofedavg-sgd", **keys), quadratics()).state.x
    flat = run_in_process(config("hiso", guide_floor=1e30, radius=1e-4), quadratics()).state
    assert flat.basis is not None
    assert np.all(flat.basis == 1e30)
    held = config("hiso", guide_decay=0.9999, guide_floor=1e-3, radius=1e-4)
    np.testing.assert_allclose(run_in_process(held, quadratics()).state.x, plain, rtol=0.01)


def test_either_takes_a_weight_as_a_number() -> None:
    with pytest.raises(ConfigError, match="subspace-weight must be a number with sges, got 'auto'"):
        config("sges", subspace_weight="auto")


@pytest.mark.parametrize("sizes", [False, True])
def test_curvatures_tell_the_diagonal_of_the_hessian(sizes: bool) -> None:
    """Five standard errors: for normal u the mean is H_ii, and of sizes H_ii + h_i tr(H/h) / 2, here for h != 1."""
    bent, h = np.array([0.5, 1.0, 4.0]), np.array([[2.0], [0.5], [1.0]])
    asked = broadcast(law="diagonal", local_steps=40_000, slope="three-point", basis_version=3, basis_digest="-")
    v = np.concatenate(list(directions_of(asked, h)))
    told = reply(asked, curvatures=(v * v) @ bent)
    found = mean_diagonal([told], {0: asked}, h, sizes=sizes)
    assert found is not None
    wanted = bent + 0.5 * h[:, 0] * np.sum(bent / h[:, 0]) * sizes
    each = 0.5 * ((v * v) @ bent)[:, None] * (v * v * h[:, 0] - (not sizes)) * h[:, 0]
    assert np.all(np.abs(found - wanted) <= 5.0 * each.std(axis=0) / np.sqrt(len(v)))
    assert mean_diagonal([reply(asked, curvatures=None)], {0: asked}, h, sizes=sizes) is None
    assert mean_diagonal([replace(told, draw_digest="other")], {0: asked}, h, sizes=sizes) is None


@pytest.mark.parametrize("algorithm", ["hizoo", "zoha"])
@pytest.mark.parametrize("uplink", ["move", "slopes"])
def test_a_run_learns_where_its_objective_bends(algorithm: str, uplink: str) -> None:
    """The stiff half of the parameters gets the larger scales."""
    bent = np.repeat([0.1, 10.0], 4)
    clients = [QuadraticObjective(np.random.default_rng(i).standard_normal((5, 8)), bent) for i in range(4)]
    keys = {"rounds": 60, "step_size": 1e-4, "guide_decay": 0.97, "slopes_per_step": 8, "guide_floor": 0.01}
    state = run_in_process(config(algorithm, uplink=uplink, **keys), clients).state
    assert state.basis is not None
    assert state.basis[4:].min() > 1.5 * state.basis[:4].max()
    if algorithm == "zoha":
        np.testing.assert_allclose(state.basis[4:, 0], 10.0, rtol=0.5)


def test_a_mask_keeps_what_moved_farthest_and_then_stays() -> None:
    states: list[ServerState] = []
    keys = {"subset_share": 0.25, "refresh": 3, "rounds": 6}
    run_in_process(config("meerkat", **keys), quadratics(), observers=[lambda state, record: states.append(state)])
    assert [state.basis_version for state in states] == [-1, -1, 3, 3, 3, 3]
    third = states[2]
    assert third.basis is not None
    assert set(np.flatnonzero(third.basis)) == set(np.argsort(-np.abs(third.x))[:3])
    for state in states[3:]:
        assert np.all((state.x - third.x)[third.basis[:, 0] == 0.0] == 0.0)
        assert np.any(state.x != third.x)
