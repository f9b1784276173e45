"""Screening names what is wrong with a reply, and puts the usable ones in the order of slots."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.helpers import broadcast, changed, reply
from zofedht.server.aggregation.screening import screen

ASKED = {slot: broadcast(slot, client) for slot, client in enumerate(["2", "0", "2"])}


@pytest.mark.parametrize(
    ("changes", "cause", "reason"),
    [
        ({"move": np.array([1.0, np.nan, 0.0])}, "not-finite", "the move must not hold NaN or inf"),
        ({"move": np.array([1.0, np.inf, 0.0])}, "not-finite", "the move must not hold NaN or inf"),
        ({"move": np.zeros(4)}, "malformed", r"wrong shape: the move must be \(3,\), got \(4,\)"),
        (
            {"move": None, "slopes": np.zeros(2), "sketch": np.zeros(4)},
            "malformed",
            "asked for its move, it sent slopes",
        ),
        ({"round": 3}, "stale", "answered round 4, asked was round 5"),
        ({"slot": 9}, "stale", "slot 9 was not asked"),
        ({"client": "7"}, "stale", "answered by client 7, asked was client 0"),
        (
            {"status": "failed", "cause": "raised", "reason": "the valve is shut", "move": None},
            "raised",
            "the valve is shut",
        ),
        ({"status": "failed", "reason": "no cause", "move": None}, "refused", "no cause"),
        ({"status": "basis-missing", "cause": "not-held", "move": None}, "not-held", "basis-missing"),
        ({"examples": 0}, "malformed", "examples must be at least 1, got 0"),
        (
            {"evaluations": 10**15},
            "malformed",
            "evaluations must be 4, as many as were asked for, got 1000000000000000",
        ),
        ({"evaluations": 0}, "malformed", "evaluations must be 4, as many as were asked for, got 0"),
    ],
)
def test_an_unusable_reply_fails_with_a_cause(changes: dict[str, Any], cause: str, reason: str):
    good = reply(ASKED[0])
    bad = reply(ASKED[1], **changes)
    usable, failures = screen([bad, good], ASKED)
    assert usable == [good]
    (failure,) = failures
    assert (failure.round, failure.slot, failure.client, failure.cause) == (bad.round, bad.slot, bad.client, cause)
    assert re.search(reason, failure.reason)


POINTS = changed(ASKED[0], points=np.zeros((2, 3)), repeats=2, local_steps=4, batch_size=5)
VALUES = reply(POINTS, None, values=np.array([1.0, np.nan, 2.0, 3.0]), skipped=1, examples=9, evaluations=20)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"values": np.ones(3)}, r"values must be 4 numbers, finite or NaN, got shape \(3,\)"),
        ({"values": np.array([1.0, np.inf, 2.0, np.nan])}, "values must be 4 numbers, finite or NaN"),
        ({"skipped": 0}, "1 values are lost of 9 samples, it says 0"),
        ({"examples": 0}, "1 values are lost of 0 samples"),
        ({"evaluations": 4}, "evaluations must be 20"),
        ({"values": None, "move": np.zeros(3)}, "asked for 4 values of F, it sent none"),
    ],
)
def test_values_that_were_not_asked_for_are_malformed(changes: dict[str, Any], reason: str):
    assert screen([VALUES], {0: POINTS}) == ([VALUES], [])
    usable, [failure] = screen([replace(VALUES, **changes)], {0: POINTS})
    assert (usable, failure.cause) == ([], "malformed")
    assert re.search(reason, failure.reason)
    assert screen([VALUES], {0: ASKED[0]})[0] == []


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"slopes": np.zeros(3)}, r"wrong shape: the slopes must be \(2,\), got \(3,\)"),
        ({"slopes": np.array([0.0, np.nan])}, "the slopes must not hold NaN or inf"),
        ({"sketch": None}, r"wrong shape: the sketch must be \(4,\), got nothing"),
        ({"sketch": np.full(4, np.inf)}, "the sketch must not hold NaN or inf"),
        ({"slopes": None, "sketch": None, "move": np.zeros(3)}, "asked for its slopes, it sent a move"),
    ],
)
def test_unusable_slopes_fail_with_a_reason(changes: dict[str, Any], reason: str):
    asked = {0: broadcast(0, "2", uplink="slopes")}
    good = reply(asked[0], **{"move": None, "slopes": np.zeros(2), "sketch": np.zeros(4)})
    assert screen([good], asked) == ([good], [])
    usable, [failure] = screen([replace(good, **changes)], asked)
    assert usable == []
    assert re.search(reason, failure.reason)


@pytest.mark.parametrize("losses", [{"loss": np.inf}, {"start_loss": np.nan}, {"loss": np.nan, "start_loss": -np.inf}])
def test_infinite_losses_keep_the_move(losses: dict[str, float]):
    strange = reply(ASKED[0], **losses)
    [usable], failures = screen([strange], ASKED)
    assert (usable.slot, failures) == (strange.slot, [])


@pytest.mark.parametrize("loss", [1.7e308, -1e101, np.inf, -np.inf])
def test_a_loss_beyond_1e100_counts_as_infinite(loss: float):
    [usable], _ = screen([reply(ASKED[0], loss=loss, start_loss=loss)], ASKED)
    assert (usable.loss, usable.start_loss) == (np.inf, np.inf)


def test_a_second_reply_for_a_slot_is_left_out():
    first, second = reply(ASKED[1]), reply(ASKED[1])
    usable, failures = screen([first, second], ASKED)
    assert usable == [first]
    assert [failure.reason for failure in failures] == ["a second reply for the same slot"]


def test_a_bad_reply_replaces_no_good_one():
    good = reply(ASKED[1])
    usable, failures = screen([reply(ASKED[1], move=np.full(3, np.nan)), good], ASKED)
    assert usable == [good]
    assert len(failures) == 1


def test_usable_replies_come_in_slot_order():
    replies = [reply(ASKED[slot]) for slot in ASKED]
    for arrived in itertools.permutations(replies):
        usable, failures = screen(arrived, ASKED)
        assert usable == replies
        assert not failures
