"""Who is connected, by name, and who holds which share; without a network."""

from __future__ import annotations

import logging
from collections.abc import Mapping

import pytest

from zofedht.common.errors import DataError
from zofedht.common.replay import draw_digest
from zofedht.common.wire.clients import OWN_ROWS, PROTOCOL, Hello
from zofedht.server.delivery.traffic import Traffic
from zofedht.server.grpc.conversation import Conversation, LostClient
from zofedht.server.grpc.event_loop import event_loop
from zofedht.server.grpc.fit_encoder import FitEncoder
from zofedht.server.grpc.resident_proxy import ResidentProxy
from zofedht.server.grpc.roster import Roster


def proxy(name: str, instance: str = "", shard_index: int = OWN_ROWS) -> ResidentProxy:
    hello = Hello(name, instance or name, "partition", shard_index, 0, 0, 0, PROTOCOL, "0.1.0", draw_digest())
    return ResidentProxy(hello, Conversation(event_loop(), 1000), FitEncoder(), Traffic().of(hello.name))


@pytest.fixture
def roster() -> Roster:
    return Roster(lambda text: None)


def shares(roster: Roster) -> dict[str, int]:
    return {name: proxy.shard_index for name, proxy in roster.connected().items()}


def test_who_joins_and_who_leaves_is_logged_with_its_facts(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO)
    roster, client = Roster(), proxy("pi-1")
    roster.admit(client)
    roster.leave(client)
    joined, left = (vars(record)["facts"] for record in caplog.records)
    assert joined == {"event": "joined", "client": "pi-1", "rows": None, "connected": 1}
    assert left == {"event": "left", "client": "pi-1", "reason": "", "connected": 0}


def test_partitions_are_dealt_by_name(roster: Roster):
    for name in ("c10", "c2", "c1"):
        assert roster.admit(proxy(name)) is None
    roster.deal([4, 4, 3], {}, lambda dealt: None)
    assert shares(roster) == {"c1": 0, "c2": 1, "c10": 2}


def test_a_name_keeps_its_partition(roster: Roster):
    kept = {"b": 0, "c": 1}
    for name in ("a", "b", "c"):  # a is new, and comes first in the order of names
        roster.admit(proxy(name))
    roster.deal([4, 4, 3], kept, lambda dealt: None)
    assert shares(roster) == {"a": 2, "b": 0, "c": 1}


def test_late_clients_get_the_rarest_partition(roster: Roster):
    told: list[dict[str, int]] = []
    roster.deal([6, 5], {}, lambda dealt: told.append(dict(dealt)))
    for name in "abcd":
        roster.admit(proxy(name))
    assert shares(roster) == {"a": 0, "b": 1, "c": 0, "d": 1}
    assert told[-1] == shares(roster)


def test_a_named_partition_is_kept(roster: Roster):
    roster.admit(proxy("a", shard_index=1))
    roster.deal([6, 5], {}, lambda dealt: None)
    roster.admit(proxy("b"))
    assert shares(roster) == {"a": 1, "b": 0}


def test_a_full_disk_does_not_keep_a_client_out(roster: Roster):
    def full(dealt: Mapping[str, int]) -> None:
        raise DataError("run.json cannot be written")

    roster.deal([6, 5], {}, full)
    assert roster.admit(proxy("a")) is None
    assert shares(roster) == {"a": 0}


def test_a_name_is_taken_while_its_stream_lives(roster: Roster):
    first = proxy("a")
    roster.admit(first)
    assert "connected already" in str(roster.admit(proxy("a", "another process")))
    first.conversation.close()
    assert roster.admit(proxy("a", "another process")) is None


def test_the_same_process_replaces_its_old_connection(roster: Roster):
    first, second = proxy("a"), proxy("a")
    roster.admit(first)
    assert roster.admit(second) is None
    assert first.conversation.closed
    roster.leave(first)  # the old stream's end is heard late
    assert roster.connected() == {"a": second}


def test_a_late_client_is_not_drawn(roster: Roster):
    late = proxy("a")
    roster.admit(late)
    roster.admit(proxy("b"))
    with pytest.raises(LostClient):
        late.conversation.ask(b"work", 0.01)
    assert list(roster.connected()) == ["a", "b"]
    assert [member.name for member in roster.members()] == ["b"]


def test_visits_are_told_and_a_full_disk_refuses_nobody(roster: Roster):
    seen: list[str] = []

    def full(name: str, why: str) -> None:
        seen.append(name)
        raise DataError("clients.jsonl cannot be written")

    roster.on_join, roster.on_leave = seen.append, full
    client = proxy("a")
    assert roster.admit(client) is None
    roster.leave(client)
    assert seen == ["a", "a"]
    assert shares(roster) == {}
