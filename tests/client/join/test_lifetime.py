"""What all runs together spend of a device's privacy: counted before it leaves, and bounded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers import spec
from zofedht.client.join.bounds import OwnBounds
from zofedht.client.join.ledger import ledger_text
from zofedht.client.join.lifetime import Lifetime, Spent, lifetime_file
from zofedht.client.join.resident import JoinOptions, ResidentClient
from zofedht.common.config.run_config import RunConfig
from zofedht.common.errors import ConfigError, DataError
from zofedht.common.privacy.renyi import epsilon_of, step_divergences
from zofedht.common.random.streams import Address
from zofedht.common.wire.codec import encode
from zofedht.common.wire.messages import Broadcast

_ROWS, _DELTA = 719, 1e-5  # rows of a half of digits


def _slot(client: ResidentClient, round_: int, **changes: Any) -> dict[str, Any]:
    keys = {"privacy": "local", "uplink": "slopes", "local_steps": 3, "batch_size": 64, "noise_multiplier": 2.0}
    asked = Broadcast(
        address=Address(0, round_, 0), spec=spec(kernel="numpy", **keys | changes), client="pi", shard_index=0,
        x=np.zeros(65), task=RunConfig(num_clients=2).task,
    )  # fmt: skip
    arrays, scalars = encode(asked)
    return client.fit(arrays, scalars)[2]


def _client(folder: Path, epsilon: float) -> ResidentClient:
    ledger = folder / "sent.jsonl"
    ledger.touch()
    options = JoinOptions(
        "pi", "1", 0, 2, privacy_key=str(folder / "key"), bounds=OwnBounds(only_noise=epsilon > 0.0),
        lifetime=Lifetime(epsilon, _DELTA, ledger),
    )  # fmt: skip
    return ResidentClient(options, lambda text: None)


def _epsilon(slots: int) -> float:
    return epsilon_of(slots * 3 * np.array(step_divergences(64 / _ROWS, 2.0)), _DELTA)


def test_the_bound_holds_over_runs(tmp_path: Path):
    """Four slots fit. They may be of several runs, of several processes, with any config."""
    bound = 0.5 * (_epsilon(4) + _epsilon(5))
    first, second = _client(tmp_path, bound), _client(tmp_path, bound)
    assert [_slot(first, round_)["status"] for round_ in range(2)] == ["ok", "ok"]
    assert [_slot(second, round_)["status"] for round_ in (7, 8)] == ["ok", "ok"]
    refused = _slot(first, 9)
    assert refused["status"] == "failed"
    assert refused["reason"] == f"the client's own --lifetime-epsilon {bound:g} does not allow another such slot"
    assert "slopes" not in refused
    spent = Spent.read(lifetime_file(tmp_path / "sent.jsonl"))
    assert spent.slots == 4
    assert spent.epsilon(_DELTA) == pytest.approx(_epsilon(4))
    assert f"{_epsilon(4):.4g} at delta 1e-5, of 4 slots" in ledger_text(tmp_path / "sent.jsonl")


def test_more_noise_fits_where_less_does_not(tmp_path: Path):
    client = _client(tmp_path, _epsilon(4))
    assert _slot(client, 0, noise_multiplier=0.5)["status"] == "failed"
    assert [_slot(client, round_, noise_multiplier=8.0)["status"] for round_ in range(5)] == ["ok"] * 5


@pytest.mark.parametrize(
    "changes", [{"privacy": "none"}, {"privacy": "none", "uplink": "move"}, {"privacy": "central"}]
)
def test_nothing_leaves_without_noise(tmp_path: Path, changes: dict[str, Any]):
    told = _slot(_client(tmp_path, 5.0), 0, **changes)
    assert told["status"] == "failed"
    assert "--lifetime-epsilon does not allow slopes without noise" in str(told["reason"])


def test_a_slot_counts_before_it_is_answered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A kill in between may count too much, and never too little."""
    seen = []

    def stopped(*args: Any) -> None:
        seen.append(Spent.read(lifetime_file(tmp_path / "sent.jsonl")).slots)
        raise KeyboardInterrupt

    monkeypatch.setattr("zofedht.client.steps.worker.private_steps", stopped)
    with pytest.raises(KeyboardInterrupt):
        _slot(_client(tmp_path, 5.0), 0)
    assert seen == [1]


@pytest.mark.parametrize("text", ["", "{}", '{"slots": 1, "divergences": {}}', "[1", '{"slots": "1"}'])
def test_a_damaged_file_answers_nothing(tmp_path: Path, text: str):
    client = _client(tmp_path, 5.0)
    lifetime_file(tmp_path / "sent.jsonl").write_text(text)
    assert _slot(client, 0)["status"] == "failed"
    with pytest.raises(DataError, match="counts the privacy that this device has spent, cannot be read"):
        Lifetime(5.0, _DELTA, tmp_path / "sent.jsonl")


@pytest.mark.parametrize("wrong", [(-1.0, 1e-5, Path("l")), (float("nan"), 1e-5, Path("l")), (1.0, 0.0, Path("l"))])
def test_bounds_that_are_none_are_refused(wrong: Any):
    with pytest.raises(ConfigError, match="--lifetime-"):
        Lifetime(*wrong)
    with pytest.raises(ConfigError, match="needs --ledger FILE"):
        Lifetime(1.0, 1e-5, None)


def test_what_cannot_be_counted_is_not_answered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def full(*args: Any) -> None:
        raise OSError(28, "No space left on device")

    client = _client(tmp_path, 5.0)
    monkeypatch.setattr("os.fsync", full)
    told = _slot(client, 0)
    assert told["status"] == "failed"
    assert "cannot count what it spends" in str(told["reason"])
    assert not [path for path in tmp_path.iterdir() if path.suffix == ".part"]
