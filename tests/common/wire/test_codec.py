"""The wire: what is sent arrives bit for bit, and what is not a message is refused by name."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest

from tests.common.samples import orthonormal
from zofedht.common.errors import MessageError, ObjectiveError
from zofedht.common.wire.codec import (
    decode_broadcast,
    decode_figures,
    decode_hello,
    decode_question,
    decode_update,
    encode_broadcast,
    encode_hello,
    encode_no_figures,
    encode_question,
    encode_update,
)
from zofedht.common.wire.messages import (
    NO_BASIS,
    OWN_ROWS,
    Broadcast,
    Hello,
    Question,
    TrailStep,
    Update,
    basis_digest,
    rounded,
)

# Numbers whose bits are easily lost: signed zero, the smallest, the largest, and no short decimal form.
_X = np.array([-0.0, 5e-324, 1.7976931348623157e308, 0.1, -1.0 / 3.0, 2.0**-1022, np.pi])
_Q = orthonormal(7, 3)
_ISOTROPIC = Broadcast(
    round=11, slot=2, client="client-\u00fc 3", partition=3, x=_X, seed=2**63 - 1, step_size=0.1, radius=1e-4,
    local_steps=50, batch_size=0, slope="forward", probe="sphere", kernel="numpy",
    weight=1.0 / 3.0, gain=7.0 / 3.0, task='{"seed": 1}',
)  # fmt: skip
_ALONG = dataclasses.replace(_ISOTROPIC, version=10, rank=3, digest=basis_digest(_Q))
_WITH_BASIS = dataclasses.replace(_ALONG, basis=_Q)
_EMPTY_BASIS = dataclasses.replace(_ALONG, rank=0, digest=basis_digest(_Q[:, :0]), basis=_Q[:, :0])
_DONE = Update(
    round=11, slot=2, client="3", move=_X, draws="5d0c", examples=40, evaluations=6_400, loss=0.1,
    start_loss=1.0 / 3.0,
)  # fmt: skip
_SLOPES = Update(
    round=11, slot=2, client="3", slopes=_X[2:], sketch=_X[:4], examples=40, evaluations=6_400, loss=0.1,
    start_loss=5e-324,
)  # fmt: skip
_SHARED = dataclasses.replace(_ISOTROPIC, uplink="slopes", direction_slot=0)
_TRAIL = dataclasses.replace(
    _SHARED, x=np.empty(0), size=7, local_steps=6, x_digest="0a1b", memory=5,
    trail=(TrailStep(0.0, 1.0, NO_BASIS, _X[1:]), TrailStep(1.0 / 3.0, 7.0 / 3.0, 10, _X[:6])),
)  # fmt: skip
_F32, _Q32 = rounded(_X[3:6], "float32"), rounded(_Q[:3], "float32")
_SINGLE = dataclasses.replace(
    _ALONG, x=_F32, dtype="float32", basis=_Q32, digest=basis_digest(_Q32),
)  # fmt: skip
_SINGLE_MOVE = dataclasses.replace(_DONE, move=_F32, dtype="float32")
_RAN_AWAY = dataclasses.replace(_DONE, loss=math.inf, start_loss=-math.inf)
_EMPTY_TRAIL = dataclasses.replace(_TRAIL, trail=(), basis=_Q, version=10, rank=3, digest=basis_digest(_Q))
_FAILED = Update(round=11, slot=2, client="3", status="failed", cause="not-finite", step=4, reason="NaN")
_QUESTION = Question("3", 5, 2**63 - 1, '{"seed": 1}', 785)
_HELLO = Hello(
    name="plant-\u00fc 3", instance="5f2b", source="data", partition=OWN_ROWS, partitions=0, examples=40, dimension=785,
    protocol=1, version="0.1.0",
    draws="5d0c",
)  # fmt: skip
_BASIS_MISSING = Update(round=11, slot=2, client="3", status="basis-missing", reason="basis 10 is not held")


def _assert_same(got: Any, sent: Any) -> None:
    for field in dataclasses.fields(sent):
        one, other = getattr(got, field.name), getattr(sent, field.name)
        if isinstance(other, np.ndarray):
            assert (one.dtype, one.shape, one.tobytes()) == (np.float64, other.shape, other.tobytes()), field.name
        else:
            assert type(one) is type(other), field.name
            assert one == other or (one != one and other != other), field.name  # NaN is a loss of no evaluation


@pytest.mark.parametrize("message", [_ISOTROPIC, _ALONG, _WITH_BASIS, _EMPTY_BASIS, _SHARED, _SINGLE])
def test_a_broadcast_arrives_bit_for_bit(message: Broadcast) -> None:
    _assert_same(decode_broadcast(*encode_broadcast(message)), message)


@pytest.mark.parametrize("message", [_DONE, _SLOPES, _SINGLE_MOVE, _RAN_AWAY, _FAILED, _BASIS_MISSING])
def test_an_update_arrives_bit_for_bit(message: Update) -> None:
    _assert_same(decode_update(*encode_update(message)), message)


@pytest.mark.parametrize("question", [_QUESTION, Question("", OWN_ROWS, 0, "{}"), Question("3", 5, 1, "{}", 2, "ab")])
def test_a_question_arrives(question: Question) -> None:
    _assert_same(decode_question(encode_question(question)), question)


@pytest.mark.parametrize("units", [b"", bytes(32), bytes(48)])
def test_units_are_told_in_full_or_as_a_digest_and_other_lengths_are_refused(units: bytes) -> None:
    hello = dataclasses.replace(_HELLO, dimension=2, units=units)
    _assert_same(decode_hello(encode_hello(hello)), hello)
    with pytest.raises(MessageError, match="units must hold scale and both bounds of 2 parameters"):
        decode_hello(encode_hello(hello) | {"units": units + b"x"})


def test_a_reason_in_the_place_of_figures_is_the_clients_error() -> None:
    with pytest.raises(ObjectiveError, match="the sensor is gone"):
        decode_figures(encode_no_figures("raised", "the sensor is gone"))
    assert decode_figures({"loss": 1.0, "cause": 2.0}) == {"loss": 1.0, "cause": 2.0}  # a figure may have any name


@pytest.mark.parametrize("source", ["partition", "data", "objective"])
def test_a_hello_arrives(source: str) -> None:
    hello = dataclasses.replace(_HELLO, source=source)
    _assert_same(decode_hello(encode_hello(hello)), hello)


@pytest.mark.parametrize("layout", [np.asfortranarray(_Q), np.hstack([_Q, _Q])[:, :3], _Q.astype(">f8")])
def test_the_basis_is_sent_row_by_row_whatever_its_layout_in_memory(layout: np.ndarray) -> None:
    assert basis_digest(layout) == basis_digest(_Q)
    got = decode_broadcast(*encode_broadcast(dataclasses.replace(_WITH_BASIS, basis=layout)))
    assert got.basis is not None
    np.testing.assert_array_equal(got.basis, _Q)


def test_digest_tells_bases_apart_and_is_empty_without_one() -> None:
    digests = {basis_digest(basis) for basis in (_Q, -_Q, _Q[:, ::-1], _Q[:, :2], None)}
    assert len(digests) == 5
    assert basis_digest(None) == ""


def test_configs_hold_only_what_flower_carries() -> None:
    messages = (
        encode_broadcast(_WITH_BASIS)[1],
        encode_update(_DONE)[2],
        encode_question(_QUESTION),
        encode_hello(_HELLO),
    )
    for config in messages:
        assert {type(value) for value in config.values()} <= {bool, bytes, float, int, str}


def test_a_message_without_basis_carries_no_trace_of_one() -> None:
    assert not {"basis", "basis-rank", "basis-digest"} & set(encode_broadcast(_ISOTROPIC)[1])
    assert "basis" not in encode_broadcast(_ALONG)[1]
    assert _ISOTROPIC.version == NO_BASIS
    assert not _ISOTROPIC.needs_basis


_KEYS = sorted(set(encode_broadcast(_WITH_BASIS)[1]) - {"basis"})  # without the basis it is a message all the same
_UPDATE_KEYS = sorted(encode_update(_DONE)[2])


@pytest.mark.parametrize("key", _KEYS)
def test_a_broadcast_without_a_key_is_refused(key: str) -> None:
    arrays, config = encode_broadcast(_WITH_BASIS)
    del config[key]
    with pytest.raises(
        MessageError, match=f"the message has no '{key}'; server and client may be of different versions"
    ):
        decode_broadcast(arrays, config)


@pytest.mark.parametrize("key", _UPDATE_KEYS)
def test_an_update_without_a_key_is_refused(key: str) -> None:
    arrays, examples, metrics = encode_update(_DONE)
    del metrics[key]
    with pytest.raises(MessageError, match=f"the message has no '{key}'"):
        decode_update(arrays, examples, metrics)


@pytest.mark.parametrize("key", sorted(encode_question(_QUESTION)))
def test_a_question_without_a_key_is_refused(key: str) -> None:
    config = encode_question(_QUESTION)
    del config[key]
    with pytest.raises(MessageError, match=f"the message has no '{key}'"):
        decode_question(config)


@pytest.mark.parametrize("key", sorted(encode_hello(_HELLO)))
def test_a_hello_without_a_key_is_refused(key: str) -> None:
    config = encode_hello(_HELLO)
    del config[key]
    with pytest.raises(MessageError, match=f"the message has no '{key}'"):
        decode_hello(config)


def _wrong(value: Any) -> tuple[Any, ...]:
    """Return values of other types than ``value`` has."""
    return {int: (1.0, True, "1", None), float: ("1.0", True, None), str: (1, b"text", None)}[type(value)]  # type: ignore[return-value]


@pytest.mark.parametrize("key", _KEYS)
def test_a_broadcast_of_wrong_types_is_refused(key: str) -> None:
    arrays, config = encode_broadcast(_WITH_BASIS)
    for value in _wrong(config[key]):
        with pytest.raises(MessageError, match=f"^{key} must be a .*, got {value!r}"):
            decode_broadcast(arrays, config | {key: value})


@pytest.mark.parametrize("key", _UPDATE_KEYS)
def test_an_update_of_wrong_types_is_refused(key: str) -> None:
    arrays, examples, metrics = encode_update(_DONE)
    for value in _wrong(metrics[key]):
        with pytest.raises(MessageError, match=f"^{key} must be a .*, got {value!r}"):
            decode_update(arrays, examples, metrics | {key: value})


@pytest.mark.parametrize("key", sorted(encode_question(_QUESTION)))
def test_a_question_of_wrong_types_is_refused(key: str) -> None:
    config = encode_question(_QUESTION)
    for value in _wrong(config[key]):
        with pytest.raises(MessageError, match=f"^{key} must be a .*, got {value!r}"):
            decode_question(config | {key: value})


@pytest.mark.parametrize("key", sorted(encode_hello(_HELLO)))
def test_a_hello_of_wrong_types_is_refused(key: str) -> None:
    config = encode_hello(_HELLO)
    for value in _wrong(config[key]):
        with pytest.raises(MessageError, match=f"^{key} must be a .*, got {value!r}"):
            decode_hello(config | {key: value})


@pytest.mark.parametrize(
    ("key", "least"), [("partition", OWN_ROWS), ("partitions", 0), ("examples", 0), ("dimension", 0)]
)
def test_a_hello_out_of_range_is_refused(key: str, least: int) -> None:
    with pytest.raises(MessageError, match=f"{key} must be a whole number of at least {least}, got {least - 1}"):
        decode_hello(encode_hello(_HELLO) | {key: least - 1})


@pytest.mark.parametrize(("key", "least"), [("partition", OWN_ROWS), ("seed", 0), ("dimension", 0)])
def test_a_question_out_of_range_is_refused(key: str, least: int) -> None:
    with pytest.raises(MessageError, match=f"{key} must be a whole number of at least {least}, got {least - 1}"):
        decode_question(encode_question(_QUESTION) | {key: least - 1})


@pytest.mark.parametrize(
    ("key", "value", "bound"),
    [
        ("round", -1, 0),
        ("partition", -2, -1),
        ("slot", -1, 0),
        ("seed", -1, 0),
        ("local-steps", 0, 1),
        ("batch-size", -1, 0),
    ],
)
def test_a_broadcast_out_of_range_is_refused(key: str, value: int, bound: int) -> None:
    arrays, config = encode_broadcast(_ISOTROPIC)
    with pytest.raises(MessageError, match=f"{key} must be a whole number of at least {bound}, got {value}"):
        decode_broadcast(arrays, config | {key: value})


def test_unknown_names_are_refused_with_the_known_ones() -> None:
    arrays, config = encode_broadcast(_ISOTROPIC)
    with pytest.raises(MessageError, match="slope must be one of central, forward, got 'backward'"):
        decode_broadcast(arrays, config | {"slope": "backward"})
    moves, examples, metrics = encode_update(_DONE)
    with pytest.raises(
        MessageError, match="status must be one of ok, basis-missing, x-missing, failed, stopped, got 'fine'"
    ):
        decode_update(moves, examples, metrics | {"status": "fine"})
    with pytest.raises(MessageError, match="source must be one of partition, data, objective, got 'rumour'"):
        decode_hello(encode_hello(_HELLO) | {"source": "rumour"})


_NO_VECTORS: list[tuple[list[Any], str]] = [
    ([], "must hold one array, {}, got 0"),
    ([_X, _X], "must hold one array, {}, got 2"),
    ([np.zeros(7, np.float32)], r"{} must be a float64 vector, got float32 \(7,\)"),
    ([_X.astype(">f8")], "{} must be a float64 vector, got >f8"),
    ([_X[:, None]], r"{} must be a float64 vector, got float64 \(7, 1\)"),
    ([np.float64(1.0)], "{} must be a float64 vector, got float64"),
    ([list(_X)], "{} must be a float64 vector, got list"),
    ([np.arange(7)], "{} must be a float64 vector, got int64"),
]


@pytest.mark.parametrize(("arrays", "complaint"), _NO_VECTORS)
def test_anything_but_one_float64_vector_is_refused(arrays: list[Any], complaint: str) -> None:
    with pytest.raises(MessageError, match=complaint.format("x")):
        decode_broadcast(arrays, encode_broadcast(_ISOTROPIC)[1])
    with pytest.raises(MessageError, match=complaint.format("move")):
        decode_update(arrays, 40, encode_update(_DONE)[2])


def test_moves_of_replies_that_did_not_succeed_are_not_read() -> None:
    _, examples, metrics = encode_update(_FAILED)
    assert decode_update([_X], examples, metrics).move is None


@pytest.mark.parametrize("data", [b"", _Q.tobytes()[:-1], _Q.tobytes() + b"\0", _Q[:, :2].tobytes()])
def test_a_basis_of_another_size_is_refused(data: bytes) -> None:
    arrays, config = encode_broadcast(_WITH_BASIS)
    with pytest.raises(MessageError, match=f"7 x 3 float64 numbers = 168 bytes, got {len(data)} bytes"):
        decode_broadcast(arrays, config | {"basis": data})


def test_a_basis_that_is_no_bytes_is_refused() -> None:
    arrays, config = encode_broadcast(_WITH_BASIS)
    with pytest.raises(MessageError, match="168 bytes, got str"):
        decode_broadcast(arrays, config | {"basis": "Q"})


@pytest.mark.parametrize("rank", [10**18, -1])
def test_a_rank_that_lies_allocates_nothing(rank: int) -> None:
    arrays, config = encode_broadcast(_WITH_BASIS)
    with pytest.raises(MessageError, match="basis"):
        decode_broadcast(arrays, config | {"basis-rank": rank})


@pytest.mark.parametrize("key", ["slopes", "sketch"])
@pytest.mark.parametrize(("value", "got"), [(b"1234567", "7 bytes"), ("text", "str"), (1.0, "float")])
def test_slopes_that_are_no_numbers_are_refused(key: str, value: Any, got: str) -> None:
    arrays, examples, metrics = encode_update(_SLOPES)
    with pytest.raises(MessageError, match=f"^{key} must be the bytes of float64 numbers, got {got}"):
        decode_update(arrays, examples, metrics | {key: value})


@pytest.mark.parametrize("message", [_TRAIL, _EMPTY_TRAIL])
def test_a_trail_arrives_bit_for_bit_in_the_place_of_x(message: Broadcast) -> None:
    arrays, config = encode_broadcast(message)
    assert arrays == []
    got = decode_broadcast(arrays, config)
    assert message.trail is not None
    assert got.trail is not None
    assert len(got.trail) == len(message.trail)
    for one, other in zip(got.trail, message.trail, strict=True):
        _assert_same(one, other)
    _assert_same(dataclasses.replace(got, trail=None), dataclasses.replace(message, trail=None))


@pytest.mark.parametrize("changes", [{"trail": b"1234567"}, {"trail": b""}, {"trail": "text"}, {"trail-rounds": 3}])
def test_a_trail_of_another_length_is_refused(changes: dict[str, Any]) -> None:
    arrays, config = encode_broadcast(_TRAIL)
    with pytest.raises(MessageError, match=r"trail must hold \d rounds of 72 bytes, got"):
        decode_broadcast(arrays, config | changes)


def test_single_precision_halves_what_is_sent_and_is_told_from_double() -> None:
    arrays, config = encode_broadcast(_SINGLE)
    assert arrays[0].dtype == np.float32
    assert len(config["basis"]) == 4 * _Q32.size  # type: ignore[arg-type]
    with pytest.raises(MessageError, match=r"x must be a float32 vector, got float64"):
        decode_broadcast([_F32], config)
    moves, examples, metrics = encode_update(_SINGLE_MOVE)
    assert moves[0].dtype == np.float32
    del metrics["dtype"]
    with pytest.raises(MessageError, match=r"move must be a float64 vector, got float32"):
        decode_update(moves, examples, metrics)


def test_what_is_too_large_for_the_type_is_infinite_and_no_warning() -> None:
    np.testing.assert_array_equal(rounded(np.array([1e39, -1e39, 0.5]), "float32"), [np.inf, -np.inf, 0.5])
