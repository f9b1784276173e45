"""Parameters in place for a newcomer, asked of clients that lie."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import Future
from typing import Any

import numpy as np
import pytest
from flwr.common import Code, EvaluateIns, EvaluateRes, Status, parameters_to_ndarrays

from tests.place import Wide
from zofedht.client.tensors.worker import PlaceWorker
from zofedht.common.config.run_config import RunConfig
from zofedht.common.wire.clients import Member, Question
from zofedht.common.wire.codec import Config, decode
from zofedht.common.wire.snapshots import PART, encode_part
from zofedht.server.flower.proxies import PromptProxy
from zofedht.server.flower.snapshots import Snapshots

CONFIG = RunConfig.from_mapping(
    {
        "objective": "tests.place:wide", "in-place": True, "probe": "rademacher", "radius": 1e-3, "step-size": 0.05,
        "num-clients": 3, "snapshot-after": 2,
    }
)  # fmt: skip
TRAIL = np.full(3 * CONFIG.step_spec(step_size=0.0).slopes, 1e-3)


class Client(PromptProxy):
    """A client without a network, which may lie about what it holds."""

    def __init__(self, name: str, lie: Any = None) -> None:
        super().__init__(name)
        rows = Wide(0)
        self.worker, self.lie, self.asked = PlaceWorker(lambda question: rows), lie, Counter[str]()
        self.held = self.worker.held(Question(name, 0, CONFIG.seed, CONFIG.task))

    def evaluate_later(self, ins: EvaluateIns, timeout: float) -> Future[EvaluateRes]:
        question = decode(Question, ins.config)
        self.asked[question.snapshot] += 1
        told: Config = self.worker.snapshot(question, parameters_to_ndarrays(ins.parameters))
        told = told if self.lie is None else self.lie(told)
        answer: Future[EvaluateRes] = Future()
        answer.set_result(EvaluateRes(Status(Code.OK, ""), 0.0, 0, told))
        return answer

    def _unasked(self, *rest: Any, **more: Any) -> Any:
        raise NotImplementedError

    fit_later = fit = evaluate = get_parameters = get_properties = reconnect = _unasked


def cut(size: int) -> Any:
    return lambda told: encode_part(told[PART][:size]) if PART in told else told


LIES: dict[str, Any] = {
    "a byte at a time": cut(1),
    "nothing": cut(0),
    "half a part": cut(2**21),
    "too long a part": lambda told: encode_part(told[PART] + b"more") if PART in told else told,
    "another thing": lambda told: {PART: 7.0} if PART in told else told,
    "other bytes": lambda told: encode_part(bytes(len(told[PART]))) if PART in told else told,
}


@pytest.mark.parametrize("what", LIES)
def test_a_liar_is_asked_no_more_and_the_next_one_gives(what: str):
    liar, honest, late = Client("a", LIES[what]), Client("b"), Client("c")
    snapshots = Snapshots(CONFIG, None)  # type: ignore[arg-type]  # threads are for other proxies
    there = {Member("a", host="a"): liar, Member("b", host="b"): honest}
    snapshots.bring(there, honest.held.tensors, TRAIL[:2])
    snapshots.bring(there | {Member("c", host="c"): late}, honest.held.tensors, TRAIL)
    assert liar.asked["take"] <= 2
    assert honest.asked["take"] == late.asked["give"] == 2
    assert late.held.known.tolist() == TRAIL.tolist()
