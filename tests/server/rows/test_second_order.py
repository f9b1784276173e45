"""Newton and quasi-newton steps: what curvatures tell of the Hessian, where that leads, and when batches grow."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers import killed_and_resumed, quadratics, small, states
from zofedht.common.config.run_config import RunConfig
from zofedht.common.directions.law import DirectionLaw, slot_directions
from zofedht.common.errors import ConfigError
from zofedht.common.models.quadratic import QuadraticObjective
from zofedht.common.objective.base import Objective
from zofedht.common.random.streams import Address
from zofedht.common.typing import Indices, Matrix, Vector
from zofedht.server.inprocess import run_in_process
from zofedht.server.records.run_folder import RunFolder
from zofedht.server.rows.second_order import Curvature, Pair, _two_loops, grown_batch, with_probes

EVERYBODY = {"clients_per_round": 4, "step_schedule": "constant", "step_size": 0.01}


class Bent(Objective):
    """(w - z)' H (w - z) / 2 of a full matrix, of which only values can be had."""

    def __init__(self, seed: int, n: int = 6) -> None:
        rng = np.random.default_rng(seed)
        half = rng.standard_normal((n, 2 * n))
        self.dim, self.bend, self.centre = n, half @ half.T / n, rng.standard_normal(n)

    def value(self, x: Vector, batch: Indices | slice) -> float:
        return float(0.5 * (x - self.centre) @ self.bend @ (x - self.centre))


def config(algorithm: str, **keys: Any) -> RunConfig:
    return small(**({"algorithm": algorithm, "local_steps": 1, "memory": 5, "num_clients": 4} | EVERYBODY | keys))


def optimum(clients: list[Bent]) -> Vector:
    total = sum((one.bend for one in clients), start=np.zeros((6, 6)))
    return np.linalg.solve(total, sum((one.bend @ one.centre for one in clients), start=np.zeros(6)))


def bent(n: int = 6) -> Matrix:
    half = np.random.default_rng(0).standard_normal((n, 2 * n))
    return half @ half.T / n


def test_each_probe_makes_the_hessian_better() -> None:
    """The squared error falls by 1 - 2 / (n (n + 2)) in the mean over unit directions (Leventhal and Lewis 2011)."""
    n, wanted, start = 6, bent(), np.eye(6)
    v = np.random.default_rng(1).standard_normal((4000, n))
    errors = [
        np.sum((with_probes(start, row[None], np.array([row @ wanted @ row]))[0] - wanted) ** 2)
        / np.sum((start - wanted) ** 2)
        for row in v
    ]
    # The error of a symmetric difference D falls by (u'Du)^2: 2 |D|^2 / (n (n + 2)), and what its trace adds.
    difference = start - wanted
    share = (2.0 + np.trace(difference) ** 2 / np.sum(difference**2)) / (n * (n + 2))
    assert np.mean(errors) == pytest.approx(1.0 - share, abs=5 * np.std(errors) / np.sqrt(len(v)))
    assert max(errors) <= 1.0 + 1e-12
    held = start
    for _ in range(12):
        held, _ = with_probes(held, v, np.einsum("ij,jk,ik->i", v, wanted, v))
    np.testing.assert_allclose(held, wanted, atol=1e-9)


@pytest.mark.parametrize("held", [None, np.diag([2.0, 2.0, 2.0, 2.0, 2.0, 12.0])])
def test_a_hessian_knows_how_wrong_it_was(held: Matrix | None) -> None:
    wanted = bent()
    errors = []
    for round_ in range(4000):
        (v,) = slot_directions(DirectionLaw(6, probe="frame", slopes_per_step=6), 6, Address(0, round_, 0))
        errors.append(with_probes(held, v, np.einsum("ij,jk,ik->i", v, wanted, v))[1])
    difference = wanted - (0.0 if held is None else held)
    share = 1.0 + np.trace(difference) ** 2 / (2.0 * np.sum(difference**2))  # the trace adds to each forecast
    assert np.mean(np.square(errors)) == pytest.approx(share * np.sum(difference**2), rel=0.05)


def test_newton_ends_at_the_optimum_once_the_hessian_is_exact() -> None:
    clients: list[Any] = [Bent(seed) for seed in range(4)]
    seen = states(config("fedzen", rounds=60), clients)
    best = optimum(clients)
    apart = [float(np.linalg.norm(state.x - best)) for state in seen]
    assert apart[-1] < 1e-6
    ratios = [after / before for before, after in itertools.pairwise(apart) if before > 1e-6]
    assert np.mean(ratios[-3:]) < 0.5 * ratios[0]  # faster than linear
    mean = sum((one.bend for one in clients), start=np.zeros((6, 6))) / 4
    assert seen[-1].curvature.hessian is not None
    np.testing.assert_allclose(seen[-1].curvature.hessian, mean, atol=0.05 * np.linalg.norm(mean))


def test_a_frame_of_n_directions_gives_the_gradient_itself() -> None:
    clients: list[Any] = [Bent(seed) for seed in range(4)]
    state = states(config("adaptive-qn", rounds=1, slope="central"), clients)[0]
    gradient = -np.mean([one.bend @ one.centre for one in clients], axis=0)
    np.testing.assert_allclose(state.x, -0.01 * 6 * gradient, rtol=1e-8)  # eta K q g


def test_quasi_newton_needs_few_rounds_where_plain_steps_need_many() -> None:
    clients: list[Any] = [Bent(seed) for seed in range(4)]
    keys = {"rounds": 25, "step_size": 0.02, "slope": "central"}
    best = optimum(clients)
    apart = {
        step: np.linalg.norm(states(config("adaptive-qn", server_step=step, **keys), clients)[-1].x - best)
        for step in ("quasi-newton", "mean")
    }
    assert apart["quasi-newton"] < 1e-4
    assert apart["mean"] > 100 * apart["quasi-newton"]


def test_pairs_hold_no_noise_of_samples() -> None:
    """Samples pull apart by far more than x moves, and each pair still is that of the mean curvature."""
    rng, bends = np.random.default_rng(3), np.arange(1.0, 7.0)
    clients: list[Objective] = [QuadraticObjective(10.0 * rng.standard_normal((50, 6)), bends) for _ in range(4)]
    seen = states(config("adaptive-qn", rounds=4, batch_size=2, slope="central"), clients)
    pairs = seen[-1].curvature.pairs
    assert len(pairs) == 3
    for pair in pairs:
        np.testing.assert_allclose(pair.change, bends * pair.step, rtol=1e-5, atol=1e-6)


def test_a_pair_costs_its_slopes_a_second_time() -> None:
    clients: list[Objective] = [QuadraticObjective(np.eye(6)) for _ in range(4)]
    seen = states(config("adaptive-qn", rounds=3, batch_size=2, batch_growth=0.0), clients)
    spent = np.diff([0, *(state.totals.evaluations for state in seen)])
    np.testing.assert_array_equal(spent, 4 * 2 * 7 * np.array([1, 2, 2]))


@pytest.mark.parametrize("killed", [1, 3])
def test_a_resumed_run_keeps_its_pairs_and_batches(tmp_path: Path, killed: int) -> None:
    one = config("adaptive-qn", rounds=6, batch_size=2)
    resumed = killed_and_resumed(RunFolder(tmp_path), one, killed).state
    assert resumed.x.tobytes() == states(one, quadratics())[-1].x.tobytes()


def test_two_loops_are_the_inverse_on_what_was_seen() -> None:
    """With n independent pairs of a quadratic, B y = s for the newest, and B is near the inverse of H."""
    wanted = bent(3)
    steps = np.random.default_rng(2).standard_normal((3, 3))
    pairs = [Pair(step, wanted @ step) for step in steps]
    np.testing.assert_allclose(_two_loops(pairs, wanted @ steps[-1]), steps[-1], rtol=1e-10)


def test_batches_double_where_slots_disagree() -> None:
    one = config("adaptive-qn")
    alike, apart = [np.ones(6), 1.1 * np.ones(6)], [np.ones(6), -0.9 * np.ones(6)]
    assert grown_batch(8, alike, one) == 8
    assert grown_batch(8, apart, one) == 16
    assert grown_batch(8, apart[:1], one) == 8
    assert grown_batch(2**25, apart, one) == 2**25


def test_a_run_grows_its_batches_near_the_optimum() -> None:
    rng = np.random.default_rng(0)
    clients: list[Objective] = [QuadraticObjective(rng.standard_normal((200, 6))) for _ in range(4)]
    seen = states(config("adaptive-qn", rounds=12, batch_size=2), clients)
    assert seen[-1].batch > seen[0].batch >= 2


def test_second_order_steps_say_what_they_need() -> None:
    with pytest.raises(ConfigError, match="slope must be three-point where server-step is newton"):
        config("fedzen", slope="central")
    with pytest.raises(ConfigError, match="directions must be shared where server-step is newton"):
        config("fedzen", directions="per-slot")
    with pytest.raises(ConfigError, match="is for at most 200"):
        run_in_process(config("fedzen", num_clients=1, clients_per_round=1), [Bent(0, 201)])
    assert Curvature() == Curvature()
