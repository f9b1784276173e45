"""Who takes part is a function of (seed, round, attempt) and of the names."""

from __future__ import annotations

import math
from collections import Counter

import pytest

from zofedht.common.errors import RoundError
from zofedht.common.wire.clients import Member
from zofedht.server.core.selection import in_order, in_turn, select

MEMBERS = [Member(str(index), index) for index in range(20)]
NAMES = [member.name for member in MEMBERS]
BOTH = pytest.mark.parametrize("sampling", ["with-replacement", "without-replacement"])


def draw(sampling: str, round_: int = 0, attempt: int = 0, seed: int = 3, slots: int = 5) -> list[str]:
    drawn = select(MEMBERS, slots, sampling, seed=seed, round_=round_, attempt=attempt)
    return [member.name for member in drawn]


@BOTH
def test_selection_is_a_function_of_its_arguments(sampling: str):
    assert draw(sampling, round_=7) == draw(sampling, round_=7)


@BOTH
def test_selection_ignores_the_order_in_which_clients_are_listed(sampling: str):
    for listed in (MEMBERS[::-1], MEMBERS[7:] + MEMBERS[:7], sorted(MEMBERS, key=lambda member: member.name)):
        drawn = select(listed, 5, sampling, seed=3, round_=1)
        assert [member.name for member in drawn] == draw(sampling, round_=1)


def test_turns_go_by_partition_and_then_by_name():
    """Names of joined clients are their owners' choice; which rows a slot works on must not hang on them."""
    members = [Member("a", 2), Member("client-10", 1), Member("z", 0), Member("client-2", 1), Member("b"), Member("a1")]
    assert [member.name for member in in_turn(members)] == ["a1", "b", "z", "client-2", "client-10", "a"]


@BOTH
def test_the_draw_depends_on_partitions(sampling: str):
    """Not on names or hosts."""
    renamed = [Member(f"plant {97 * index % 20}", index, host="one host") for index in range(20)]
    for round_ in range(10):
        drawn = select(renamed[::-1], 5, sampling, seed=3, round_=round_)
        assert [str(member.shard_index) for member in drawn] == draw(sampling, round_)
        assert all(member in renamed for member in drawn)


@BOTH
def test_clients_with_own_rows_are_drawn_by_name(sampling: str):
    own = [Member(f"client-{index}") for index in range(20)]
    drawn = select(sorted(own, key=lambda member: member.name), 5, sampling, seed=3, round_=1)
    assert [member.name for member in drawn] == [f"client-{name}" for name in draw(sampling, round_=1)]


def test_names_that_look_alike_have_an_order_too():
    assert in_order(["1", "01", "001"]) == in_order(["001", "1", "01"])


@BOTH
@pytest.mark.parametrize("change", [{"seed": 4}, {"round_": 1}, {"attempt": 1}])
def test_seed_round_and_attempt_each_change_who_is_drawn(sampling: str, change: dict[str, int]):
    assert draw(sampling, slots=20) != draw(sampling, slots=20, **change)


def test_without_replacement_a_round_holds_nobody_twice():
    assert all(len(set(draw("without-replacement", round_))) == 5 for round_ in range(200))


def test_without_replacement_there_are_no_more_slots_than_clients():
    assert sorted(draw("without-replacement", slots=50)) == sorted(NAMES)


def test_with_replacement_there_may_be_more_slots_than_clients():
    assert len(draw("with-replacement", slots=50)) == 50


def test_draws_with_replacement_repeat_by_chance():
    # All of 5 draws from 20 differ with probability p; five standard errors of 2000 rounds.
    p = math.prod(1 - i / 20 for i in range(5))
    rounds = 2000
    differ = sum(len(set(draw("with-replacement", round_))) == 5 for round_ in range(rounds))
    assert abs(differ - p * rounds) < 5 * math.sqrt(rounds * p * (1 - p))


@BOTH
def test_every_client_is_drawn_about_equally_often(sampling: str):
    # Counts of 10,000 draws are binomial(10000, 1/20) with replacement, narrower without: five standard errors.
    counts = Counter(name for round_ in range(2000) for name in draw(sampling, round_))
    tolerance = 5 * math.sqrt(10_000 * 0.05 * 0.95)
    assert all(abs(counts[name] - 500) < tolerance for name in NAMES)


@BOTH
def test_every_slot_sees_every_client(sampling: str):
    for slot in range(5):
        assert {draw(sampling, round_)[slot] for round_ in range(400)} == set(NAMES)


def test_nobody_to_draw_from_names_the_round():
    with pytest.raises(RoundError, match="round 4 has no client"):
        select([], 2, "with-replacement", seed=0, round_=3)


def test_names_are_sorted_as_people_do():
    assert in_order(["client-10", "client-2", "a", "10", "9"]) == ["9", "10", "a", "client-2", "client-10"]


def test_names_with_odd_digits_are_sorted_too():
    assert in_order(["²", "2", "x²"]) == in_order(["x²", "²", "2"])
