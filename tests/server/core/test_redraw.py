"""A slot whose client gave no answer goes to another client, and which one is no accident."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.helpers import Fleet, quadratics, small
from zofedht.common.config.run_config import RunConfig
from zofedht.common.wire.clients import Member
from zofedht.server.core.coordinator import Coordinator
from zofedht.server.core.selection import redraw
from zofedht.server.core.state import initial_state

MEMBERS = [Member(str(index), index, str(index)) for index in range(12)]
CONFIG = small(num_clients=12, clients_per_round=4, memory=2, max_retries=3)


def coordinator(config: RunConfig = CONFIG) -> Coordinator:
    return Coordinator(config, initial_state(config, np.zeros(12)))


def test_a_redraw_does_not_depend_on_the_listing():
    drawn = redraw(MEMBERS, seed=3, round_=5, slot=2, lost=1)
    assert redraw(MEMBERS[::-1], seed=3, round_=5, slot=2, lost=1) == drawn


@pytest.mark.parametrize("change", [{"seed": 4}, {"round_": 6}, {"slot": 1}, {"lost": 2}])
def test_each_argument_changes_who_takes_over(change: dict[str, int]):
    many = [Member(str(index), index) for index in range(10_000)]  # so that no two draws agree by chance
    name = {"seed": 3, "round_": 5, "slot": 2, "lost": 1}
    assert redraw(many, **name) != redraw(many, **(name | change))


def test_nobody_can_take_over_when_nobody_is_there():
    assert redraw([], seed=0, round_=0, slot=0, lost=1) is None


def test_a_slot_never_goes_back_to_who_lost_it():
    run = coordinator(small(num_clients=12, max_retries=50))
    (first, *_) = run.ask(MEMBERS)
    seen = [first.client]
    while (again := run.redraw(0, MEMBERS)) is not None:
        assert again.client not in seen
        assert again.shard_index == int(again.client)
        seen.append(again.client)
    assert sorted(seen, key=int) == [member.name for member in MEMBERS]


@pytest.mark.parametrize("max_retries", [0, 1, 3])
def test_redraws_end_at_max_retries(max_retries: int):
    run = coordinator(CONFIG.replace(max_retries=max_retries))
    run.ask(MEMBERS)
    assert [run.redraw(1, MEMBERS) is not None for _ in range(5)] == [again < max_retries for again in range(5)]


def test_only_who_is_there_now_can_take_over():
    run = coordinator()
    (first, *_) = run.ask(MEMBERS)
    other = next(member for member in MEMBERS if member.name != first.client)
    again = run.redraw(0, [other])
    assert again is not None
    assert again.client == other.name


def test_only_slots_that_were_asked_are_redrawn():
    run = coordinator()
    run.ask(MEMBERS)
    assert run.redraw(77, MEMBERS) is None


def test_who_takes_over_is_sent_q():
    fleet, run = Fleet(quadratics(12)), coordinator(CONFIG.replace(memory=5))
    for _ in range(6):
        fleet.round(run)
    holders = {b.client for b in fleet.sent if b.basis is not None}  # those of round 5
    run.ask(MEMBERS)
    again = run.redraw(0, MEMBERS)
    assert again is not None
    assert (again.basis is None) == (again.client in holders)


def test_the_work_of_a_slot_is_the_slots():
    """Only the data are those of the client."""
    run = coordinator()
    (first, *_) = run.ask(MEMBERS)
    again = run.redraw(0, MEMBERS)
    assert again is not None
    assert replace(again, client=first.client, shard_index=first.shard_index) == first


def test_the_reply_of_who_took_over_counts():
    """That of the first client counts no longer."""
    fleet, run = Fleet(quadratics(12)), coordinator()
    asked = run.ask(MEMBERS)
    again = run.redraw(0, MEMBERS)
    assert again is not None
    record = run.tell(fleet.carry([*asked, again]))
    assert record is not None
    assert record.replies == 4
    assert [(f["slot"], f["client"]) for f in record.failures] == [(0, asked[0].client)]
    assert f"asked was client {again.client}" in str(record.failures[0]["reason"])
