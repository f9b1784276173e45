"""Questions about points, and their answers, on the wire."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tests.server.fleet.pump import Pump
from zofedht import MessageError, ObjectiveError, Shard
from zofedht.client.flower.numpy_client import ZofedhtClient
from zofedht.client.steps.worker import BasisStore
from zofedht.common.objective.agreement import digest_of
from zofedht.common.objective.parameters import Parameters, parameters_of
from zofedht.common.objective.points import Answer
from zofedht.common.objective.scaling import in_search_units
from zofedht.common.wire.clients import OWN_ROWS, Question
from zofedht.common.wire.codec import encode
from zofedht.common.wire.points import (
    MOST_POINTS,
    decode_answers,
    decode_parameters,
    decode_points,
    encode_answers,
    encode_parameters,
    encode_points,
    parameters_question,
)

POINTS = np.array([[0.5, 50.0], [0.1 + 0.2, 7.0]])
ANSWERS = [Answer(0.1 + 0.2, 0.5), Answer.lost("raised", "it is\nshut", 0.25), Answer(-0.0, 1.0)]


def test_points_come_back_bit_for_bit() -> None:
    np.testing.assert_array_equal(decode_points(encode_points(POINTS), 2), POINTS)


@pytest.mark.parametrize(
    ("points", "reason"),
    [
        (b"", "1 to 1024 vectors of n = 2 numbers, got 0 numbers"),
        (bytes(24), "got 3 numbers"),
        (bytes(7), "got 7 bytes"),
        (bytes(16 * (MOST_POINTS + 1)), "got 2050 numbers"),
        (np.array([1.0, np.nan]).tobytes(), "finite numbers"),
        ("12345678" * 2, "got str"),
    ],
)
def test_malformed_points_are_refused(points: Any, reason: str) -> None:
    with pytest.raises(MessageError, match=reason):
        decode_points({"points": points}, 2)


def test_answers_come_back_with_cause_and_reason() -> None:
    told = decode_answers(encode_answers(ANSWERS), 5)
    assert [answer.cause for answer in told] == [None, "raised", None]
    assert told[1].reason == "it is shut"
    assert [told[0].value, told[0].seconds] == [0.1 + 0.2, 0.5]
    assert math.copysign(1.0, told[2].value) == -1.0


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"values": b""}, "1 to 3 values and as many seconds, got 0 and 3"),
        ({"values": bytes(32), "seconds": bytes(32)}, "got 4 and 4"),
        ({"seconds": bytes(8)}, "got 3 and 1"),
        ({"values": None}, "values must be the bytes of float64 numbers, got NoneType"),
        ({"causes": "\nbored\n"}, "a site's cause must be one of raised, .*, got 'bored'"),
        ({"causes": "\nabsent\n"}, "got 'absent'"),
        ({"causes": "raised"}, "causes must be a text of 3 lines, got 1"),
        ({"reasons": 7}, "reasons must be a text of 3 lines, got 0"),
        ({"causes": "\n\n"}, "a value must be a finite number, or have a cause, got nan"),
    ],
)
def test_malformed_answers_are_refused(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(MessageError, match=reason):
        decode_answers(encode_answers(ANSWERS) | changes, 3)


def test_reasons_are_bounded_lines_without_control_characters() -> None:
    told = encode_answers([Answer.lost("raised", "x" * 10_000)])
    assert len(told["reasons"]) == 200
    [answer] = decode_answers(told | {"reasons": "red \x1b[31m"}, 1)
    assert answer.reason == "red \\x1b[31m"


def test_parameters_come_back_bit_for_bit() -> None:
    mine = parameters_of(Pump(Shard("c1")))
    told = decode_parameters(encode_parameters(mine), 2)
    assert (told.names, told.start.tolist()) == (mine.names, mine.start.tolist())
    assert told.units.digest == mine.units.digest
    bare = decode_parameters(encode_parameters(Parameters(np.zeros(2))), 2)
    assert (bare.names, bare.units) == ((), None)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"start": bytes(8)}, MessageError),
        ({"start": np.array([0.0, np.inf]).tobytes()}, MessageError),
        ({"names": b"ab"}, MessageError),
        ({"names": "a\na"}, ObjectiveError),
        ({"units": bytes(40)}, MessageError),
        ({"units": bytes(48)}, ObjectiveError),
    ],
)
def test_malformed_parameters_are_refused(changes: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        decode_parameters(encode_parameters(parameters_of(Pump(Shard("c1")))) | changes, 2)


def ask(question: dict[str, Any], units: str = "") -> dict[str, Any]:
    objective = in_search_units(Pump(Shard("c1")))
    client = ZofedhtClient(lambda question: objective, BasisStore())
    asked = Question("c1", OWN_ROWS, 0, "{}", 2, units or digest_of(objective))
    return client.evaluate([], encode(asked).scalars | question)[2]


def test_a_client_answers_about_points_and_parameters() -> None:
    answers = decode_answers(ask(encode_points(POINTS)), 2)
    assert [answer.value for answer in answers] == [Pump(Shard("c1")).value(x, slice(None)) for x in POINTS]
    assert decode_parameters(ask(parameters_question()), 2).names == ("valve", "pause")


def test_a_client_refuses_malformed_points() -> None:
    assert "points must be 1 to" in ask({"points": bytes(24)})["reason"]
    assert "within the bounds" in ask(encode_points(POINTS + 100.0))["reason"]
    assert (
        "scale and bounds of this client's objective are not the run's" in ask(encode_points(POINTS), "other")["reason"]
    )
