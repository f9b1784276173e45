"""The wire: what is sent arrives bit for bit, and what is not a message is refused by name."""

from __future__ import annotations

import dataclasses
import math
import typing
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.common.samples import orthonormal
from tests.helpers import changed, spec
from zofedht.common.choices import ON_ERROR, PROBE_LAWS
from zofedht.common.config.run_config import RunConfig
from zofedht.common.config.step_spec import StepSpec
from zofedht.common.errors import MessageError, ObjectiveError
from zofedht.common.keys.keys import Keys
from zofedht.common.random.streams import Address
from zofedht.common.rules import MOST_DRAWN, at_least, one_of
from zofedht.common.wire.arrays import basis_digest, packed, rounded
from zofedht.common.wire.checked import Checked, CheckQuestion
from zofedht.common.wire.clients import OWN_ROWS, Hello, Question
from zofedht.common.wire.codec import check_metrics, decode, decode_metrics, encode, encode_no_metrics
from zofedht.common.wire.fields import fields_of, wired
from zofedht.common.wire.messages import MOST_POINTS, NO_BASIS, Broadcast, TrailStep, Update

# Numbers whose bits are easily lost: signed zero, the smallest, the largest, and no short decimal form.
_X = np.array([-0.0, 5e-324, 1.7976931348623157e308, 0.1, -1.0 / 3.0, 2.0**-1022, np.pi])
_Q = orthonormal(7, 3)
_SPEC = spec(
    local_steps=50, batch_size=0, slope="forward", probe="sphere", kernel="numpy",
    subspace_weight=1.0 / 3.0, subspace_gain=7.0 / 3.0, shrink=0.1,
)  # fmt: skip
_ISOTROPIC = Broadcast(
    address=Address(2**63 - 1, 11, 2), spec=_SPEC, client="client-\u00fc 3", shard_index=3, x=_X, task='{"seed": 1}'
)
_ALONG = replace(_ISOTROPIC, basis_version=10, basis_rank=3, basis_digest=basis_digest(_Q))
_WITH_BASIS = replace(_ALONG, basis=_Q)
_EMPTY_BASIS = replace(_ALONG, basis_rank=0, basis_digest=basis_digest(_Q[:, :0]), basis=_Q[:, :0])
_DONE = Update(
    round=11, slot=2, client="3", move=_X, draw_digest="5d0c", examples=40, evaluations=6_400, loss=0.1,
    start_loss=1.0 / 3.0,
)  # fmt: skip
_SLOPES = replace(_DONE, move=None, draw_digest="", slopes=_X[2:], sketch=_X[:4], start_loss=5e-324)
_SHARED = changed(_ISOTROPIC, uplink="slopes", direction_slot=0)
_TRAIL = changed(
    _SHARED, x=np.empty(0), size=7, local_steps=6, x_digest="0a1b", memory=5, refresh=3,
    trail=(TrailStep(0.0, 1.0, 1.0, NO_BASIS, _X[1:]), TrailStep(1.0 / 3.0, 7.0 / 3.0, 0.1, 10, _X[:6])),
)  # fmt: skip
_F32, _Q32 = rounded(_X[3:6], "float32"), rounded(_Q[:3], "float32")
_SINGLE = replace(_ALONG, x=_F32, dtype="float32", basis=_Q32, basis_digest=basis_digest(_Q32))
_SINGLE_MOVE = replace(_DONE, move=_F32, dtype="float32")
_RAN_AWAY = replace(_DONE, loss=math.inf, start_loss=-math.inf)
_EMPTY_TRAIL = replace(_TRAIL, trail=(), basis=_Q, basis_version=10, basis_rank=3, basis_digest=basis_digest(_Q))
_POINTS = changed(_ISOTROPIC, points=np.array([_X, -_X]), repeats=2, local_steps=4)
_VALUES = replace(_DONE, move=None, draw_digest="", values=np.array([0.1, math.nan, -0.0, 5e-324]), skipped=1)
_FAILED = Update(round=11, slot=2, client="3", status="failed", cause="not-finite", step=4, reason="NaN")
_ACCUSING = replace(_FAILED, cause="unusable", step=None, accused=np.array([0.0, 3.0, 2.0**31 - 1.0]))
_BASIS_MISSING = Update(11, 2, "3", "basis-missing", "not-held", reason="basis 10 is not held")
_QUESTION = Question("3", 5, 2**63 - 1, '{"seed": 1}', 785)
_HELLO = Hello(
    name="plant-\u00fc 3", instance="5f2b", source="data", shard_index=OWN_ROWS, shard_count=0,
    examples=40, dimension=785,
    protocol=1, version="0.1.0", draw_digest="5d0c",
)  # fmt: skip

MESSAGES = [
    *(_ISOTROPIC, _ALONG, _WITH_BASIS, _EMPTY_BASIS, _SHARED, _SINGLE, _TRAIL, _EMPTY_TRAIL, _POINTS),
    *(_DONE, _SLOPES, _VALUES, _SINGLE_MOVE, _RAN_AWAY, _FAILED, _ACCUSING, _BASIS_MISSING),
    *(_QUESTION, Question("", OWN_ROWS, 0, "{}"), Question("3", 5, 1, "{}", 2, "ab")),
    *(replace(_HELLO, source=source) for source in ("partition", "data", "objective")),
    *(replace(_HELLO, dimension=2, units=units) for units in (b"", bytes(32), bytes(48))),
]


def read(message: Any, changes: dict[str, Any] | None = None, *, arrays: Any = None, without: str = "") -> Any:
    """Return what arrives of a message that is changed on its way."""
    sent = encode(message)
    scalars = {key: value for key, value in (sent.scalars | (changes or {})).items() if key != without}
    apart = {"examples": message.examples} if isinstance(message, Update) else {}
    return decode(type(message), scalars, sent.arrays if arrays is None else arrays, **apart)


def assert_same(got: Any, sent: Any) -> None:
    assert type(got) is type(sent)
    for field in dataclasses.fields(sent):
        one, other = getattr(got, field.name), getattr(sent, field.name)
        if isinstance(other, np.ndarray):
            assert (one.dtype, one.shape, one.tobytes()) == (np.float64, other.shape, other.tobytes()), field.name
        elif dataclasses.is_dataclass(other):
            assert_same(one, other)
        elif isinstance(other, tuple):
            assert len(one) == len(other)
            for each, wanted in zip(one, other, strict=True):
                assert_same(each, wanted)
        else:
            assert type(one) is type(other), field.name
            assert one == other or (one != one and other != other), field.name  # NaN is a loss of no evaluation


@pytest.mark.parametrize("message", MESSAGES)
def test_a_message_arrives_bit_for_bit(message: Any) -> None:
    assert_same(read(message), message)


@pytest.mark.parametrize("message", MESSAGES)
def test_a_message_holds_only_what_flower_carries(message: Any) -> None:
    assert {type(value) for value in encode(message).scalars.values()} <= {bool, bytes, float, int, str}


def _values(field: Any) -> Any:
    """Return values that keep the rule of a field."""
    assert field.rule is not None
    if field.name == "blocks":
        return st.sampled_from(["", "2x3"])
    if hasattr(field.rule, "choices"):
        return st.sampled_from(field.rule.choices)
    return {int: st.integers(1, 1000), bool: st.booleans()}.get(field.kind, st.floats(1e-9, 1.0))


@given(st.fixed_dictionaries({field.name: _values(field) for field in fields_of(StepSpec)}))
def test_every_field_of_a_spec_crosses_the_wire(drawn: dict[str, Any]) -> None:
    """A new knob is declared in StepSpec, and arrives."""
    message = replace(_ISOTROPIC, spec=StepSpec(**drawn), shift=_X[::-1] if drawn["shifted"] else None)
    if drawn["in_place"]:  # the whole trail to the first round is empty
        start = replace(message.address, round=0, slot=0)
        plain = replace(message.spec, privacy="none", secure_aggregation=False)  # with either it is refused
        message = replace(message, address=start, spec=plain, x=np.empty(0), shift=None)
    assert read(message).spec == message.spec


def test_a_spec_takes_its_keys_from_the_config() -> None:
    keys = {"slope": "forward", "probe": "sphere", "kernel": "numpy", "uplink": "slopes", "on_error": "skip-step"}
    config = RunConfig.from_mapping({"radius": 0.5, "local-steps": 7, "batch-size": 9}).replace(**keys)
    of_the_round = {"step_size": 0.25, "subspace_weight": 0.5, "subspace_gain": 2.0, "shrink": 0.5, "tells_stiff": True}
    made = config.step_spec(**of_the_round)
    assert made == spec(**of_the_round, law="trajectory", radius=0.5, local_steps=7, batch_size=9, **keys)
    assert config.step_spec(step_size=0.25).subspace_weight == 0.0  # until there is a basis
    assert config.replace(algorithm="zofedavg-gd").step_spec(step_size=0.25).batch_size == 0
    names = {field.name for field in dataclasses.fields(StepSpec)}
    of_a_round = {"kept_queries", "law", "measured", "shifted", "side_rounds", "slots", "subspace_gain", "tells_stiff"}
    assert names - {field.name for field in dataclasses.fields(Keys)} == of_a_round


@dataclass(frozen=True, kw_only=True)
class Momentum(StepSpec):
    """A spec with a new knob."""

    momentum: float = wired(at_least(0.0, 1.0), default=0.0)
    wave: str = wired(one_of(("sine", "saw")))


def test_a_knob_costs_its_declaration() -> None:
    made = Momentum(**(dataclasses.asdict(_SPEC) | {"momentum": 0.9, "wave": "saw"}))
    scalars = encode(made).scalars
    assert (scalars["momentum"], scalars["wave"]) == (0.9, "saw")
    assert decode(Momentum, scalars) == made
    with pytest.raises(MessageError, match=r"^momentum must be at most 1.0, got 1.5"):
        decode(Momentum, scalars | {"momentum": 1.5})
    with pytest.raises(MessageError, match=r"^wave must be one of sine, saw, got 'square'"):
        decode(Momentum, scalars | {"wave": "square"})


def test_every_whole_number_that_is_sent_has_a_bound() -> None:
    """Nobody allocates, or loops, as long as a peer likes."""
    for kind in (Broadcast, Update, Question, CheckQuestion, Checked, Hello, TrailStep, StepSpec, Address):
        for field in fields_of(kind):
            if field.kind is int and field.layout == "scalar":
                assert field.rule is not None, (kind, field.name)
                assert field.rule(2**64), (kind, field.name)


@pytest.mark.parametrize("layout", [np.asfortranarray(_Q), np.hstack([_Q, _Q])[:, :3], _Q.astype(">f8")])
def test_the_basis_is_sent_row_by_row(layout: np.ndarray) -> None:
    assert basis_digest(layout) == basis_digest(_Q)
    np.testing.assert_array_equal(read(replace(_WITH_BASIS, basis=layout)).basis, _Q)


@pytest.mark.parametrize(
    "points", [np.full((2, 7), math.nan), np.zeros((0, 7)), np.zeros((MOST_POINTS + 1, 7)), np.zeros((3, 7))]
)
def test_points_that_cannot_be_evaluated_are_refused(points: np.ndarray) -> None:
    """Nor is a slot of more values than its spec says, by which a device's owner bounds it."""
    with pytest.raises(MessageError, match=f"points must be 1 to {MOST_POINTS}|local-steps must be the 6 values"):
        read(_POINTS, {"points": packed(points)})


def test_digest_tells_bases_apart_and_is_empty_without_one() -> None:
    digests = {basis_digest(basis) for basis in (_Q, -_Q, _Q[:, ::-1], _Q[:, :2], None)}
    assert len(digests) == 5
    assert basis_digest(None) == ""


def test_a_message_without_basis_carries_no_trace_of_one() -> None:
    assert not {"basis", "basis-rank", "basis-digest"} & set(encode(_ISOTROPIC).scalars)
    assert "basis" not in encode(_ALONG).scalars
    assert not _ISOTROPIC.needs_basis


KEYS = [(message, key) for message in (_WITH_BASIS, _SLOPES, _QUESTION, _HELLO) for key in encode(message).scalars]


@pytest.mark.parametrize(("message", "key"), KEYS)
def test_a_message_without_a_key_is_refused(message: Any, key: str) -> None:
    if key == "basis":  # without the basis it is a message all the same
        return
    with pytest.raises(MessageError):
        read(message, without=key)


def test_a_missing_key_is_named() -> None:
    with pytest.raises(
        MessageError, match="the message has no 'probe'; server and client may be of different versions"
    ):
        read(_WITH_BASIS, without="probe")


def _wrong(value: Any) -> tuple[Any, ...]:
    """Return values of other types than ``value`` has."""
    kinds: dict[type, tuple[Any, ...]] = {
        int: (1.0, True, "1", None, b"1"),
        float: ("1.0", True, None, b"1"),
        str: (1, b"text", None),
        bytes: ("text", 1.0, None),
    }
    return kinds[type(value)]


@pytest.mark.parametrize(("message", "key"), KEYS)
def test_a_value_of_another_type_is_refused(message: Any, key: str) -> None:
    value = encode(message).scalars[key]
    for wrong in _wrong(value):
        got = type(wrong).__name__ if isinstance(value, bytes) else repr(wrong)
        with pytest.raises(MessageError, match=f"^{key} must .*, got {got}"):
            read(message, {key: wrong})


@pytest.mark.parametrize(("message", "key"), KEYS)
def test_a_huge_number_is_refused(message: Any, key: str) -> None:
    if isinstance(encode(message).scalars[key], int):
        for huge in (2**63, -(2**63) - 1, 10**5000):
            with pytest.raises(MessageError, match=f"^{key} must be"):
                read(message, {key: huge})


@pytest.mark.parametrize(
    ("key", "value", "rule"),
    [
        ("round", -1, "at least 0"),
        ("round", 2**31, "at most 2147483647"),
        ("shard-index", -2, "at least -1"),
        ("slot", -1, "at least 0"),
        ("seed", -1, "at least 0"),
        ("direction-slot", -1, "at least 0"),
        ("local-steps", 0, "at least 1"),
        ("local-steps", 10**7 + 1, "at most 10000000"),
        ("batch-size", -1, "at least 0"),
        ("batch-size", 2**31, "at most 2147483647"),
        ("memory", 10**4 + 1, "at most 10000"),
        ("basis-version", -2, "at least -1"),
        ("radius", 0.0, "greater than 0"),
        ("radius", math.nan, "a finite number"),
        ("radius", math.inf, "a finite number"),
        ("step-size", -1.0, "at least 0.0"),
        ("step-size", math.inf, "a finite number"),
        ("subspace-weight", 1.5, r"in \[0, 1\]"),
        ("subspace-gain", math.nan, "a finite number"),
    ],
)
def test_a_broadcast_out_of_range_is_refused(key: str, value: float, rule: str) -> None:
    with pytest.raises(MessageError, match=f"^{key} must be {rule}, got {value}"):
        read(_ISOTROPIC, {key: value})


def test_more_samples_than_fit_into_memory_are_refused() -> None:
    assert read(changed(_ISOTROPIC, local_steps=2**8, batch_size=MOST_DRAWN // 2**8))
    with pytest.raises(MessageError, match="local-steps times batch-size must be at most 33554432, got 33554688"):
        read(changed(_ISOTROPIC, local_steps=2**8, batch_size=MOST_DRAWN // 2**8 + 1))


@pytest.mark.parametrize(
    ("message", "key", "least"),
    [
        *((_HELLO, key, 0) for key in ("shard-count", "examples", "dimension", "protocol")),
        (_HELLO, "shard-index", OWN_ROWS),
        *((_QUESTION, key, 0) for key in ("seed", "dimension")),
        (_QUESTION, "shard-index", OWN_ROWS),
        *((_FAILED, key, 0) for key in ("round", "slot", "step", "evaluations", "skipped")),
    ],
)
def test_numbers_below_their_least_are_refused(message: Any, key: str, least: int) -> None:
    with pytest.raises(MessageError, match=f"{key} must be at least {least}, got {least - 1}"):
        read(message, {key: least - 1})


@pytest.mark.parametrize(
    ("message", "key", "known"),
    [
        (_ISOTROPIC, "slope", ("central", "forward")),
        (_ISOTROPIC, "probe", PROBE_LAWS),
        (_ISOTROPIC, "on-error", ON_ERROR),
        (_ISOTROPIC, "dtype", ("float64", "float32")),
        (_DONE, "status", ("ok", "basis-missing", "x-missing", "failed", "stopped")),
        (_FAILED, "cause", ("raised", "not-a-loss", "not-finite")),
        (_HELLO, "source", ("partition", "data", "objective")),
    ],
)
def test_unknown_names_are_refused_with_the_known_ones(message: Any, key: str, known: tuple[str, ...]) -> None:
    with pytest.raises(MessageError, match=f"{key} must be one of {', '.join(known)}.*, got 'rumour'"):
        read(message, {key: "rumour"})
    with pytest.raises(MessageError) as caught:
        read(message, {key: "rumour" * 10**5})
    assert len(str(caught.value)) < 1000


_NO_VECTORS: list[tuple[list[Any], str]] = [
    ([], "must hold"),
    ([_X, _X], "must hold one array, {}, got 2"),
    ([np.zeros(7, np.float32)], r"{} must be a float64 vector, got float32 \(7,\)"),
    ([_X.astype(">f8")], "{} must be a float64 vector, got >f8"),
    ([_X[:, None]], r"{} must be a float64 vector, got float64 \(7, 1\)"),
    ([np.float64(1.0)], "{} must be a float64 vector, got float64"),
    ([list(_X)], "{} must be a float64 vector, got list"),
    ([np.arange(7)], "{} must be a float64 vector, got int64"),
]


@pytest.mark.parametrize(("arrays", "complaint"), _NO_VECTORS)
@pytest.mark.parametrize(("message", "name"), [(_ISOTROPIC, "x"), (_DONE, "move")])
def test_anything_but_one_float64_vector_is_refused(message: Any, name: str, arrays: list[Any], complaint: str) -> None:
    with pytest.raises(MessageError, match=complaint.format(name)):
        read(message, arrays=arrays)


@pytest.mark.parametrize(
    ("message", "changes"),
    [
        (_FAILED, {"arrays": [_X]}),
        (_DONE, {"changes": {"accused": np.ones(1).tobytes()}}),
        (_BASIS_MISSING, {"changes": {"accused": np.ones(1).tobytes()}}),
        (_ACCUSING, {"changes": {"accused": np.ones(1).tobytes()[1:]}}),
        (_ACCUSING, {"changes": {"stage": "masked"}}),
        (_SLOPES, {"arrays": [_X]}),
        (_SLOPES, {"without": "sketch"}),
        (_VALUES, {"arrays": [_X]}),
        (_VALUES, {"without": "values"}),
        (_POINTS, {"arrays": []}),
        (_DONE, {"arrays": []}),
        (_TRAIL, {"arrays": [_X]}),
        (_TRAIL, {"without": "dimension"}),
        (_ISOTROPIC, {"changes": {"basis-digest": "ab"}}),
        (_ALONG, {"without": "basis-digest"}),
        (replace(_HELLO, dimension=2), {"changes": {"units": bytes(47)}}),
    ],
)
def test_fields_that_do_not_fit_together_are_refused(message: Any, changes: dict[str, Any]) -> None:
    with pytest.raises(MessageError, match=r"must (hold|come)"):
        read(message, **changes)


@pytest.mark.parametrize(
    "slots", [[], [-1.0], [0.5], [2.0, 1.0], [1.0, 1.0], [2.0**31], [1.0, np.nan], [np.nan], [np.inf, np.inf], [1e300]]
)
def test_accused_slots_are_bounded(slots: list[float]) -> None:
    with pytest.raises(MessageError, match="slots must come as whole numbers that rise from 0"):
        read(_ACCUSING, {"accused": np.array(slots, dtype=np.float64).tobytes()})


@pytest.mark.parametrize(
    ("data", "got"),
    [
        (b"", "0 bytes"),
        (_Q.tobytes()[:-1], "167 bytes"),
        (_Q.tobytes() + b"\0", "169 bytes"),
        (_Q[:, :2].tobytes(), "112 bytes"),
        ("Q", "str"),
    ],
)
def test_a_basis_of_another_size_is_refused(data: Any, got: str) -> None:
    with pytest.raises(MessageError, match=f"basis must hold 7 x 3 float64 numbers = 168 bytes, got {got}"):
        read(_WITH_BASIS, {"basis": data})


@pytest.mark.parametrize("rank", [10**18, 2**31 - 1, -1])
def test_a_rank_that_lies_allocates_nothing(rank: int) -> None:
    with pytest.raises(MessageError, match="basis"):
        read(_WITH_BASIS, {"basis-rank": rank})


@pytest.mark.parametrize("key", ["slopes", "sketch"])
@pytest.mark.parametrize(("value", "got"), [(b"1234567", "7 bytes"), ("text", "str"), (1.0, "float")])
def test_slopes_that_are_no_numbers_are_refused(key: str, value: Any, got: str) -> None:
    with pytest.raises(MessageError, match=f"^{key} must hold any number float64 numbers = 8 bytes each, got {got}"):
        read(_SLOPES, {key: value})


def test_a_trail_goes_in_the_place_of_x() -> None:
    assert encode(_TRAIL).arrays == []


@pytest.mark.parametrize("trail", [b"1234567", "text", bytes(73)])
def test_a_trail_of_another_length_is_refused(trail: Any) -> None:
    with pytest.raises(MessageError, match="trail must hold any number x 10 float64 numbers = 80 bytes each, got"):
        read(_TRAIL, {"trail": trail})


@pytest.mark.parametrize(
    ("numbers", "complaint"),
    [
        ([2.0, 1.0, 1.0, 0.0], "subspace-weight must be in"),
        ([math.nan, 1.0, 1.0, 0.0], "subspace-weight must be a finite number"),
        ([0.0, -1.0, 1.0, 0.0], "subspace-gain must be at least 0.0, got -1.0"),
        ([0.0, 1.0, 1.5, 0.0], "shrink must be in"),
        ([0.0, 1.0, 1.0, 0.5], "basis-version must be a whole number, got 0.5"),
        ([0.0, 1.0, 1.0, 1e300], "basis-version must be a number of at most 64 bits"),
    ],
)
def test_trail_steps_out_of_range_are_refused(numbers: list[float], complaint: str) -> None:
    with pytest.raises(MessageError, match=f"^{complaint}"):
        read(_TRAIL, {"trail": np.array([*numbers, *_X[:6]]).tobytes()})


def test_single_precision_halves_messages() -> None:
    arrays, scalars = encode(_SINGLE)
    assert arrays[0].dtype == np.float32
    assert len(scalars["basis"]) == 4 * _Q32.size  # type: ignore[arg-type]
    with pytest.raises(MessageError, match=r"x must be a float32 vector, got float64"):
        read(_SINGLE, arrays=[_F32])
    assert encode(_SINGLE_MOVE).arrays[0].dtype == np.float32
    with pytest.raises(MessageError, match=r"move must be a float64 vector, got float32"):
        read(_SINGLE_MOVE, without="dtype")


def test_overflow_becomes_infinite_without_a_warning() -> None:
    np.testing.assert_array_equal(rounded(np.array([1e39, -1e39, 0.5]), "float32"), [np.inf, -np.inf, 0.5])


def test_a_cause_without_metrics_is_an_error() -> None:
    with pytest.raises(ObjectiveError, match="the sensor is gone") as caught:
        decode_metrics(encode_no_metrics("raised", "the sensor is gone"))
    assert caught.value.cause == "raised"
    assert decode_metrics({"loss": 1.0, "cause": 2.0}) == {"loss": 1.0, "cause": 2.0}  # a metric may have any name
    with pytest.raises(MessageError, match=r"cause must be one of raised, .*, got 'mood'"):
        check_metrics({"cause": "mood", "reason": ""})


_ANY = st.booleans() | st.binary(max_size=20) | st.floats() | st.integers() | st.text(max_size=20)


@given(st.data())
def test_any_scalars_are_a_message_or_a_message_error(data: st.DataObject) -> None:
    message = data.draw(st.sampled_from(MESSAGES))
    keys = st.sampled_from(list(encode(message).scalars)) | st.text(max_size=8)
    try:
        got = read(message, data.draw(st.dictionaries(keys, _ANY, max_size=5)))
    except MessageError:
        return
    assert type(got) is type(message)


def test_all_kinds_of_annotations_are_read() -> None:
    kinds = {field.name: field.kind for field in fields_of(Update)}
    assert (kinds["step"], kinds["status"], kinds["cause"], kinds["loss"]) == (int, str, str, float)
    assert [field.many for field in fields_of(Broadcast) if field.name == "trail"] == [True]
    assert typing.get_type_hints(Broadcast)["spec"] is StepSpec
