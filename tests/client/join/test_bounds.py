"""A device's owner decides: slots beyond the bounds are refused, with the bound, and the client lives on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.helpers import spec
from zofedht.client.join.bounds import OwnBounds
from zofedht.client.join.resident import JoinOptions, ResidentClient
from zofedht.common.config.run_config import RunConfig
from zofedht.common.errors import ConfigError, DataError, MessageError
from zofedht.common.random.streams import Address
from zofedht.common.wire.bundle import bundled
from zofedht.common.wire.checked import CheckQuestion
from zofedht.common.wire.clients import Member, Question
from zofedht.common.wire.codec import Encoded, encode
from zofedht.common.wire.messages import Broadcast
from zofedht.common.wire.points import encode_points
from zofedht.server.core.ask import ask
from zofedht.server.core.state import initial_state

_PRIVATE: dict[str, Any] = {"privacy": "local", "uplink": "slopes"}


def _client(bounds: OwnBounds) -> ResidentClient:
    return ResidentClient(JoinOptions("pi", "1", 0, 2, bounds=bounds), lambda text: None)


def _slot(bounds: OwnBounds, **keys: Any) -> dict[str, Any]:
    config = RunConfig(num_clients=2, clients_per_round=1, kernel="numpy", **keys)
    [asked] = ask(initial_state(config, np.zeros(65)), config, [Member("pi", 0, "pi")])
    arrays, message = encode(asked)
    return _client(bounds).fit(arrays, message)[2]


@pytest.mark.parametrize(
    ("bounds", "keys", "reason"),
    [
        (OwnBounds(32), {"batch_size": 31}, "--least-batch 32 does not allow steps on 31 samples"),
        (OwnBounds(32), {"batch_size": 1}, "a larger batch-size, or 0 for the whole shard, does"),
        (OwnBounds(1, 9), {"local_steps": 10}, "--most-steps 9 does not allow a slot of 10 slopes"),
        (OwnBounds(1, 105), {"algorithm": "fzoos"}, "--most-steps 105 does not allow an answer of 106 losses"),
        (
            OwnBounds(2000),
            {"batch_size": 0},
            "the client's shard has 719 samples, fewer than its own --least-batch 2000",
        ),
        (OwnBounds(least_noise=1.5), {}, "--least-noise 1.5 does not allow a slot of noise 0;"),
        (OwnBounds(least_noise=1.5), {**_PRIVATE, "noise_multiplier": 1.4}, "does not allow a slot of noise 1.4;"),
        (OwnBounds(only_sums=True), {}, "--only-sums does not allow slopes without secure-aggregation"),
    ],
)
def test_a_slot_beyond_the_bounds_is_refused(bounds: OwnBounds, keys: dict[str, Any], reason: str):
    metrics = _slot(bounds, **keys)
    assert metrics["status"] == "failed"
    assert reason in str(metrics["reason"]), "the server may know why"
    assert "slopes" not in metrics


@pytest.mark.parametrize("keys", [{"batch_size": 32, "local_steps": 9}, {"batch_size": 0, "local_steps": 2}])
def test_a_slot_within_the_bounds_is_done(keys: dict[str, Any]):
    assert _slot(OwnBounds(32, 9), **keys)["status"] == "ok"


def test_a_small_shard_is_told_about_by_nobody():
    client = _client(OwnBounds(2000))
    config = RunConfig(num_clients=2)
    message = encode(Question("pi", 0, config.seed, config.task, 65)).scalars
    with pytest.raises(DataError, match="fewer than its own --least-batch 2000"):
        client.get_properties(message)
    assert np.isnan(client.evaluate([np.zeros(65)], message)[0])


@pytest.mark.parametrize("bounds", [OwnBounds(least_noise=1.5), OwnBounds(only_sums=True)])
def test_no_loss_is_told_beside_noise_or_sums(bounds: OwnBounds):
    config = RunConfig(num_clients=2)
    scalars = encode(Question("pi", 0, config.seed, config.task, 65)).scalars
    points = scalars | encode_points(np.zeros((1, 65)))
    for question in (scalars, points, points | encode(CheckQuestion(50, 1e-3, 64)).scalars):
        loss, examples, told = _client(bounds).evaluate([np.zeros(65)], question)
        assert np.isnan(loss)
        assert examples == 0
        assert told.keys() == {"cause", "reason"}
        assert "to be told" in str(told["reason"])


@pytest.mark.parametrize(("batch_size", "told"), [(31, False), (32, True), (0, True)])
def test_checks_keep_the_least_batch(batch_size: int, told: bool):
    config = RunConfig(num_clients=2, kernel="numpy")
    scalars = encode(Question("pi", 0, config.seed, config.task, 65)).scalars | encode_points(np.zeros((1, 65)))
    asked = scalars | encode(CheckQuestion(50, 1e-3, batch_size)).scalars
    answer = _client(OwnBounds(32)).evaluate([np.zeros(65)], asked)[2]
    assert ("check-value" in answer) is told
    assert told or "does not allow checks on 31 samples" in str(answer["reason"])


@pytest.mark.parametrize("bounds", [(0, 0), (1, -1), (1, 0, -0.5), (1, 0, float("nan"))])
def test_bounds_out_of_range_are_refused(bounds: tuple[Any, ...]):
    with pytest.raises(ConfigError, match="must be at least"):
        OwnBounds(*bounds)


@pytest.mark.parametrize("bounds", [OwnBounds(least_noise=1.5), OwnBounds(only_sums=True)])
def test_no_value_at_a_point_passes_as_a_slope(bounds: OwnBounds):
    """A slot that asks for points has a spec as any other: it must not claim noise or masks that values lack."""
    config = RunConfig(num_clients=2, kernel="numpy")
    masks = {"secure_aggregation": True, "privacy": "local", "noise_multiplier": 9.0, "uplink": "slopes"}
    asked = Broadcast(
        address=Address(0, 0, 0), spec=spec(kernel="numpy", local_steps=1, slopes_per_step=1, **masks), client="pi",
        shard_index=0, task=config.task, x=np.zeros(65), points=np.ones((1, 65)), stage="masked",
    )  # fmt: skip
    arrays, message = encode(asked)
    with pytest.raises(MessageError, match="no noise and no mask"):
        _client(bounds).fit(arrays, message)


@pytest.mark.parametrize("stage", ["masked", "keys", ""])
@pytest.mark.parametrize("claim", [{"secure_aggregation": True}, {"privacy": "local", "noise_multiplier": 9.0}])
def test_no_slope_in_place_claims_noise_or_masks(stage: str, claim: dict[str, Any]):
    asked = Broadcast(
        address=Address(0, 0, 0), spec=spec(kernel="numpy", in_place=True, uplink="slopes", **claim), client="pi",
        task=RunConfig(num_clients=2).task, x=np.zeros(65), stage=stage, shard_index=0,
    )  # fmt: skip
    arrays, message = encode(asked)
    with pytest.raises(MessageError, match="in place have no noise and no mask"):
        _client(OwnBounds()).fit(arrays, message)


@pytest.mark.parametrize("bounds", [OwnBounds(least_noise=1.5), OwnBounds(only_sums=True)])
def test_no_loss_is_told_in_a_bundle(bounds: OwnBounds):
    scalars = encode(Question("pi", 0, 0, RunConfig(num_clients=2).task, 65)).scalars
    points = scalars | encode_points(np.zeros((1, 65)))
    told = _client(bounds).evaluate([np.zeros(65)], bundled([Encoded([], scalars), Encoded([], points)]).scalars)[2]
    assert told[":messages"] == 2
    assert {key.rpartition(":")[2] for key in told} == {"messages", "array", "reason", "cause"}


def test_the_owner_bounds_the_points_of_an_answer():
    scalars = encode(Question("pi", 0, 0, RunConfig(num_clients=2).task, 65)).scalars
    client = _client(OwnBounds(most_steps=3))
    assert "values" in client.evaluate([], scalars | encode_points(np.zeros((3, 65))))[2]
    told = client.evaluate([], scalars | encode_points(np.zeros((4, 65))))[2]
    assert "--most-steps 3 does not allow an answer of 4 losses" in str(told["reason"])
