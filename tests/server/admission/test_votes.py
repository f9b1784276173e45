"""Whose word counts about the run, where clients say different things."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.server.admission.test_refusal import HELLO
from zofedht.common.wire.clients import OWN_ROWS, Hello
from zofedht.server.admission.votes import Votes, contradict

BOX = replace(HELLO, source="objective", shard_index=OWN_ROWS, shard_count=0)
ROWS = replace(BOX, source="data", names="heat\nflow")


def saying(*hellos: Hello) -> dict[str, Hello]:
    return {hello.name: hello for hello in hellos}


def named(hello: Hello, *names: str) -> list[Hello]:
    return [replace(hello, name=name) for name in names]


@pytest.mark.parametrize(
    ("one", "other", "differ"),
    [
        (HELLO, replace(HELLO, shard_count=7), True),
        (HELLO, replace(HELLO, shard_index=1), False),
        (HELLO, replace(HELLO, shard_index=OWN_ROWS, shard_count=0, dimension=0), False),
        (BOX, replace(BOX, dimension=6), True),
        (BOX, replace(BOX, units=b"x" * 24), True),
        (BOX, replace(BOX, names="a\nb"), True),
        (ROWS, replace(ROWS, names="flow\nheat"), False),
        (ROWS, replace(ROWS, names="flow\nsalt"), True),
    ],
)
def test_what_is_said_otherwise_contradicts(one: Hello, other: Hello, differ: bool):
    assert contradict(one, other) is contradict(other, one) is differ


def test_more_voices_outvote_a_first_claim():
    votes, joined = Votes(), saying(*named(replace(BOX, dimension=7), "liar"))
    first, second = named(BOX, "a", "b")
    assert votes.outvoted(first, joined) == []
    assert votes.outvoted(first, joined) == [], "one client is one voice, however often it tries"
    assert votes.outvoted(second, joined) == list(joined)


def test_one_false_client_outvotes_nobody():
    votes, joined = Votes(), saying(*named(BOX, "a", "b"))
    for name in ("liar", "liar", "liar"):
        assert votes.outvoted(replace(BOX, name=name, dimension=7), joined) == []


def test_only_who_contradicts_must_leave():
    liar, silent = replace(HELLO, name="liar", shard_count=7), replace(HELLO, name="s", shard_index=-1, shard_count=0)
    votes, joined = Votes(), saying(liar, silent)
    votes.outvoted(replace(HELLO, name="a"), joined)
    assert votes.outvoted(replace(HELLO, name="b"), joined) == ["liar"]


def test_old_voices_are_forgotten():
    now = [0.0]
    votes, joined = Votes(lambda: now[0]), saying(*named(replace(BOX, dimension=7), "liar"))
    votes.outvoted(replace(BOX, name="a"), joined)
    now[0] = 1000.0
    assert votes.outvoted(replace(BOX, name="b"), joined) == []
