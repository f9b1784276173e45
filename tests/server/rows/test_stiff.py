"""Stiff directions are let go where x is pulled along them, and shrunk along again when it is not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers import killed_and_resumed, small, states
from zofedht.common.config.run_config import RunConfig
from zofedht.common.models.quadratic import QuadraticObjective
from zofedht.common.objective.base import Objective
from zofedht.common.typing import Matrix, Vector
from zofedht.common.wire.messages import NO_BASIS
from zofedht.server.inprocess import run_in_process
from zofedht.server.records.run_folder import RunFolder
from zofedht.server.rows.stiff import StiffDirections, pulled, window

AXES = np.eye(4)[:, :2]
NOISE = np.random.default_rng(2).standard_normal((40, 4))


def after(moves: Matrix, known: StiffDirections | None = None) -> StiffDirections:
    """What is known after rounds of these mean moves."""
    known = known or StiffDirections.of(AXES)
    for move in moves:
        known = pulled(known, move, 0.5, 10)
    return known


def test_noise_lets_nothing_go() -> None:
    assert after(NOISE).shrunk == (True, True)


def test_a_pull_lets_go_of_its_own_direction_alone() -> None:
    known = after(NOISE[:10] + np.array([0.0, 5.0, 50.0, 0.0]))
    assert known.shrunk == (True, False)
    np.testing.assert_array_equal(known.guide, AXES[:, :1])
    # Of fewer than ten rounds nobody knows.
    assert after(NOISE[:9] + np.array([0.0, 5.0, 0.0, 0.0])).shrunk == (True, True)


def test_it_shrinks_again_when_the_pull_is_over() -> None:
    gone = after(NOISE[:10] + np.array([0.0, 5.0, 0.0, 0.0]))
    assert after(NOISE[:9], gone).shrunk == (True, False)
    assert after(NOISE[:10], gone).shrunk == (True, True)


def test_it_does_not_matter_how_long_steps_are() -> None:
    moves = NOISE + np.array([0.0, 1.5, 0.0, 0.0])
    schedule = np.linspace(1.0, 0.05, len(moves))
    steps, same = StiffDirections.of(AXES), StiffDirections.of(AXES)
    seen = []
    for move, step in zip(moves, schedule, strict=True):
        steps, same = pulled(steps, step * move, step, 10), pulled(same, move, 1.0, 10)
        seen.append((steps.shrunk, same.shrunk))
    assert all(one == other for one, other in seen)
    assert len(set(seen)) > 1


def test_a_pull_without_noise_is_clear() -> None:
    assert after(np.tile([0.0, 1e-9, 0.0, 0.0], (10, 1))).shrunk == (True, False)


def test_as_many_rounds_are_compared_as_a_pull_takes_to_be_clear() -> None:
    row = {"algorithm": "zofed-shrink", "clients_per_round": 10}
    assert window(small(**row, local_steps=10, slopes_per_step=9)) == 12  # 100 / .1^2 slopes
    assert window(small(**row, local_steps=10, slopes_per_step=9, directions="shared")) == 112
    assert window(small(**row, local_steps=10, slopes_per_step=9, shrink=0.5)) == 10
    assert window(small(**row, shrink=0.0)) is None
    assert pulled(StiffDirections.of(AXES), NOISE[0], 0.5, None).pulls == ()


class Wrong(QuadraticObjective):
    """Names an axis as stiff along which F is flattest, and its minimum far away."""

    def stiff(self, x: Vector) -> Matrix:
        return np.eye(self.dim)[:1]


BENT = np.array([0.2, *np.ones(11)])


def misled(**changes: Any) -> tuple[RunConfig, list[Objective]]:
    centre = np.full(12, 3.0)
    rng = np.random.default_rng(4)
    keys = {"algorithm": "zofed-shrink", "num_clients": 4, "rounds": 60, "warm_up": 3, "step_size": 0.02}
    config = small(**(keys | {"local_steps": 15, "checkpoint_every": 1} | changes))
    return config, [Wrong(centre + 0.3 * rng.standard_normal((6, 12)), BENT) for _ in range(4)]


def test_a_direction_that_is_named_in_error_costs_little() -> None:
    """Of a way of 3, the end is .15 from where the plain method ends; before it lets go it is a fifth behind."""
    seen, plain = states(*misled()), states(*misled(shrink=1.0))
    assert abs(seen[-1].x[0] - plain[-1].x[0]) < 0.15
    assert seen[23].x[0] < 0.8 * plain[23].x[0]
    versions = [state.basis_version for state in seen]
    shrunk = versions.index(3)
    assert set(versions[:shrunk]) == {NO_BASIS}
    assert NO_BASIS in versions[shrunk:]


@pytest.mark.parametrize("downlink", ["x", "slopes"])
def test_slopes_lead_to_the_same_x(downlink: str) -> None:
    moves, slopes = (
        states(*misled(directions="shared", **keys))[-1].x for keys in ({}, {"uplink": "slopes", "downlink": downlink})
    )
    np.testing.assert_allclose(slopes, moves, rtol=1e-9)


def test_a_resumed_run_equals_an_uninterrupted_one(tmp_path: Path) -> None:
    config, objectives = misled()
    straight = run_in_process(config, objectives).state
    for rounds in (8, 32):  # while pulls are gathered, and after it has let go
        resumed = killed_and_resumed(RunFolder(tmp_path / str(rounds)), config, rounds, objectives).state
        assert resumed.x.tobytes() == straight.x.tobytes()
