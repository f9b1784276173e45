"""Slopes down: a client follows x by itself, bit for bit, and gets it in full when it cannot."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers import Fleet, changed, quadratics, small
from zofedht.common.errors import ConfigError
from zofedht.common.models.quadratic import QuadraticObjective
from zofedht.common.objective.base import Objective
from zofedht.common.objective.scaling import in_search_units
from zofedht.common.objective.units import Units
from zofedht.common.wire.arrays import vector_digest
from zofedht.common.wire.codec import decode, encode
from zofedht.common.wire.messages import Broadcast, Update
from zofedht.server.core.coordinator import Coordinator
from zofedht.server.core.state import initial_state
from zofedht.server.inprocess import run_in_process
from zofedht.server.records.run_folder import RunFolder

DIMENSION = 200
QUADRATICS = quadratics(dimension=DIMENSION)
EVERYBODY = {"num_clients": 4, "clients_per_round": 4, "sampling": "without-replacement"}
SHARED = {"uplink": "slopes", "directions": "shared"}
DOWN = {**SHARED, "downlink": "slopes"}


class Wired(Fleet):
    """A fleet whose broadcasts cross the wire; it checks each x that a client works on against the server's."""

    def __init__(self, objectives: list[Objective], config: Any) -> None:
        super().__init__(objectives)
        self.run = Coordinator(config, initial_state(config, np.zeros(objectives[0].dim)))
        self.absent: set[str] = set()

    def carry(self, broadcasts: Any) -> list[Update]:
        there = [b for b in broadcasts if b.client not in self.absent]
        return super().carry([decode(Broadcast, encode(b).scalars, encode(b).arrays) for b in there])

    def rounds(self, count: int) -> None:
        for _ in range(count):
            record = self.round(self.run)
            assert record is not None

    def full(self, round_: int) -> list[str]:
        """Return who was sent x in a round."""
        return sorted(b.client for b in self.sent if b.round == round_ and b.trail is None)

    def with_q(self, round_: int) -> list[str]:
        return sorted(b.client for b in self.sent if b.round == round_ and b.basis is not None)


def reference(**changes: Any) -> Coordinator:
    config = small(**(EVERYBODY | SHARED | changes))
    fleet, coordinator = Fleet(QUADRATICS), Coordinator(config, initial_state(config, np.zeros(DIMENSION)))
    while not coordinator.finished:
        fleet.round(coordinator)
    return coordinator


@pytest.mark.parametrize(
    "changes",
    [{}, {"covariance": "paper"}, {"algorithm": "zofedavg-sgd"}, {"weighting": "examples"}, {"slopes_per_step": 2}],
)
def test_x_and_q_are_sent_once(changes: dict[str, Any]):
    """To who takes part in every round."""
    fleet = Wired(QUADRATICS, small(**EVERYBODY, **DOWN, **changes))
    fleet.rounds(7)
    assert fleet.full(0) == fleet.names
    assert all(fleet.full(round_) == fleet.with_q(round_) == [] for round_ in range(1, 7))
    assert fleet.run.state.x.tobytes() == reference(**changes).state.x.tobytes()
    assert {b.x_digest for b in fleet.sent if b.round == 6} != {""}


def test_bytes_do_not_depend_on_n_or_tau():
    per_round = set()
    for dimension, memory in ((200, 2), (200, 5), (3000, 2)):
        objectives = quadratics(dimension=dimension)
        fleet = Wired(objectives, small(**EVERYBODY, **DOWN, rounds=9, memory=memory))
        totals = []
        fleet.run.observers.append(lambda state, record, totals=totals: totals.append(record.bytes_down))
        fleet.rounds(9)
        per_round.add((totals[8] - totals[7]) // 100)
    assert len(per_round) <= 2  # a digest and a rank more, and one byte where n is longer


@pytest.mark.parametrize("gone", [1, 2, 3])
def test_a_client_replays_the_rounds_it_missed(gone: int):
    fleet = Wired(QUADRATICS, small(**EVERYBODY, **DOWN, rounds=9))
    fleet.rounds(3)
    fleet.absent = {"1"}
    fleet.rounds(gone)
    fleet.absent = set()
    before = len(fleet.sent)
    fleet.rounds(9 - 3 - gone)
    to_it = [b for b in fleet.sent[before:] if b.client == "1"]
    assert [len(b.trail) for b in to_it if b.trail is not None] == [gone + 1, *[1] * (len(to_it) - 1)]
    assert all(b.basis is None for b in to_it)


def test_x_is_sent_where_the_gap_costs_more():
    objectives = quadratics(dimension=20)  # x has 160 bytes, a round 56
    fleet = Wired(objectives, small(**EVERYBODY, **DOWN, rounds=9))
    fleet.rounds(2)
    fleet.absent = {"1"}
    fleet.rounds(2)
    fleet.absent = set()
    fleet.rounds(1)
    assert fleet.full(4) == ["1"]
    assert fleet.full(3) == []


def test_a_client_without_x_gets_it_within_the_round():
    """Q as well."""
    fleet = Wired(QUADRATICS, small(**EVERYBODY, **DOWN))
    fleet.rounds(3)
    fleet.forget("2")
    record = fleet.round(fleet.run)
    assert record is not None
    assert (record.replies, record.attempts, record.failures) == (4, 1, [])
    assert fleet.full(3) == fleet.with_q(3) == ["2"]
    fleet.rounds(3)
    assert fleet.run.state.x.tobytes() == reference().state.x.tobytes()


def test_a_late_client_is_sent_q_for_tau_moves():
    fleet = Wired(QUADRATICS, small(**EVERYBODY, **DOWN, memory=3, rounds=12))
    fleet.absent = {"3"}
    fleet.rounds(4)
    fleet.absent = set()
    fleet.rounds(8)
    q = [round_ for round_ in range(12) if "3" in fleet.with_q(round_)]
    x = [round_ for round_ in range(12) if "3" in fleet.full(round_) and round_ >= 4]
    assert x == [4]
    assert [round_ for round_ in q if round_ >= 4] == [4, 6]  # x in the middle of moves 3..5; moves 6..8 it has seen


def test_an_x_moved_otherwise_is_sent_in_full():
    fleet = Wired(QUADRATICS, small(**EVERYBODY, **DOWN))
    fleet.rounds(3)
    fleet.run.state = replace(fleet.run.state, x=fleet.run.state.x + 1.0)  # an earlier x, say
    fleet.rounds(2)
    assert fleet.full(3) == fleet.names
    assert fleet.full(4) == []


@pytest.mark.parametrize("auto", [{"step_size": "auto", "local_steps": 6}, {"subspace_weight": "auto"}])
def test_clients_follow_what_auto_decides(auto: dict[str, Any]):
    fleet = Wired(QUADRATICS, small(**EVERYBODY, **DOWN, rounds=20, **auto))
    fleet.rounds(20)
    expected = reference(rounds=20, **auto)
    assert fleet.run.state.x.tobytes() == expected.state.x.tobytes()
    full = [round_ for round_ in range(1, 20) if fleet.full(round_)]
    assert len(full) < 10  # where x went back, or did not move at all


class OtherArithmetic(Wired):
    """Client 1 replays with other rounding."""

    def carry(self, broadcasts: Any) -> list[Update]:
        self.sent += broadcasts
        return [self._workers[b.client].work(_rounded_otherwise(b) if b.client == "1" else b) for b in broadcasts]


def _rounded_otherwise(broadcast: Broadcast) -> Broadcast:
    if not broadcast.trail:
        return broadcast
    steps = tuple(replace(step, lengths=step.lengths * (1.0 + 4e-16)) for step in broadcast.trail)
    return replace(broadcast, trail=steps)


def test_a_client_with_another_x_gets_the_servers():
    fleet = OtherArithmetic(QUADRATICS, small(**EVERYBODY, **DOWN))
    fleet.rounds(7)
    assert fleet.run.state.x.tobytes() == reference().state.x.tobytes()
    for round_ in range(1, 7):
        assert fleet.full(round_) == ["1"]


class OtherGenerator(Wired):
    """Client 1 draws other directions, with which it would replay another x."""

    def carry(self, broadcasts: Any) -> list[Update]:
        mine = [changed(b, seed=b.address.seed + 1) for b in broadcasts if b.client == "1"]
        return super().carry([*mine, *(b for b in broadcasts if b.client != "1")])


@pytest.mark.parametrize("known", [True, False], ids=["at joining", "by its slopes"])
def test_other_draws_get_x_in_full(known: bool):
    """The move of such a client counts."""
    fleet = OtherGenerator(QUADRATICS, small(**EVERYBODY, **DOWN, rounds=9))
    if known:
        fleet.members[1] = replace(fleet.members[1], moves_only="it draws with dice")
    fleet.rounds(4)
    fleet.absent = {"1"}
    fleet.rounds(3)
    fleet.absent = set()
    fleet.rounds(2)
    config = small(**EVERYBODY, rounds=9, directions="shared")  # x down, moves up
    moves = OtherGenerator(QUADRATICS, config)
    for round_ in range(9):
        moves.absent = {"1"} if 4 <= round_ < 7 else set()
        moves.rounds(1)
    x = moves.run.state.x
    assert np.linalg.norm(fleet.run.state.x - x) <= 1e-12 * np.linalg.norm(x)
    to_it = [b for b in fleet.sent if b.client == "1"]
    assert all(b.trail is None and b.x.shape == (DIMENSION,) for b in to_it)
    assert len(to_it) == 6 + (not known)  # never in vain: once more where its slopes showed it
    assert [fleet.full(round_) for round_ in (5, 6)] == [[], []]  # x went by mean slopes alone
    assert all({"0", "2", "3"} < {*fleet.full(round_), "1"} for round_ in (1, 2, 3, 4, 8))  # its move was in the mean


def test_a_client_that_keeps_nothing_gets_x_every_time():
    fleet = Wired(QUADRATICS, small(**EVERYBODY, **DOWN))
    fleet.members = [replace(member, keeps_x=member.name != "0") for member in fleet.members]
    fleet.rounds(4)
    assert [fleet.full(round_) for round_ in range(4)] == [fleet.names, ["0"], ["0"], ["0"]]


def test_x_within_bounds_is_followed_as_well():
    rng = np.random.default_rng(0)
    box = [Bounded(rng.standard_normal((6, 30))) for _ in range(4)]
    config = small(**EVERYBODY, **DOWN, step_size=0.5)
    fleet = Wired([in_search_units(each) for each in box], config)
    units = Units(np.full(30, 0.4), np.full(30, -0.2), np.full(30, 0.2))
    fleet.run.state = replace(fleet.run.state, units=units)
    fleet.rounds(7)
    assert np.any(np.abs(units.to_user(fleet.run.state.x)) == 0.2)
    assert all(fleet.full(round_) == [] for round_ in range(1, 7))


class Bounded(QuadraticObjective):
    bounds = (-0.2, 0.2)


def test_the_downlink_may_change_on_resume(tmp_path: Path):
    """The resumed run equals an uninterrupted one."""
    folder = RunFolder(tmp_path / "run")
    folder.begin(small(rounds=3, step_schedule="inverse-sqrt", **DOWN), "in-process")
    run_in_process(small(rounds=3, step_schedule="inverse-sqrt", **DOWN), QUADRATICS, folder=folder)
    config, state, _ = folder.reopen({"rounds": 7, "downlink": "x"})
    resumed = run_in_process(config, QUADRATICS, folder=folder, state=state)
    assert vector_digest(resumed.state.x) == vector_digest(
        run_in_process(small(step_schedule="inverse-sqrt", **DOWN), QUADRATICS).state.x
    )


@pytest.mark.parametrize("changes", [{}, {"uplink": "slopes"}, {"directions": "shared"}])
def test_it_needs_shared_directions_and_slopes_up(changes: dict[str, str]):
    with pytest.raises(ConfigError, match="downlink must be x unless uplink is slopes and directions are shared"):
        small(downlink="slopes", **changes)
