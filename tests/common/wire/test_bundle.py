"""Several messages in one: what goes in comes out, and malformed bundles are refused."""

import math
from dataclasses import replace

import numpy as np
import pytest

from zofedht.common.errors import MessageError
from zofedht.common.wire.bundle import bundled, decode_updates, encode_updates, unbundled
from zofedht.common.wire.codec import Encoded
from zofedht.common.wire.messages import Update

DONE = Update(round=3, slot=0, client="a", move=np.arange(4.0), examples=5, evaluations=8, loss=0.5, start_loss=0.25)


def _failed(slot: int) -> Update:
    return Update(round=3, slot=slot, client="b", status="failed", cause="raised", reason="no: it raised", examples=2)


def _same(one: Update, other: Update) -> bool:
    return all(np.array_equal(a, vars(other)[name], equal_nan=isinstance(a, float)) for name, a in vars(one).items())


def test_messages_come_out_as_they_went_in():
    x = np.arange(3.0)
    messages = [Encoded([x], {"slot": 0, "seed": 1}), Encoded([x], {"slot": 1, "seed": 1}), Encoded([], {"slot": 2})]
    arrays, scalars = bundled(messages)
    assert len(arrays) == 1
    assert arrays[0] is x
    assert unbundled(scalars, arrays) == messages


def test_a_shared_value_is_sent_once():
    messages = [Encoded([], {"basis": b"q" * 1000, "slot": slot}) for slot in range(20)]
    scalars = bundled(messages).scalars
    assert list(scalars.values()).count(b"q" * 1000) == 1


def test_one_message_is_not_wrapped():
    message = Encoded([np.ones(2)], {"slot": 0})
    assert bundled([message]) is message
    assert unbundled(message.scalars, message.arrays)[0].scalars == message.scalars


def test_keys_may_have_any_name():
    messages = [Encoded([], {"a:b": 1, "array": 2, "messages": 3, "1:slot": slot}) for slot in range(2)]
    assert unbundled(bundled(messages).scalars, []) == messages


def test_a_zero_keeps_its_sign():
    messages = [Encoded([], {"loss": 0.0}), Encoded([], {"loss": -0.0})]
    signs = [math.copysign(1.0, part.scalars["loss"]) for part in unbundled(bundled(messages).scalars, [])]
    assert signs == [1.0, -1.0]


@pytest.mark.parametrize("updates", [[DONE], [DONE, replace(DONE, slot=1, move=-DONE.move)], [_failed(0), DONE]])
def test_answers_come_out_as_they_went_in(updates: list[Update]):
    arrays, scalars = encode_updates(updates)
    read = decode_updates(scalars, arrays, sum(update.examples for update in updates), len(updates))
    assert all(_same(one, other) for one, other in zip(updates, read, strict=True))


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({":messages": 10**9}, "messages must be a whole number from 1 to 1000"),
        ({":messages": True}, "messages must be a whole number"),
        ({":messages": 1}, "is of none of the 1 messages"),
        ({"0::array": 2}, "array must be the place of one of 2 arrays or -1, got 2"),
        ({"0::array": "0"}, "array must be the place"),
        ({"1::examples": -1}, "examples must be a whole number of at least 0, got -1"),
        ({"x:slot": 1}, "is of none of the 2 messages"),
    ],
)
def test_a_malformed_bundle_is_refused(change: dict[str, object], text: str):
    arrays, scalars = encode_updates([DONE, replace(DONE, slot=1, examples=6, move=-DONE.move)])
    with pytest.raises(MessageError, match=text):
        decode_updates(scalars | change, arrays, 11, 2)
