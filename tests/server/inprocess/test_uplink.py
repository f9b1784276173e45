"""Slopes up: the same x as with moves up, and a client with other directions costs its bytes and no more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers import Fleet, changed, quadratics, small
from zofedht.client.steps.worker import Worker
from zofedht.common.errors import ConfigError
from zofedht.common.objective.base import Objective
from zofedht.common.typing import Vector
from zofedht.common.wire.messages import Broadcast, Update
from zofedht.server.aggregation import replays
from zofedht.server.aggregation.replays import OTHER_DIRECTIONS
from zofedht.server.core.coordinator import Coordinator
from zofedht.server.core.round_record import RoundRecord
from zofedht.server.core.state import initial_state
from zofedht.server.delivery.fallbacks import OTHER_NUMBERS
from zofedht.server.inprocess import run_in_process
from zofedht.server.records.run_folder import RunFolder

QUADRATICS = quadratics()
DATA = {"num_clients": 6, "batch_size": 16, "train_rows": 240, "step_size": 1.0, "evaluate_every": 0}
EVERYBODY = {"num_clients": 4, "clients_per_round": 4, "sampling": "without-replacement"}


def end(objectives: list[Objective] | None = QUADRATICS, **changes: Any) -> Vector:
    return run_in_process(small(**changes), objectives).state.x


def assert_close(one: Vector, other: Vector) -> None:
    assert np.linalg.norm(one - other) <= 1e-12 * np.linalg.norm(other)


@pytest.mark.parametrize("directions", ["per-slot", "shared"])
@pytest.mark.parametrize("covariance", ["trace", "paper"])
@pytest.mark.parametrize("algorithm", ["zofedht", "zofedavg-sgd", "zofedavg-gd"])
@pytest.mark.parametrize(("data", "objectives"), [({}, QUADRATICS), (DATA, None)], ids=["quadratic", "digits"])
def test_slopes_up_equal_moves_up(
    data: dict[str, Any], objectives: list[Objective] | None, algorithm: str, covariance: str, directions: str
):
    keys = {"algorithm": algorithm, "covariance": covariance, "directions": directions, **data}
    assert_close(end(objectives, uplink="slopes", **keys), end(objectives, **keys))


@pytest.mark.parametrize("directions", ["per-slot", "shared"])
@pytest.mark.parametrize(
    "changes",
    [
        {"weighting": "examples"},
        {"slope": "forward"},
        {"sampling": "without-replacement"},
        {"local_steps": 1},
        {"slopes_per_step": 3},
    ],
)
def test_slopes_up_equal_moves_up_whatever_else_is_chosen(directions: str, changes: dict[str, Any]):
    keys = {"directions": directions, **changes}
    assert_close(end(uplink="slopes", **keys), end(**keys))


@pytest.mark.parametrize("directions", ["per-slot", "shared"])
@pytest.mark.parametrize("auto", [{"step_size": "auto", "local_steps": 6}, {"subspace_weight": "auto"}])
def test_the_rules_of_auto_see_the_same_moves(directions: str, auto: dict[str, Any]):
    keys = {"directions": directions, "rounds": 20, **auto}
    assert_close(end(uplink="slopes", **keys), end(**keys))


@pytest.mark.parametrize("model", ["svm-hinge", "mlp"])
def test_slopes_up_equal_moves_up_for_other_models(model: str):
    keys = {"model": model, "hidden_units": 4, **DATA}
    assert_close(end(None, uplink="slopes", **keys), end(None, **keys))


def test_slots_share_directions_and_not_samples():
    config = small(directions="shared", **EVERYBODY)
    fleet, coordinator = Fleet([QUADRATICS[0]] * 4), Coordinator(config, initial_state(config, np.zeros(12)))
    moves = [u.move for u in fleet.carry(coordinator.ask(fleet.members)) if u.move is not None]
    assert len({move.tobytes() for move in moves}) == 4  # four minibatches of one client's rows
    whole = config.replace(batch_size=0)
    moves = [
        u.move for u in fleet.carry(Coordinator(whole, coordinator.state).ask(fleet.members)) if u.move is not None
    ]
    assert len({move.tobytes() for move in moves}) == 1
    assert not np.array_equal(end(directions="shared"), end())


def test_no_bit_depends_on_threads(monkeypatch: pytest.MonkeyPatch):
    digests = set()
    for threads in (1, 2, 5):
        monkeypatch.setattr(replays, "_WORTH_THREADS", 0)
        monkeypatch.setattr(replays, "available_cores", lambda threads=threads: threads)
        digests.add(end(uplink="slopes", **EVERYBODY).tobytes())
    assert len(digests) == 1


@pytest.mark.parametrize("directions", ["per-slot", "shared"])
def test_a_resumed_run_equals_an_uninterrupted_one(tmp_path: Path, directions: str):
    config = small(uplink="slopes", directions=directions, step_schedule="inverse-sqrt")
    folder = RunFolder(tmp_path / "run")
    folder.begin(config.replace(rounds=3), "in-process")
    run_in_process(config.replace(rounds=3), QUADRATICS, folder=folder)
    config, state, _ = folder.reopen({"rounds": 7})
    assert (
        run_in_process(config, QUADRATICS, folder=folder, state=state).state.x.tobytes()
        == run_in_process(config, QUADRATICS).state.x.tobytes()
    )


def test_uplink_is_a_column_of_the_table():
    with pytest.raises(ConfigError, match="uplink must be one of default, move, slopes, got 'slope'"):
        small(uplink="slope")


class Strange(Worker):
    """A client whose generator gives other numbers."""

    def work(self, broadcast: Broadcast) -> Update:
        return super().work(changed(broadcast, seed=broadcast.address.seed + 1))


class MixedFleet(Fleet):
    """Clients 1 and 3 draw otherwise than the server."""

    def _worker(self, name: str) -> Worker:
        kind = Strange if name in ("1", "3") else Worker
        return kind(lambda broadcast: self._objectives[broadcast.shard_index])


def mixed(**changes: Any) -> tuple[Coordinator, list[RoundRecord], MixedFleet]:
    config = small(**EVERYBODY, **changes)
    fleet = MixedFleet(QUADRATICS)
    coordinator = Coordinator(config, initial_state(config, np.zeros(12)))
    records: list[RoundRecord] = []
    coordinator.observers.append(lambda state, record: records.append(record))
    while not coordinator.finished:
        fleet.round(coordinator)
    return coordinator, records, fleet


@pytest.mark.parametrize("directions", ["per-slot", "shared"])
@pytest.mark.parametrize("weighting", ["uniform", "examples"])
def test_other_directions_are_asked_for_the_move(directions: str, weighting: str):
    """The history says so."""
    keys = {"directions": directions, "weighting": weighting}
    slopes, records, fleet = mixed(uplink="slopes", **keys)
    moves, _, _ = mixed(**keys)
    assert_close(slopes.state.x, moves.state.x)
    for record in records:
        assert (record.replies, record.attempts, record.failures) == (4, 1, [])
        assert sorted((str(f["client"]), f["reason"]) for f in record.fallbacks) == [
            ("1", OTHER_DIRECTIONS),
            ("3", OTHER_DIRECTIONS),
        ]
    asked = [(b.round, b.spec.uplink) for b in fleet.sent if b.client == "1"]
    assert asked == [(0, "slopes"), *((r, "move") for r in range(7))]  # its slopes are not asked for again


def test_honest_clients_are_in_no_fallback():
    records: list[RoundRecord] = []
    for uplink in ("move", "slopes"):
        run_in_process(small(uplink=uplink), QUADRATICS, observers=[lambda state, record: records.append(record)])
    assert all(record.fallbacks == [] for record in records)


@pytest.mark.parametrize("uplink", ["move", "slopes"])
def test_other_draws_are_named_in_each_round(uplink: str):
    config = small(uplink=uplink, **EVERYBODY)
    fleet, coordinator = Fleet(QUADRATICS), Coordinator(config, initial_state(config, np.zeros(12)))
    fleet.members[2] = replace(fleet.members[2], moves_only="it draws with dice")
    records = [fleet.round(coordinator) for _ in range(2)]
    fleet.members.pop(2)
    records.append(fleet.round(coordinator))
    named = [[(f["client"], f["reason"]) for f in record.fallbacks] for record in records if record]
    assert named == [[("2", "it draws with dice")]] * 2 + [[]]
    assert {b.spec.uplink for b in fleet.sent if b.client == "2"} == {"move"}


def test_a_moves_digest_is_checked_in_every_round():
    config = small(**EVERYBODY)
    fleet, coordinator = Fleet(QUADRATICS), Coordinator(config, initial_state(config, np.zeros(12)))

    def otherwise(updates: list[Update]) -> list[Update]:
        return [replace(u, draw_digest="0" * 16) if u.client == "1" else u for u in updates]

    records = [fleet.round(coordinator, otherwise) for _ in range(3)]
    named = [[(f["client"], f["reason"]) for f in record.fallbacks] for record in records if record]
    assert named == [[("1", OTHER_NUMBERS)]] * 3
    assert {record.replies for record in records if record} == {4}


def test_without_a_check_the_slot_is_lost():
    """No wrong direction is taken."""
    config = small(uplink="slopes", **EVERYBODY)
    fleet, coordinator = MixedFleet(QUADRATICS), Coordinator(config, initial_state(config, np.zeros(12)))
    record = coordinator.tell(fleet.carry(coordinator.ask(fleet.members)))
    assert record is not None
    assert record.replies == 2
    failures = sorted((str(f["client"]), f["reason"]) for f in record.failures)
    assert failures == [("1", OTHER_DIRECTIONS), ("3", OTHER_DIRECTIONS)]


def test_what_joining_told_is_not_asked_again():
    config = small(uplink="slopes", **EVERYBODY)
    fleet, coordinator = Fleet(QUADRATICS), Coordinator(config, initial_state(config, np.zeros(12)))
    members = [replace(m, moves_only="it draws with dice" if m.name == "2" else "") for m in fleet.members]
    asked = coordinator.ask(members)
    assert {b.client: b.spec.uplink for b in asked} == {"0": "slopes", "1": "slopes", "2": "move", "3": "slopes"}
    record = coordinator.tell(fleet.carry(asked))
    assert record is not None
    assert [(f["client"], f["reason"]) for f in record.fallbacks] == [("2", "it draws with dice")]
    assert record.replies == 4


def test_a_redrawn_slot_has_its_clients_uplink():
    config = small(uplink="slopes", clients_per_round=1, sampling="without-replacement")
    fleet, coordinator = Fleet(QUADRATICS), Coordinator(config, initial_state(config, np.zeros(12)))
    coordinator.ask([replace(fleet.members[0], moves_only="it draws with dice")])
    again = coordinator.redraw(0, fleet.members[1:])
    assert again is not None
    assert again.spec.uplink == "slopes"
    coordinator.ask(fleet.members[:1])
    again = coordinator.redraw(0, [replace(member, moves_only="it draws with dice") for member in fleet.members[1:]])
    assert again is not None
    assert again.spec.uplink == "move"
    record = coordinator.tell(fleet.carry([again]))
    assert record is not None
    assert [f["client"] for f in record.fallbacks] == ["0", again.client]


def test_slopes_that_overflow_fail_the_round():
    config = small(uplink="slopes", directions="shared", max_retries=0, **EVERYBODY)
    fleet, coordinator = Fleet(QUADRATICS), Coordinator(config, initial_state(config, np.zeros(12)))

    def huge(updates: Sequence[Update]) -> list[Update]:
        return [replace(u, slopes=np.full(4, 1e308), sketch=np.full(4, np.inf)) for u in updates]

    with pytest.raises(Exception, match="the sketch must not hold NaN or inf"):
        coordinator.tell(huge(fleet.carry(coordinator.ask(fleet.members))))
