"""A site's checks on the wire: levels and numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from zofedht.common.errors import MessageError
from zofedht.common.wire.checked import Checked, CheckQuestion, asks_for_check, decode_checked
from zofedht.common.wire.codec import decode, encode

TOLD = Checked(
    evaluations=30,
    value="ok",
    repeats="warning",
    pair="error",
    cause="raised",
    spread=np.array([0.1 + 0.2]),
    flat=np.array([1.0]),
    steep=np.array([0.0, 2.0]),
)


def test_facts_come_back_bit_for_bit() -> None:
    told = decode_checked(encode(TOLD).scalars, 3)
    assert told.levels == {"value": "ok", "repeats": "warning", "pair": "error"}
    assert (told.cause, told.evaluations, told.spread.tolist()) == ("raised", 30, [0.1 + 0.2])
    assert (told.flat.tolist(), told.steep.tolist()) == ([1.0], [0.0, 2.0])


def test_the_question_comes_back() -> None:
    asked = CheckQuestion(200, 1e-3, 64)
    scalars = encode(asked).scalars
    assert asks_for_check(scalars)
    assert decode(CheckQuestion, scalars) == asked


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"check-value": "/etc/passwd"}, "check-value must be one of"),
        ({"check-pair": 7}, "check-pair must be a text"),
        ({"check-cause": "no-answer"}, "check-cause must be one of raised, not-a-loss, not-finite"),
        ({"check-spread": bytes(16)}, "check-spread must hold 1 float64 numbers"),
        ({"check-flat": np.array([3.0]).tobytes()}, "check-flat must hold numbers of the 3 parameters"),
        ({"check-flat": np.array([0.5]).tobytes()}, "check-flat must hold"),
        ({"check-steep": np.array([np.nan]).tobytes()}, "check-steep must hold"),
        ({"check-steep": np.zeros(4).tobytes()}, "check-steep must hold"),
        ({"check-evaluations": 10**9}, "check-evaluations must be at most"),
    ],
)
def test_malformed_facts_are_refused(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(MessageError, match=reason):
        decode_checked(encode(TOLD).scalars | changes, 3)
