"""Who holds what: a broadcast is completed with what its host lacks, and with nothing else."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.helpers import broadcast, changed, reply
from zofedht.common.wire.arrays import basis_digest
from zofedht.common.wire.clients import Member
from zofedht.common.wire.messages import Broadcast
from zofedht.server.delivery.holdings import Holdings

Q = np.eye(3)[:, :2]
ASKED = broadcast(basis_version=4, basis_digest=basis_digest(Q), basis_rank=2)


def along_slopes() -> Holdings:
    """Return what is held in a run that sends mean slopes in the place of x."""
    return Holdings("slopes", memory=2, refresh=2)


def moved(held: Holdings, asked: Broadcast) -> Broadcast:
    """Let the round pass, by one mean slope a step; return what the next round asks."""
    x = asked.x + 1.0
    held.moved(asked, np.array([0.5, 0.25]), x)
    return changed(asked, round=asked.round + 1, x=x)


def test_q_goes_to_a_host_until_it_confirms():
    held = Holdings("x", memory=2, refresh=2)
    assert held.complete(ASKED, "a", Q).basis is Q
    sent = held.complete(ASKED, "a", Q)
    assert sent.basis is Q
    held.confirm(reply(sent), sent, "a")
    assert held.complete(ASKED, "a", Q).basis is None
    assert held.complete(ASKED, "b", Q).basis is Q


def test_a_host_that_failed_has_confirmed_nothing():
    held = Holdings("x", memory=2, refresh=2)
    sent = held.complete(ASKED, "a", Q)
    held.confirm(reply(sent, None, status="failed"), sent, "a")
    assert held.complete(ASKED, "a", Q).basis is Q


def test_another_q_is_sent_again():
    held = Holdings("x", memory=2, refresh=2)
    held.confirm(reply(ASKED), held.complete(ASKED, "a", Q), "a")
    other = Q[::-1]
    assert held.complete(replace(ASKED, basis_digest=basis_digest(other)), "a", other).basis is other


@pytest.mark.parametrize("status", ["basis-missing", "x-missing"])
def test_a_host_that_says_so_has_lost_q(status: str):
    held = Holdings("x", memory=2, refresh=2)
    sent = held.complete(ASKED, "a", Q)
    held.confirm(reply(sent), sent, "a")
    held.confirm(reply(ASKED, None, status=status), ASKED, "a")
    assert held.complete(ASKED, "a", Q).basis is Q


def test_isotropic_rounds_send_no_q():
    assert Holdings("x", memory=2, refresh=2).complete(broadcast(), "a", None, with_basis=True).basis is None


def test_who_confirmed_an_x_gets_the_trail():
    held = along_slopes()
    asked = broadcast(uplink="slopes", direction_slot=0)
    sent = held.complete(asked, "a", None)
    assert (sent.trail, sent.x.shape) == (None, (3,))
    held.confirm(reply(sent), sent, "a")
    later = moved(held, asked)
    told = held.complete(later, "a", None)
    assert told.trail is not None
    assert [step.lengths.tolist() for step in told.trail] == [[0.5, 0.25]]
    assert (told.x.shape, told.size, told.x_digest) == ((0,), 3, held.complete(later, "b", None).x_digest)
    assert held.complete(later, "b", None).trail is None


def test_a_move_without_slopes_breaks_the_trail():
    held = along_slopes()
    asked = broadcast(uplink="slopes", direction_slot=0)
    sent = held.complete(asked, "a", None)
    held.confirm(reply(sent), sent, "a")
    x = asked.x + 1.0
    held.moved(asked, None, x)
    assert held.complete(changed(asked, round=5, x=x), "a", None).trail is None


def test_a_lost_x_is_sent_in_full():
    held = along_slopes()
    asked = broadcast(uplink="slopes", direction_slot=0)
    sent = held.complete(asked, "a", None)
    held.confirm(reply(sent), sent, "a")
    later = moved(held, asked)
    held.forget(reply(later, None, status="x-missing"), "a")
    assert held.complete(later, "a", None).trail is None


@pytest.mark.parametrize(
    "member", [Member("0", host="a", keeps_x=False), Member("0", host="a", moves_only="other draws")]
)
def test_x_always_goes_to_hosts_that_cannot_follow_it(member: Member):
    held = along_slopes()
    asked = broadcast(uplink="slopes", direction_slot=0)
    held.meet(member, asked)
    sent = held.complete(asked, "a", None)
    held.confirm(reply(sent), sent, "a")
    told = held.complete(moved(held, asked), "a", None)
    assert (told.trail, told.x_digest) == (None, "")
