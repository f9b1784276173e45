"""Private runs from the config to the summary."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers import killed_and_resumed, quadratics, small
from tests.server.flower.loopback import Loopback, fit, nodes
from zofedht.client.flower.numpy_client import ZofedhtClient
from zofedht.common.config.run_config import RunConfig
from zofedht.common.errors import ConfigError, RoundError
from zofedht.common.objective.base import Objective
from zofedht.common.privacy.private_draws import simulated_secret
from zofedht.common.shards import objective_of
from zofedht.common.wire.clients import Member, Question
from zofedht.server.core.coordinator import Coordinator
from zofedht.server.core.round_record import RoundRecord
from zofedht.server.core.state import ServerState, initial_state
from zofedht.server.inprocess import run_in_process
from zofedht.server.privacy import Account, Exposure
from zofedht.server.records.checkpoint import read_checkpoint
from zofedht.server.records.run_folder import RunFolder
from zofedht.server.terminal.summary import summary_text

pytest.importorskip("dp_accounting")

PRIVATE: dict[str, Any] = {"privacy": "local", "uplink": "slopes", "sampling": "without-replacement", "clip": 0.5}
CENTRAL: dict[str, Any] = PRIVATE | {"privacy": "central", "directions": "shared"}


def test_a_run_ends_before_epsilon_is_spent(tmp_path: Path) -> None:
    records: list[RoundRecord] = []
    run_in_process(small(**PRIVATE, rounds=9), quadratics(), observers=[lambda _, record: records.append(record)])
    history = [record.epsilon for record in records]
    assert history == sorted(history)
    limit = history[5] * 1.0001
    with RunFolder(tmp_path / "limited") as folder:
        folder.begin(small(**PRIVATE, rounds=9, epsilon=limit), "in-process")
        limited = run_in_process(small(**PRIVATE, rounds=9, epsilon=limit), quadratics(), folder=folder)
        text = summary_text(limited.summary, folder)
    assert limited.state.round < 9
    assert limited.summary["privacy"]["epsilon"] <= limit
    counts = dict(limited.state.exposure.slots)
    assert limited.summary["privacy"]["most_slots"] == max(counts.values())
    assert sum(counts.values()) == 3 * limited.state.round
    assert f"privacy         epsilon {limited.summary['privacy']['epsilon']:.3g} of {limit:g} at delta 1e-05" in text


@pytest.mark.parametrize("keys", [PRIVATE, CENTRAL])
def test_a_resumed_private_run_equals_an_uninterrupted_one(tmp_path: Path, keys: dict[str, Any]) -> None:
    config = small(**keys)
    resumed = killed_and_resumed(RunFolder(tmp_path / "run"), config, 5)
    start = initial_state(config, np.zeros(12))
    whole = run_in_process(config, quadratics(), state=replace(start, secret=resumed.state.secret))
    assert resumed.state.x.tobytes() == whole.state.x.tobytes()
    assert bool(resumed.state.secret) == (keys is CENTRAL)


def test_a_killed_run_forgets_no_round_that_it_asked(tmp_path: Path) -> None:
    """Without last words: the checkpoint of each round has what was spent."""
    config = small(**PRIVATE, checkpoint_every=5)
    with RunFolder(tmp_path / "run") as folder:
        folder.begin(config, "in-process")
        states: list[ServerState] = []
        run_in_process(config, quadratics(), folder=folder, observers=[lambda state, _: states.append(state)])
        newest = sorted(folder.checkpoints.glob("*.ckpt"))
        assert [read_checkpoint(path)[0].exposure for path in newest] == [state.exposure for state in states[-3:]]


def test_other_noise_leads_elsewhere() -> None:
    """Central noise is not a function of the seed, and local noise is one of z."""
    one, two = (run_in_process(small(**CENTRAL), quadratics()).state.x for _ in range(2))
    assert np.all(one != two)
    quiet, loud = (run_in_process(small(**PRIVATE, noise_multiplier=z), quadratics()).state.x for z in (1e-9, 1.0))
    assert np.all(quiet != loud)


class _Private(Loopback):
    def _client(self):
        def objective(question: Question) -> Objective:
            return objective_of(question.task, question.shard_index)

        def secret(broadcast: Any) -> bytes:
            return simulated_secret(broadcast.address.seed, broadcast.client)

        return ZofedhtClient(objective, self._bases(), secret_of=secret).to_client()


@pytest.mark.parametrize("downlink", ["x", "slopes"])
def test_flowers_messages_give_the_same_private_x(downlink: str) -> None:
    shared = {"directions": "shared", "downlink": downlink} if downlink == "slopes" else {}
    config = small(**PRIVATE, **shared, least_samples=300, batch_size=30)
    expected = run_in_process(config)
    result = fit(config, nodes(3, kind=_Private))
    assert result.state.x.tobytes() == expected.state.x.tobytes()
    assert result.state.exposure == expected.state.exposure


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"uplink": "move"},
            "uplink must be slopes when privacy is local, since noise is added to K slopes",
        ),
        ({"sampling": "with-replacement"}, "sampling must be without-replacement when privacy is local"),
        ({"step_size": "auto", "local_steps": 9}, "step-size must be a number when privacy is local"),
        ({"algorithm": "zofed-shrink"}, "algorithm must not be zofed-shrink when privacy is local"),
        ({"on_error": "skip-step"}, "on-error must be drop-slot when privacy is local, got 'skip-step'"),
        ({"privacy": "none", "epsilon": 3.0}, "epsilon must be 0 when privacy is none, got 3"),
    ],
)
def test_what_is_not_private_is_refused_with_the_reason(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        small(**(PRIVATE | changes))
    assert any(problem.startswith(sentence) for problem in caught.value.problems)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("directions", "per-slot"),
        ("aggregation", "median"),
        ("weighting", "examples"),
        ("subspace_weight", "auto"),
        ("least_samples", 5),
    ],
)
def test_central_privacy_bounds_what_a_client_changes(key: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=f"{key.replace('_', '-')} must be"):
        small(**(CENTRAL | {key: value}))


def _coordinator(config: RunConfig) -> Coordinator:
    return Coordinator(config, initial_state(config, np.zeros(12)))


def test_a_slot_counts_when_it_is_asked() -> None:
    """Its answer may have left the client, even where it did not arrive; and nobody is asked beyond epsilon."""
    config = small(**PRIVATE, clients_per_round=2, max_retries=9)
    coordinator = _coordinator(config)
    members = [Member(str(index), index, str(index)) for index in range(3)]
    first = {asked.client for asked in coordinator.ask(members)}
    third = coordinator.redraw(0, members)
    assert third is not None
    assert dict(coordinator.state.exposure.slots) == dict.fromkeys([*first, third.client], 1) | (
        {third.client: 2} if third.client in first else {}
    )


def test_a_redraw_passes_over_who_has_no_slot_left() -> None:
    limit = small(**PRIVATE)
    most = Account(limit).epsilon(Exposure((("0", 1),))) * 1.0001
    config = small(**PRIVATE, clients_per_round=2, epsilon=most)
    coordinator = _coordinator(config)
    members = [Member(str(index), index, str(index)) for index in range(3)]
    first = {asked.client for asked in coordinator.ask(members)}
    third = coordinator.redraw(0, members)
    assert third is not None
    assert third.client not in first
    assert coordinator.redraw(1, members) is None
    assert coordinator.finished


def test_central_epsilon_refuses_a_round_of_fewer_clients() -> None:
    keys = CENTRAL | {"num_clients": 30, "clients_per_round": 2}
    most = Account(small(**keys)).epsilon(Exposure(rounds=2)) * 1.0001
    coordinator = _coordinator(small(**keys, epsilon=most))
    with pytest.raises(RoundError, match="3 of 30 clients are there, and sampling counts only where all"):
        coordinator.ask([Member(str(index), index, str(index)) for index in range(3)])


def test_a_client_with_other_directions_sends_no_move() -> None:
    config = small(**PRIVATE)
    coordinator = _coordinator(config)
    members = [Member(str(index), index, str(index), moves_only="other draws") for index in range(4)]
    assert all(asked.spec.uplink == "slopes" for asked in coordinator.ask(members))
    assert coordinator.recheck([]) == []
