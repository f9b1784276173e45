"""The stiff direction of objectives that name none: what is learnt, what it costs, and when nothing is shrunk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers import killed_and_resumed, quadratics, small, states
from zofedht.common.config.run_config import RunConfig
from zofedht.common.models.quadratic import QuadraticObjective
from zofedht.common.objective.base import Objective
from zofedht.common.typing import Matrix, Vector
from zofedht.server.inprocess import run_in_process
from zofedht.server.records.run_folder import RunFolder
from zofedht.server.rows.learnt_shrink import schedule

STIFF = np.array([*np.ones(11), 60.0])


def config(**keys: Any) -> RunConfig:
    defaults = {"algorithm": "zofed-shrink", "rounds": 80, "local_steps": 4, "slopes_per_step": 3, "step_size": 0.005}
    return small(**(defaults | keys))


def clients(bent: Vector = STIFF) -> list[Objective]:
    rng = np.random.default_rng(5)
    return [QuadraticObjective(rng.standard_normal((6, len(bent))), bent) for _ in range(4)]


class Telling(QuadraticObjective):
    """Names its stiff direction."""

    def stiff(self, x: Vector) -> Matrix:
        return np.eye(self.dim)[-1:]


@pytest.mark.parametrize("uplink", ["move", "slopes"])
def test_the_stiffest_direction_is_learnt(uplink: str) -> None:
    seen = states(config(uplink=uplink), clients())
    assert [state.basis_version for state in seen[:7]] == [-1] * 7
    assert seen[7].basis_version == config().warm_up_rounds == 8
    assert seen[-1].basis is not None
    cosine = abs(seen[-1].basis[-1, 0])
    slopes = 2 * 3 * 12  # two rounds, three slots
    assert cosine**2 > 0.9 * slopes / (slopes + 12)


def test_only_rounds_that_learn_cost_double() -> None:
    seen = states(config(), clients())
    spent = np.diff([0, *(state.totals.evaluations for state in seen)])
    assert schedule(config(), 12) == range(2, 6)
    once = 3 * 4 * 4 * 3  # slots, steps, points, samples
    np.testing.assert_array_equal(spent, [once * (2 if round_ in range(2, 6) else 1) for round_ in range(80)])


def test_every_run_of_forty_rounds_or_more_learns_at_no_more_than_a_tenth_of_its_cost() -> None:
    for rounds in range(40, 400):
        learning = schedule(config(rounds=rounds, local_steps=50), 12)
        assert 0.0 < 2 * len(learning) <= 0.1 * rounds


@pytest.mark.parametrize("bent", [np.ones(12), np.linspace(1.0, 3.0, 12)])
def test_nothing_is_shrunk_where_f_bends_alike(bent: Vector) -> None:
    assert states(config(), clients(bent))[-1].basis is None


@pytest.mark.parametrize(
    "keys",
    [{"rounds": 39}, {"warm_up": 4}, {"shrink": 1.0}, {"local_steps": 1, "slopes_per_step": 3}, {"algorithm": "fedzo"}],
    ids=["few rounds", "short warm-up", "no shrink", "few slopes", "another row"],
)
def test_the_gate_is_shut(keys: dict[str, Any]) -> None:
    assert not schedule(config(**keys), 12)
    assert states(config(**keys), clients())[-1].learning is None


def test_who_names_a_direction_learns_none() -> None:
    rng = np.random.default_rng(5)
    telling: list[Objective] = [Telling(rng.standard_normal((6, 12)), STIFF) for _ in range(4)]
    seen = states(config(), telling)
    assert all(state.learning is None for state in seen)
    assert seen[-1].basis is not None
    np.testing.assert_allclose(np.abs(seen[-1].basis[:, 0]), np.eye(12)[-1], atol=1e-12)


def test_a_run_that_was_killed_while_it_learnt_goes_on(tmp_path: Path) -> None:
    one = config(checkpoint_every=1, rounds=80)
    resumed = killed_and_resumed(RunFolder(tmp_path), one, 4).state
    whole = run_in_process(one, quadratics()).state
    assert resumed.x.tobytes() == whole.x.tobytes()


def test_learning_pays_where_one_direction_is_stiff() -> None:
    """At the same evaluations and batches of one sample, against the best of three steps."""
    keys = {"rounds": 0, "budget": 20_000, "batch_size": 1, "clients_per_round": 4}
    rng = np.random.default_rng(3)
    stiff = np.array([*np.full(11, 0.5), 40.0])
    objectives: list[Objective] = [QuadraticObjective(rng.standard_normal((30, 12)), stiff) for _ in range(4)]
    total = np.concatenate([one.centres for one in objectives])  # type: ignore[attr-defined]
    best = total.mean(axis=0)

    def excess(step: float, **more: Any) -> float:
        end = states(config(step_size=step, **keys, **more), objectives)[-1].x - best
        return float(0.5 * end @ (stiff * end))

    assert excess(0.005) < min(excess(step, shrink=1.0) for step in (0.002, 0.005, 0.01))
