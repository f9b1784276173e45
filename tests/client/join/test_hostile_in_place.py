"""Whatever a server asks of a client with named parameters, there is an answer, and the next slot is exact."""

from __future__ import annotations

import uuid
from typing import Any

import numpy as np
import pytest
from flwr.common import ndarrays_to_parameters
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.client.join.test_hostile_server import ANSWERS, PACKED, VALUES, ask, failed, message
from zofedht.client.join.resident import JoinOptions, ResidentClient
from zofedht.common.config.run_config import RunConfig
from zofedht.common.random.streams import Address
from zofedht.common.wire.arrays import vector_digest
from zofedht.common.wire.clients import OWN_ROWS, Question
from zofedht.common.wire.codec import encode
from zofedht.common.wire.messages import Broadcast

CONFIG = RunConfig.from_mapping(
    {
        "objective": "tests.place:make", "in-place": True, "probe": "rademacher", "radius": 1e-3, "step-size": 0.05,
        "num-clients": 3, "local-steps": 2, "batch-size": 4,
    }
)  # fmt: skip
SPEC = CONFIG.step_spec(step_size=0.05)
TRAIL = np.full(SPEC.slopes, 1e-3)  # of one round
PART = np.zeros(9, np.uint8)
ARRAYS = {"": [TRAIL], "held": [TRAIL], "copy": [TRAIL], "take": [], "give": [TRAIL, PART]}


@pytest.fixture(scope="module")
def client() -> Any:
    options = JoinOptions("c0", uuid.uuid4().hex, objective="tests.place:make")
    return ResidentClient(options, lambda text: None).to_client()


def slot() -> dict[str, Any]:
    address = Address(CONFIG.seed, 1, 0, direction_slot=0)
    asked = Broadcast(address=address, spec=SPEC, client="c0", shard_index=OWN_ROWS, task=CONFIG.task, x=TRAIL)
    return dict(encode(asked).scalars)


def question(verb: str) -> dict[str, Any]:
    end = vector_digest(TRAIL) if verb == "take" else "a" if verb == "give" else ""
    return dict(encode(Question("c0", OWN_ROWS, CONFIG.seed, CONFIG.task, 0, snapshot=verb, digest=end)).scalars)


def tensors(arrays: list[Any]) -> list[bytes]:
    return ndarrays_to_parameters(arrays).tensors


def exact(client: Any) -> bytes:
    """Return the slopes of an honest slot."""
    answer = ask(client, message("fit", slot(), tensors([TRAIL])))
    assert not failed(answer), failed(answer)
    return bytes(answer.fit_res.metrics["slopes"].bytes)


@pytest.fixture(scope="module")
def honest(client: Any) -> bytes:
    return exact(client)


@pytest.mark.parametrize("verb", ["", "held", "copy", "take"])
def test_honest_questions_are_answered(client: Any, honest: bytes, verb: str):
    assert not failed(ask(client, message("evaluate", question(verb), tensors(ARRAYS[verb]))))
    assert exact(client) == honest


SLOT_KEYS = sorted(
    (set(slot()) | {"trail", "dimension", "x-digest", "lengths", "points", "basis-rank"}) - {"local-steps"}
)
QUESTION_KEYS = ["client", "shard-index", "seed", "task", "dimension", "units", "snapshot", "start", "digest"]
TRAILS = st.sampled_from(
    [TRAIL, TRAIL[:1], TRAIL[:0], np.full(len(TRAIL), np.nan), np.full(7, 1e300), np.zeros((2, 2)), PART]
)


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(["fit", *ARRAYS]),
    st.data(),
    st.lists(TRAILS, max_size=3) | st.none(),
)
def test_any_question_leaves_the_parameters_where_they_belong(
    client: Any, honest: bytes, kind: str, data: st.DataObject, arrays: list[Any] | None
):
    verb, scalars, keys = ("fit", slot(), SLOT_KEYS) if kind == "fit" else ("evaluate", question(kind), QUESTION_KEYS)
    changes = data.draw(st.dictionaries(st.sampled_from(keys), VALUES | PACKED, max_size=2))
    told = tensors(ARRAYS.get(kind, [TRAIL]) if arrays is None else arrays)
    assert ask(client, message(verb, scalars | changes, told)).WhichOneof("msg") == ANSWERS[verb]
    assert exact(client) == honest
