"""What the server learns for the cone and the diagonal, in one formula and in runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.helpers import quadratics, small
from zofedht.common.config.run_config import RunConfig
from zofedht.common.errors import ConfigError
from zofedht.common.typing import Vector
from zofedht.server.core.guide import guide_of, learn
from zofedht.server.core.state import ServerState
from zofedht.server.inprocess import run_in_process

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
