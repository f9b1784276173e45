"""A slot that went to another client is that client's: what the first one says then changes nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.helpers import Fleet, quadratics, small
from zofedht.common.wire.clients import Member
from zofedht.common.wire.messages import Update
from zofedht.server.core.coordinator import Coordinator
from zofedht.server.core.state import initial_state

CONFIG = small(memory=2, rounds=6, num_clients=4, clients_per_round=3, sampling="without-replacement")


def after_a_refresh() -> tuple[Fleet, Coordinator]:
    """Return a run before round 2, the first with a basis; nobody holds it yet."""
    fleet = Fleet(quadratics())
    run = Coordinator(CONFIG, initial_state(CONFIG, np.zeros(12)))
    fleet.round(run)
    fleet.round(run)
    return fleet, run


def sent_q(fleet: Fleet, run: Coordinator, members: list[Member]) -> set[str]:
    """Return who would be sent Q if all were asked."""
    run.config = CONFIG.replace(clients_per_round=4)
    return {b.client for b in run.ask(members) if b.basis is not None}


@pytest.mark.parametrize("replies", [True, False])
def test_only_the_last_asked_confirms_its_basis(replies: bool):
    fleet, run = after_a_refresh()
    asked = run.ask(fleet.members[:3])
    again = run.redraw(0, [fleet.members[3]])
    assert again is not None
    assert again.basis is not None
    late = fleet.carry([asked[0]])  # of the first client, which has been given up
    assert late[0].status == "ok"
    record = run.tell([*fleet.carry(asked[1:]), *late, *(fleet.carry([again]) if replies else [])])
    assert record is not None
    assert record.replies == 2 + replies
    assert sent_q(fleet, run, fleet.members) == {asked[0].client} | (set() if replies else {"3"})


def test_the_first_clients_lost_basis_is_not_resent():
    """Another client took over."""
    fleet, run = after_a_refresh()
    asked = run.ask(fleet.members[:3])
    run.redraw(0, [fleet.members[3]])
    late = Update(2, 0, asked[0].client, status="basis-missing", reason="basis 2 is not held")
    assert run.resend([late]) == []
    assert [b.client for b in run.resend([replace(late, client="3")])] == ["3"]


def test_nobody_asks_for_the_basis_of_others():
    fleet, run = after_a_refresh()
    first, second, *_ = run.ask(fleet.members[:3])
    assert run.resend([Update(2, first.slot, second.client, status="basis-missing")]) == []


def test_a_basis_is_confirmed_for_the_host_asked():
    """Its client has moved to another host."""
    fleet, run = after_a_refresh()
    first, second, third = run.ask(fleet.members[:3])
    moved = replace(fleet.members[int(first.client)], host="elsewhere")
    again = run.redraw(second.slot, [moved])  # the client of the first slot, which was asked at its old host
    assert again is not None
    assert again.client == first.client
    run.tell(fleet.carry([first, third]))
    now = [moved if member.name == moved.name else member for member in fleet.members]
    assert sent_q(fleet, run, now) == {first.client, second.client, "3"}
