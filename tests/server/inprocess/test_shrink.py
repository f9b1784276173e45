"""zofed-shrink: the guide is told at the end of the warm-up, travels as Q does, and makes slopes less noisy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers import Fleet, quadratics, small
from zofedht.common.config.own_objective import of_own_clients
from zofedht.common.config.run_config import RunConfig
from zofedht.common.objective.base import Objective
from zofedht.common.typing import Matrix, Vector
from zofedht.common.wire.messages import NO_BASIS
from zofedht.server.core.coordinator import Coordinator
from zofedht.server.core.state import initial_state
from zofedht.server.inprocess import run_in_process
from zofedht.server.records.run_folder import RunFolder

DIGITS = {"dataset": "digits", "train_rows": 300, "model": "logistic"}
SHRINK = {"algorithm": "zofed-shrink", "warm_up": 2, "step_size": 0.05}
SHARED = {"uplink": "slopes", "directions": "shared"}
DOWN = {**SHARED, "downlink": "slopes"}


def _x(**changes: Any) -> Vector:
    return run_in_process(small(**(DIGITS | SHRINK | changes))).state.x


def test_its_row_brings_defaults_and_what_is_named_wins() -> None:
    config = RunConfig.from_mapping({"algorithm": "zofed-shrink"})
    assert (config.slope, config.slopes_per_step, config.local_steps) == ("forward", 9, 10)
    assert config.warm_up_rounds == 9
    named = config.replace(slope="central", local_steps=7)
    assert (named.slope, named.slopes_per_step, named.local_steps) == ("central", 9, 7)
    other = config.replace(algorithm="zofedht")
    assert (other.slope, other.slopes_per_step, other.local_steps, other.warm_up_rounds) == ("central", 1, 50, 0)
    assert RunConfig.from_mapping(named.to_mapping()) == named


def test_for_your_own_objective_slopes_are_central_at_the_same_cost() -> None:
    built_in = RunConfig.from_mapping({"algorithm": "zofed-shrink"})
    own = built_in.replace(objective="valve:make")
    assert (own.slope, own.slopes_per_step, own.local_steps) == ("central", 1, 50)
    costs = {config.step_spec(step_size=0.1).evaluations(64) for config in (own, built_in)}
    assert len(costs) == 1
    assert (own.replace(slope="forward").slope, own.replace(algorithm="fedzo").slope) == ("forward", "forward")


def test_functions_get_the_slopes_of_a_named_objective() -> None:
    for config in (None, RunConfig(rounds=3)):
        given = of_own_clients(config, {"algorithm": "zofed-shrink", "step-size": 0.1}, 2, 100)
        assert (given["slope"], given["slopes-per-step"], given["local-steps"]) == ("central", 1, 50)
    assert of_own_clients(None, {"algorithm": "zofed-shrink", "slope": "forward"}, 2, 100)["slope"] == "forward"
    assert "slope" not in of_own_clients(RunConfig(slope="forward"), {"algorithm": "zofed-shrink"}, 2, 100)


def test_a_budgets_warm_up_is_part_of_its_rounds() -> None:
    keys = {"algorithm": "zofed-shrink", "rounds": 0, "clients-per-round": 10, "batch-size": 64}
    config = RunConfig.from_mapping(keys | {"budget": 10 * 10 * 10 * 64 * 50})  # 50 rounds
    assert config.warm_up_rounds == 5
    assert config.replace(rounds=20).warm_up_rounds == 2
    assert config.replace(batch_size=0).warm_up_rounds == 0


def test_after_the_warm_up_the_guide_is_the_mean_row() -> None:
    records: list[Any] = []
    result = run_in_process(small(**DIGITS, **SHRINK), observers=[lambda state, record: records.append(record)])
    assert [record.basis_version for record in records] == [None, None] + [2] * 5
    state = result.state
    assert state.basis is not None
    assert state.basis.shape == (65, 1)
    assert state.trajectory == ()
    assert np.abs(state.basis[:, 0]).max() == pytest.approx(np.abs(state.basis[-1, 0]), rel=0.5)  # the bias, above all


@pytest.mark.parametrize("changes", [{"shrink": 1.0}, {"warm_up": 7}])
def test_without_shrink_it_is_the_isotropic_method_bit_for_bit(changes: dict[str, Any]) -> None:
    # A guide that the last round makes is not used.
    keys = {"slope": "forward", "slopes_per_step": 9, "warm_up": changes.get("warm_up", 2)}
    plain = run_in_process(small(**DIGITS, **(SHRINK | keys | {"algorithm": "zofedavg-sgd"}))).state.x
    assert _x(**changes).tobytes() == plain.tobytes()
    assert _x().tobytes() != plain.tobytes()


def test_objectives_that_name_none_are_probed_all_around() -> None:
    keys = SHRINK | {"slope": "forward", "slopes_per_step": 9}
    one, other = (
        run_in_process(small(**(keys | {"algorithm": name})), quadratics()).state
        for name in ("zofed-shrink", "zofedavg-sgd")
    )
    assert one.x.tobytes() == other.x.tobytes()
    assert (one.basis, one.basis_version) == (None, NO_BASIS)


def test_slopes_up_and_down_lead_to_the_same_x() -> None:
    """The guide is sent once; all else is replayed."""
    moves = _x(directions="shared")
    for uplink in (SHARED, DOWN):
        np.testing.assert_allclose(_x(**uplink), moves, rtol=1e-9, atol=1e-12)


def test_the_guide_is_sent_once_to_each_host() -> None:
    class Stiff(Objective):
        dim = 5

        def value(self, x: Vector, batch: Any) -> float:
            return float(100.0 * x[0] ** 2 + x @ x - x.sum())

        def stiff(self, x: Vector) -> Matrix:
            return np.eye(5)[:1]

    everybody = {"num_clients": 4, "clients_per_round": 4, "sampling": "without-replacement"}
    config = small(**(SHRINK | DOWN | everybody | {"step_size": 1e-3}))
    fleet, coordinator = Fleet([Stiff() for _ in range(4)]), Coordinator(config, initial_state(config, np.ones(5)))
    while not coordinator.finished:
        fleet.round(coordinator)
    assert sorted((b.round, b.client) for b in fleet.sent if b.basis is not None) == [(2, str(i)) for i in range(4)]
    assert {b.round for b in fleet.sent if b.spec.tells_stiff} == {1}
    assert all(b.trail is not None for b in fleet.sent if b.round > 0)


def test_a_resumed_run_equals_an_uninterrupted_one(tmp_path: Path) -> None:
    config = small(**DIGITS, **SHRINK, step_schedule="constant")
    for rounds in (1, 2, 4):
        folder = RunFolder(tmp_path / str(rounds))
        folder.begin(config.replace(rounds=rounds), "in-process")
        run_in_process(config.replace(rounds=rounds), folder=folder)
        longer, state, _ = folder.reopen({"rounds": 7})
        resumed = run_in_process(longer, folder=folder, state=state).state.x
        assert resumed.tobytes() == run_in_process(config).state.x.tobytes()


def test_a_liar_s_directions_are_refused() -> None:
    config = small(**SHRINK, num_clients=4, clients_per_round=4, sampling="without-replacement")

    class Liar(Fleet):
        def carry(self, broadcasts: Any) -> Any:
            from dataclasses import replace

            return [replace(u, stiff=np.full((12, 1), 5.0), stiff_rank=1) for u in super().carry(broadcasts)]

    fleet, coordinator = Liar(quadratics()), Coordinator(config, initial_state(config, np.zeros(12)))
    coordinator.tell(fleet.carry(coordinator.ask(fleet.members)))
    assert coordinator.state.round == 0
    assert "stiff directions" in coordinator._failures[0].reason


def test_it_beats_the_isotropic_method_on_digits() -> None:
    """At equal evaluations and each method's better step of two; the distance is some 20 times that of two seeds."""
    data = {"dataset": "digits", "num_clients": 20, "clients_per_round": 5, "batch_size": 64, "partition": "sorted"}

    def best(**keys: Any) -> float:
        runs = (RunConfig().replace(**data, rounds=60, evaluate_every=0, step_size=eta, **keys) for eta in (1.0, 3.0))
        return min(run_in_process(config).final["train_loss"] for config in runs)

    assert best(algorithm="zofed-shrink") < 0.95 * best(algorithm="zofedavg-sgd")
