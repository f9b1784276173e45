"""One run, message by message: who is sent Q, what a failed round costs, when a run stops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from tests.helpers import Fleet, quadratics, small
from zofedht.common.config.run_config import RunConfig
from zofedht.common.errors import ObjectiveError, RoundError
from zofedht.common.typing import Vector
from zofedht.common.wire.clients import Member
from zofedht.common.wire.message_size import broadcast_bytes, update_bytes
from zofedht.common.wire.messages import Broadcast, Update
from zofedht.server.aggregation.screening import Failure
from zofedht.server.core.coordinator import Coordinator
from zofedht.server.core.round_record import RoundRecord
from zofedht.server.core.state import initial_state
from zofedht.server.evaluation.full_evaluation import FullEvaluation, Unevaluated

EVERYBODY = {"num_clients": 4, "clients_per_round": 4, "sampling": "without-replacement"}


def coordinator(config: RunConfig) -> Coordinator:
    return Coordinator(config, initial_state(config, np.zeros(12)))


def failing(updates: list[Update]) -> list[Update]:
    return [replace(update, status="failed", reason="the valve is shut", move=None) for update in updates]


def with_basis(sent: Sequence[Broadcast], round_: int) -> list[str]:
    return sorted(b.client for b in sent if b.round == round_ and b.basis is not None)


def test_reply_order_does_not_matter_bitwise():
    def end(order: Sequence[int]) -> bytes:
        config = small(**EVERYBODY)
        fleet, run = Fleet(quadratics()), coordinator(config)
        while not run.finished:
            fleet.round(run, lambda updates: [updates[index] for index in order])
        return run.state.x.tobytes()

    assert len({end(order) for order in ([0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1])}) == 1


def test_q_is_sent_once_a_version_to_each_client():
    config = small(memory=2, rounds=8, **EVERYBODY)
    fleet, run = Fleet(quadratics()), coordinator(config)
    while not run.finished:
        fleet.round(run)
    for version in (2, 4, 6):
        assert with_basis(fleet.sent, version) == fleet.names
        assert with_basis(fleet.sent, version + 1) == []
    assert with_basis(fleet.sent, 0) == with_basis(fleet.sent, 1) == []


def test_q_reaches_clients_first_drawn_long_after_the_refresh():
    config = small(memory=5, rounds=10, num_clients=12, clients_per_round=2)
    fleet, run = Fleet(quadratics(12)), coordinator(config)
    while not run.finished:
        fleet.round(run)
    later = [b for b in fleet.sent if b.round >= 5]
    first_seen = {b.client: b.round for b in reversed(later)}
    assert max(first_seen.values()) > 5  # somebody came late
    for client, round_ in first_seen.items():
        # Two slots of one round are both sent Q: neither has confirmed it yet.
        assert {b.round for b in later if b.client == client and b.basis is not None} == {round_}


def test_clients_of_one_host_share_what_it_holds():
    config = small(memory=2, rounds=4, **EVERYBODY)
    fleet, run = Fleet(quadratics()), coordinator(config)
    while not run.finished:
        asked = run.ask([replace(member, host="one host") for member in fleet.members])
        run.tell([*fleet.carry(asked), *fleet.carry(run.resend(fleet.carry(asked)))])
    assert with_basis(fleet.sent, 3) == []


def test_a_lost_basis_is_sent_within_the_round():
    config = small(memory=2, rounds=4, **EVERYBODY)
    calm, disturbed = Fleet(quadratics()), Fleet(quadratics())
    expected, run = coordinator(config), coordinator(config)
    for _ in range(3):
        calm.round(expected)
        disturbed.round(run)
    disturbed.forget("1")
    disturbed.forget("3")
    calm.round(expected)
    record = disturbed.round(run)
    assert record is not None
    assert (record.replies, record.attempts, record.failures) == (4, 1, [])
    assert with_basis(disturbed.sent, 3) == ["1", "3"]
    assert run.state.x.tobytes() == expected.state.x.tobytes()


def test_a_basis_lost_twice_loses_the_slot():
    config = small(memory=2, rounds=4, **EVERYBODY)
    fleet, run = Fleet(quadratics()), coordinator(config)
    for _ in range(3):
        fleet.round(run)
    fleet.forget("1")
    updates = fleet.carry(run.ask(fleet.members))
    (again,) = run.resend(updates)
    assert (again.client, again.basis is not None) == ("1", True)
    fleet.forget("1")
    lost_again = fleet.carry([replace(again, basis=None)])
    assert [update.status for update in lost_again] == ["basis-missing"]
    assert run.resend(lost_again) == run.resend(updates) == []
    record = run.tell([*updates, *lost_again])
    assert record is not None
    assert [(f["client"], f["reason"]) for f in record.failures] == [("1", "basis 2 is not held")]


def test_each_slot_gets_its_basis_again():
    config = small(memory=2, clients_per_round=3, num_clients=1)
    fleet, run = Fleet(quadratics(1)), coordinator(config)
    for _ in range(3):
        fleet.round(run)
    fleet.forget("0")
    updates = fleet.carry(run.ask(fleet.members))
    assert [b.slot for b in run.resend(updates)] == [0, 1, 2]
    assert run.resend(updates) == []


def test_the_next_attempt_may_resend_a_basis():
    config = small(memory=2, rounds=4, min_replies=4, **EVERYBODY)
    fleet, run = Fleet(quadratics()), coordinator(config)
    for _ in range(3):
        fleet.round(run)
    for _ in range(2):
        fleet.forget("1")
        updates = fleet.carry(run.ask(fleet.members))
        again = run.resend(updates)
        assert [b.client for b in again] == ["1"]
        assert run.tell([*failing(updates[:1]), *updates[1:], *fleet.carry(again)]) is None


def test_without_resends_the_next_round_sends_it():
    config = small(memory=3, rounds=6, **EVERYBODY)
    fleet, run = Fleet(quadratics()), coordinator(config)
    for _ in range(4):
        fleet.round(run)
    fleet.forget("2")
    record = run.tell(fleet.carry(run.ask(fleet.members)))
    assert record is not None
    assert record.replies == 3
    assert [(f["client"], f["reason"]) for f in record.failures] == [("2", "basis 3 is not held")]
    run.tell(fleet.carry(run.ask(fleet.members)))
    assert with_basis(fleet.sent, 5) == ["2"]


def test_bytes_are_those_of_every_message_both_ways():
    """A resend and its refusal are counted as well."""
    config = small(memory=2, rounds=4, **EVERYBODY)
    fleet, run = Fleet(quadratics()), coordinator(config)
    replies: list[Update] = []

    def collect(updates: list[Update]) -> list[Update]:
        replies.extend(updates)
        return updates

    for round_ in range(4):
        if round_ == 3:
            fleet.forget("0")
        record = fleet.round(run, collect)
    assert record is not None
    assert len(fleet.sent) == len(replies) == 17
    assert record.bytes_down == sum(map(broadcast_bytes, fleet.sent))
    assert record.bytes_up == sum(map(update_bytes, replies))


def test_a_failed_attempt_leaves_the_state():
    config = small(num_clients=12, max_retries=2)
    fleet, run = Fleet(quadratics(12)), coordinator(config)
    state = run.state
    assert fleet.round(run, failing) is None
    assert run.state is state
    record = fleet.round(run)
    assert record is not None
    assert (record.round, record.attempts, record.replies) == (0, 2, 3)
    assert [failure["reason"] for failure in record.failures] == ["the valve is shut"] * 3
    assert [b.client for b in fleet.sent[:3]] != [b.client for b in fleet.sent[3:]]


@pytest.mark.parametrize("max_retries", [0, 1, 3])
def test_failing_rounds_stop_the_run_with_reasons(max_retries: int):
    config = small(max_retries=max_retries, **EVERYBODY)
    fleet, run = Fleet(quadratics()), coordinator(config)
    fleet.round(run)
    state = run.state
    x, trajectory = state.x.copy(), state.trajectory
    for _ in range(max_retries):
        assert fleet.round(run, failing) is None
    with pytest.raises(RoundError) as caught:
        fleet.round(run, failing)
    assert "round 2 had fewer than min-replies = 1" in str(caught.value)
    assert f"in {max_retries + 1} attempts" in str(caught.value)
    for client in fleet.names:
        assert f"client {client}: the valve is shut" in str(caught.value)
    assert run.state is state
    assert state.trajectory is trajectory
    np.testing.assert_array_equal(state.x, x)


def test_the_error_of_many_failures_stays_readable():
    config = small(max_retries=0, num_clients=30, clients_per_round=30, sampling="without-replacement")
    fleet, run = Fleet(quadratics(30)), coordinator(config)
    with pytest.raises(RoundError, match="; and 25 more"):
        fleet.round(run, failing)


def test_a_round_without_any_answer_says_so():
    run = coordinator(small(max_retries=0))
    run.ask([Member("0")])
    with pytest.raises(RoundError, match="no client answered"):
        run.tell([])


def test_slots_that_gave_no_reply_are_recorded():
    fleet, run = Fleet(quadratics()), coordinator(small(**EVERYBODY))
    updates = fleet.carry(run.ask(fleet.members))
    record = run.tell(updates[:3], [Failure(0, 3, updates[3].client, "no-answer", "the connection broke")])
    assert record is not None
    place = {"round": 0, "slot": 3, "step": None, "client": updates[3].client}
    assert record.failures == [place | {"cause": "no-answer", "reason": "the connection broke"}]
    assert record.replies == 3


@pytest.mark.parametrize(("budget", "rounds_done"), [(1, 1), (72, 1), (73, 2), (144, 2), (500, 7)])
def test_no_round_starts_once_the_budget_is_spent(budget: int, rounds_done: int):
    config = small(budget=budget)  # 3 slots of 4 steps of 2 x 3 evaluations: 72 a round
    fleet, run = Fleet(quadratics()), coordinator(config)
    while not run.finished:
        fleet.round(run)
    assert (run.state.round, run.state.totals.evaluations) == (rounds_done, 72 * rounds_done)


def test_a_budget_alone_stops_a_run():
    fleet, run = Fleet(quadratics()), coordinator(small(rounds=0, budget=300))
    while not run.finished:
        fleet.round(run)
    assert run.state.round == 5


@pytest.mark.parametrize(("every", "full"), [(1, [0, 1, 2, 3, 4, 5, 6]), (3, [2, 5, 6]), (0, [6])])
def test_full_evaluations_come_regularly_and_last(every: int, full: list[int]):
    config = small(evaluate_every=every)
    run = Coordinator(
        config, initial_state(config, np.zeros(12)), evaluate=lambda x: FullEvaluation({"train_loss": 7.0})
    )
    records = run_all(run)
    assert [r.round for r in records if r.train_loss_source == "full"] == full
    assert all((r.train_loss == 7.0) == (r.train_loss_source == "full") for r in records)


def test_without_evaluations_the_probes_stand():
    gone = FullEvaluation({}, missing=(Unevaluated("1", "no-answer", "gone"),))
    config = small(evaluate_every=1)
    records = run_all(Coordinator(config, initial_state(config, np.zeros(12)), evaluate=lambda x: gone))
    wanted = run_all(coordinator(config))
    assert [(r.train_loss, r.train_loss_source) for r in records] == [(r.train_loss, "probes") for r in wanted]
    assert all(r.unevaluated == [{"client": "1", "cause": "no-answer", "reason": "gone"}] for r in records)


def test_a_record_has_its_own_rounds_numbers():
    records = run_all(coordinator(small(memory=3, step_schedule="inverse-sqrt")))
    assert [(r.basis_version, r.basis_rank) for r in records] == [(None, 0)] * 3 + [(3, 3)] * 3 + [(6, 3)]
    np.testing.assert_allclose([r.step_size for r in records], 0.05 / np.sqrt(np.arange(1, 8)), rtol=1e-15)


def test_seconds_are_those_of_the_run_so_far():
    ticks = iter(range(100))
    config = small()
    run = Coordinator(config, initial_state(config, np.zeros(12)), clock=lambda: 2.0 * next(ticks))
    assert [record.seconds for record in run_all(run)] == [2.0 * r for r in range(1, 8)]


def test_a_round_without_evaluation_is_not_done():
    def evaluate(x: Vector) -> FullEvaluation:
        raise ObjectiveError("the simulator is gone")

    config = small()
    fleet, run = Fleet(quadratics()), Coordinator(config, initial_state(config, np.zeros(12)), evaluate=evaluate)
    state = run.state
    with pytest.raises(ObjectiveError):
        fleet.round(run)
    assert run.state is state


def run_all(run: Coordinator) -> list[RoundRecord]:
    fleet = Fleet(quadratics())
    records: list[RoundRecord] = []
    run.observers.append(lambda state, record: records.append(record))
    while not run.finished:
        fleet.round(run)
    return records
