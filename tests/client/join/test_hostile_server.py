"""Whatever a server asks, the client answers or says that it failed, allocates little and lives on."""

from __future__ import annotations

import json
import tracemalloc
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from flwr.common import EvaluateIns, FitIns, GetParametersIns, Parameters, ndarrays_to_parameters, serde
from flwr.proto.transport_pb2 import ClientMessage, ServerMessage
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers import spec
from zofedht.client.join.answering import answer_to
from zofedht.client.join.resident import JoinOptions, ResidentClient
from zofedht.common.config.run_config import RunConfig
from zofedht.common.random.streams import Address
from zofedht.common.wire.clients import Question
from zofedht.common.wire.codec import encode
from zofedht.common.wire.messages import Broadcast

_MOST_BYTES = 100e6
CONFIG = RunConfig.from_mapping({"num-clients": 3, "kernel": "numpy", "local-steps": 3, "batch-size": 4})
N = 65
ANSWERS = {"fit": "fit_res", "evaluate": "evaluate_res", "get_parameters": "get_parameters_res"}


@pytest.fixture(scope="module")
def client() -> Any:
    return ResidentClient(JoinOptions("c0", uuid.uuid4().hex, 0, 3), lambda text: None).to_client()


def honest(verb: str) -> tuple[dict[str, Any], list[np.ndarray]]:
    """Return the scalars and arrays of an honest question."""
    if verb == "fit":
        asked = Broadcast(
            address=Address(0, 1, 0),
            spec=spec(kernel="numpy"),
            client="c0",
            shard_index=0,
            task=CONFIG.task,
            x=np.zeros(N),
        )
        encoded = encode(asked)
        return dict(encoded.scalars), list(encoded.arrays)
    return dict(encode(Question("c0", 0, 0, CONFIG.task, N)).scalars), [np.zeros(N)] if verb == "evaluate" else []


def message(verb: str, scalars: dict[str, Any], tensors: list[bytes]) -> ServerMessage:
    parameters = Parameters(tensors, "numpy.ndarray")
    if verb == "fit":
        return ServerMessage(fit_ins=serde.fit_ins_to_proto(FitIns(parameters, scalars)))
    if verb == "evaluate":
        return ServerMessage(evaluate_ins=serde.evaluate_ins_to_proto(EvaluateIns(parameters, scalars)))
    return ServerMessage(get_parameters_ins=serde.get_parameters_ins_to_proto(GetParametersIns(scalars)))


@contextmanager
def little_memory() -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < _MOST_BYTES
    finally:
        tracemalloc.stop()


def ask(client: Any, question: ServerMessage) -> ClientMessage:
    with little_memory():
        return answer_to(client, question.WhichOneof("msg"), question)


def failed(answer: ClientMessage) -> str:
    """Return why the client could not answer, or an empty text."""
    kind = str(answer.WhichOneof("msg"))
    told = getattr(answer, kind)
    if told.status.code:
        return str(told.status.message)
    metrics = getattr(told, "metrics", {})
    return str(metrics["reason"].string) if "cause" in metrics else ""


@pytest.mark.parametrize("verb", ANSWERS)
def test_an_honest_question_is_answered(client: Any, verb: str):
    scalars, arrays = honest(verb)
    answer = ask(client, message(verb, scalars, ndarrays_to_parameters(arrays).tensors))
    assert answer.WhichOneof("msg") == ANSWERS[verb]
    assert failed(answer) == ""


def task(**changes: Any) -> str:
    return json.dumps(json.loads(CONFIG.task) | {key.replace("_", "-"): value for key, value in changes.items()})


GOOD = ndarrays_to_parameters([np.zeros(N)]).tensors[0]
BAD: dict[str, dict[str, Any]] = {
    "steps beyond the rule": {"local-steps": 2**31},
    "no steps": {"local-steps": 0},
    "steps times samples": {"local-steps": 10**6, "batch-size": 2**30},
    "a negative batch": {"batch-size": -1},
    "a radius of nothing": {"radius": 0.0},
    "a radius that is no number": {"radius": float("nan")},
    "another shard": {"shard-index": 1},
    "a shard that is none": {"shard-index": 2**31 - 1},
    "a shard beyond 64 bits": {"shard-index": -(2**63)},
    "a task that is no JSON": {"task": "{" * 10_000},
    "a task that is a list": {"task": "[]"},
    "a task of deep lists": {"task": "[" * 100_000},
    "an unknown model": {"task": task(model="oracle")},
    "a layer of more than a message": {"task": task(model="mlp", hidden_units=10**6)},
    "a layer beyond the rule": {"task": task(model="mlp", hidden_units=10**9)},
    "another data set": {"task": task(dataset="/etc/passwd")},
    "a partition that is none": {"task": task(partition="mine")},
    "a kernel that is none": {"kernel": "assembler"},
    "a basis without its bytes": {"basis-version": 1, "basis-digest": "a", "basis-rank": 5},
    "a basis of vast rank": {"basis-version": 1, "basis-digest": "a", "basis-rank": 2**31 - 1, "basis": b"x" * 80},
    "a trail instead of x": {"trail": b"\x00" * 56, "dimension": 2**31 - 1, "x-digest": "a"},
    "a text for a number": {"round": "many"},
    "units of others": {"units": "a" * 64},
}


@pytest.mark.parametrize("what", BAD)
def test_a_bad_question_is_answered_with_a_cause(client: Any, what: str):
    for verb in ("fit", "evaluate"):
        scalars, arrays = honest(verb)
        if verb == "evaluate" and not set(BAD[what]) & set(scalars) - {"dimension"}:
            continue  # the change is of a slot's question
        reason = failed(ask(client, message(verb, scalars | BAD[what], ndarrays_to_parameters(arrays).tensors)))
        assert reason, f"{verb} was answered"


ARRAYS: dict[str, list[bytes]] = {
    "a shape that is claimed": [GOOD.replace(b"(65,), }" + b" " * 12, b"(99999999999999,), }"[:20])],
    "a pickle": [b"\x80\x04."],
    "no array": [],
    "two arrays": [GOOD, GOOD],
    "another size": ndarrays_to_parameters([np.zeros(N + 1)]).tensors,
    "a matrix": ndarrays_to_parameters([np.zeros((N, 1))]).tensors,
    "integers": ndarrays_to_parameters([np.zeros(N, dtype=np.int64)]).tensors,
    "half of one": [GOOD[: len(GOOD) // 2]],
}


@pytest.mark.parametrize("what", ARRAYS)
@pytest.mark.parametrize("verb", ["fit", "evaluate"])
def test_bad_arrays_are_answered_with_a_cause(client: Any, verb: str, what: str):
    scalars, _ = honest(verb)
    assert ARRAYS[what] != [GOOD]
    assert failed(ask(client, message(verb, scalars, ARRAYS[what])))


RARE = {"dimension", "trail", "memory", "basis", "basis-rank", "points", "parameters", "stage", "payload", "anchor"}
KEYS = sorted(set(honest("fit")[0]) | RARE)
VALUES = (
    st.sampled_from([-(2**63), -1, 0, 1, 2, 2**31 - 1, 2**31, 2**63 - 1])
    | st.sampled_from([0.0, -1.0, 1e-300, 1e300, float("inf"), float("nan")])
    | st.booleans()
    | st.text(max_size=12)
    | st.binary(max_size=40)
)
SLOW = {"local-steps"}  # a legal number of steps takes its time: the device's owner bounds it


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(sorted(ANSWERS)),
    st.dictionaries(st.sampled_from([key for key in KEYS if key not in SLOW]), VALUES, max_size=3),
    st.lists(st.just(GOOD) | st.binary(max_size=200) | st.integers(0, len(GOOD)).map(lambda n: GOOD[:n]), max_size=2),
)
def test_any_fields_and_arrays_are_answered(client: Any, verb: str, changes: dict[str, Any], tensors: list[bytes]):
    scalars, _ = honest(verb)
    answer = ask(client, message(verb, scalars | changes, tensors))
    assert answer.WhichOneof("msg") == ANSWERS[verb]


def _bytes_of(count: int) -> bytes:
    return np.zeros(count).tobytes()


KINDS: dict[str, dict[str, Any]] = {
    "points": {"points": _bytes_of(2 * N), "local-steps": 2, "slopes-per-step": 1, "repeats": 1},
    "sums": {"law": "pool", "pool-size": 8, "sums": _bytes_of(8), "origin-digest": "a", "x-digest": "b"},
    "control": {"control": _bytes_of(N)},
    "shift": {"shift": _bytes_of(N), "shifted": True},
    "surrogate": {"slope": "surrogate", "kept-queries": 9, "queries": _bytes_of(3 * N + 3)},
    "surplus": {"slope": "surrogate", "surplus": _bytes_of(10_000)},
    "anchor": {"anchor": _bytes_of(N), "measured": 1},
    "curvatures": {"slope": "three-point"},
    "stiff": {"tells-stiff": True},
    "low rank": {"law": "lowrank", "blocks": "8x8", "rank": 2},
    "masks": {"secure-aggregation": True, "uplink": "slopes", "stage": "keys", "payload": b""},
    "masked": {"secure-aggregation": True, "uplink": "slopes", "stage": "masked", "payload": b"{}"},
    "in place": {"in-place": True, "uplink": "slopes"},
    "noise": {"privacy": "local", "uplink": "slopes"},
}
"""What the questions that were added later hold beside a slot's."""

LATER = sorted({key for kind in KINDS.values() for key in kind} - {"local-steps", "slopes-per-step"})
PACKED = st.binary(max_size=40) | st.integers(0, 2 * N + 1).map(_bytes_of) | st.just(np.full(N, np.nan).tobytes())


@settings(max_examples=120, deadline=None)
@given(
    st.sampled_from(sorted(KINDS)),
    st.dictionaries(st.sampled_from(LATER), VALUES | PACKED, max_size=2),
    st.sampled_from([GOOD, ndarrays_to_parameters([np.full(N, 1e300)]).tensors[0]]),
)
def test_any_later_question_is_answered(client: Any, kind: str, changes: dict[str, Any], tensor: bytes):
    """Points, sums, controls, shifts, curvatures, stiff directions, masks: whatever they hold, there is an answer."""
    scalars, _ = honest("fit")
    answer = ask(client, message("fit", scalars | KINDS[kind] | changes, [tensor]))
    assert answer.WhichOneof("msg") == "fit_res"


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(
        [
            {"points": _bytes_of(N)},
            {"points": _bytes_of(N), "check": 8, "radius": 1e-3, "batch-size": 4},
            {"snapshot": "take", "start": 0, "digest": "a"},
            {"snapshot": "give", "start": 0, "digest": "a"},
        ]
    ),
    st.dictionaries(
        st.sampled_from(
            ["points", "parameters", "check", "radius", "batch-size", "dimension", "units", "task", "snapshot", "start"]
        ),
        VALUES | PACKED,
    ),
    st.lists(st.sampled_from([GOOD, ndarrays_to_parameters([np.zeros(9, np.uint8)]).tensors[0]]), max_size=3),
)
def test_any_question_of_a_fleet_is_answered(
    client: Any, kind: dict[str, Any], changes: dict[str, Any], tensors: list[bytes]
):
    """Points, parameters, checks and snapshots of parameters in place."""
    scalars, _ = honest("evaluate")
    answer = ask(client, message("evaluate", scalars | kind | changes, tensors))
    assert answer.WhichOneof("msg") == "evaluate_res"


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(sorted(ANSWERS)), st.data())
def test_any_changed_bytes_are_answered_or_no_message(client: Any, verb: str, data: st.DataObject):
    scalars, arrays = honest(verb)
    raw = bytearray(message(verb, scalars, ndarrays_to_parameters(arrays).tensors).SerializeToString())
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    try:
        question = ServerMessage.FromString(bytes(raw))
    except Exception:  # grpc ends such a stream
        return
    if question.WhichOneof("msg") in ("reconnect_ins", None):
        return
    assert ask(client, question).WhichOneof("msg")
