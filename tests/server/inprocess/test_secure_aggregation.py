"""Runs under secure aggregation: the unmasked x up to rounding, and what cannot work is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers import black_box, killed_and_resumed, quadratics, small
from tests.server.flower.loopback import fit, nodes
from zofedht.client.privacy.masks import Masks
from zofedht.common.errors import ConfigError, RoundError
from zofedht.common.objective.base import Objective
from zofedht.common.privacy.masking import pack_parts, read_parts, resolution
from zofedht.common.wire.messages import Broadcast, Update
from zofedht.server.core.round_record import RoundRecord
from zofedht.server.inprocess import run_in_process
from zofedht.server.records.run_folder import RunFolder
from zofedht.server.records.run_summary import count_lost
from zofedht.server.terminal.summary import summary_text

MASKED: dict[str, Any] = {
    "uplink": "slopes",
    "directions": "shared",
    "sampling": "without-replacement",
    "secure_aggregation": True,
    "rounds": 4,
}
PLAIN = MASKED | {"secure_aggregation": False}


@pytest.mark.parametrize("downlink", ["x", "slopes"])
@pytest.mark.parametrize("algorithm", ["zofedht", "zofedavg-sgd"])
def test_x_is_the_unmasked_runs_up_to_rounding(downlink: str, algorithm: str) -> None:
    keys = {"downlink": downlink, "algorithm": algorithm}
    plain = run_in_process(small(**PLAIN, **keys), quadratics()).state
    masked = run_in_process(small(**MASKED, **keys), quadratics()).state
    # Each slope is off by half the resolution, and K eta |v| of it reaches x in a round; curvature is 1.
    assert 0.0 < np.max(np.abs(plain.x - masked.x)) < 1e4 * resolution(1000.0)
    assert masked.totals.evaluations == plain.totals.evaluations


def test_masks_change_no_bit_of_x() -> None:
    """Keys are new in every run, and cancel."""
    one, two = (run_in_process(small(**MASKED), quadratics()).state.x for _ in range(2))
    assert one.tobytes() == two.tobytes()


def test_a_resumed_masked_run_equals_an_uninterrupted_one(tmp_path: Path) -> None:
    config = small(**MASKED)
    folder = RunFolder(tmp_path / "run")
    resumed = killed_and_resumed(folder, config, 3)
    text = summary_text(resumed.summary, folder)
    assert resumed.state.x.tobytes() == run_in_process(config, quadratics()).state.x.tobytes()
    assert "secure sums     the server saw sums alone; each slope was rounded by at most 4.5e-10" in text


def test_the_history_has_mean_losses_and_no_outliers() -> None:
    plain, masked = _records(PLAIN), _records(MASKED)
    for one, other in zip(plain, masked, strict=True):
        assert other.start_loss == pytest.approx(one.start_loss, abs=1e-6)
        assert (other.replies, other.outliers, other.failures) == (one.replies, [], [])


def _records(keys: dict[str, Any]) -> list[RoundRecord]:
    records: list[RoundRecord] = []
    run_in_process(small(**keys), quadratics(), observers=[lambda _, record: records.append(record)])
    return records


@pytest.mark.parametrize("privacy", ["local", "central"])
def test_noise_goes_with_masks(privacy: str) -> None:
    pytest.importorskip("dp_accounting")
    records = _records(MASKED | {"privacy": privacy, "clip": 0.5})
    assert all(record.failures == [] for record in records)
    assert records[-1].epsilon > 0.0
    assert np.isnan(records[-1].start_loss) == (privacy == "local")


def test_a_failing_client_is_a_client_that_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its evaluation fails after it has given shares: the others unmask the sum without it."""
    module = black_box(tmp_path, monkeypatch)
    records: list[RoundRecord] = []
    config = small(**MASKED, objective=f"{module}:FirstBroken", num_clients=3, weighting="uniform", init="ones")
    run_in_process(config, observers=[lambda _, record: records.append(record)])
    assert [record.replies for record in records] == [2, 2, 2, 2]
    assert {str(failure["client"]) for record in records for failure in record.failures} == {"0"}
    assert all("the valve is shut" in str(f["reason"]) for record in records for f in record.failures)


# Batches of the whole shard: slopes do not depend on the slot, so a run without a client is one of the others alone.
WHOLE = MASKED | {"batch_size": 0, "num_clients": 4, "clients_per_round": 4}


def _seals_garbage(monkeypatch: pytest.MonkeyPatch, liar: str, most: int) -> None:
    """Let a client seal what cannot be opened for so many others at most."""
    honest = Masks.answer

    def answer(masks: Masks, call: Broadcast) -> Update:
        update = honest(masks, call)
        if (call.client, call.stage) != (liar, "shares"):
            return update
        sealed = read_parts(update.payload, sealed=dict)["sealed"]
        garbage = dict.fromkeys(sorted(sealed)[:most], b"garbage")
        return replace(update, payload=pack_parts(sealed=sealed | garbage))

    monkeypatch.setattr(Masks, "answer", answer)


def _run(keys: dict[str, Any], objectives: list[Objective]) -> tuple[bytes, list[RoundRecord]]:
    records: list[RoundRecord] = []
    done = run_in_process(small(**keys), objectives, observers=[lambda _, record: records.append(record)])
    return done.state.x.tobytes(), records


def test_a_client_that_seals_garbage_is_set_aside(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The first try of the first round is lost, and x is that of the others from there on."""
    others, _ = _run(WHOLE | {"num_clients": 3, "clients_per_round": 3}, quadratics(3))
    _seals_garbage(monkeypatch, "3", most=3)
    x, records = _run(WHOLE, quadratics())
    assert x == others
    assert [(record.attempts, record.replies) for record in records] == [(2, 3), (1, 3), (1, 3), (1, 3)]
    assert {f["client"]: f["cause"] for f in records[0].failures} == dict.fromkeys("012", "unusable") | {
        "3": "false-shares"
    }
    assert count_lost([record.line for record in records], 4)["causes"] == {"unusable": 3, "false-shares": 1}
    assert "client 3 is set aside for the rest of the run: 3 of 4 clients cannot open what it sealed" in caplog.text


def test_a_try_without_a_client_counts_as_drawn_from_fewer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The privacy of sampling is that of a draw from all clients."""
    pytest.importorskip("dp_accounting")
    _seals_garbage(monkeypatch, "3", most=3)
    state = run_in_process(small(**WHOLE, privacy="central", clip=0.5), quadratics()).state
    assert (state.round, state.exposure.rounds, state.exposure.small_rounds) == (4, 1, 4)


def test_garbage_for_a_few_costs_a_try_of_each_round(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Two of five are more than the round can do without, and too few to set a client aside for good."""
    keys = WHOLE | {"num_clients": 5, "clients_per_round": 5}
    others, _ = _run(WHOLE, quadratics())
    _seals_garbage(monkeypatch, "4", most=2)
    x, records = _run(keys, quadratics(5))
    assert x == others
    assert [(record.attempts, record.replies) for record in records] == [(2, 4)] * 4
    assert caplog.text.count("client 4 is set aside for the rest of the round: 2 of 5 clients") == 4


def test_a_lone_false_accuser_loses_its_own_slots(monkeypatch: pytest.MonkeyPatch) -> None:
    others, _ = _run(WHOLE | {"num_clients": 3, "clients_per_round": 3}, quadratics(3))
    honest = Masks.masked

    def masked(masks: Masks, call: Broadcast, update: Update) -> Update:
        told = honest(masks, call, update)
        named = np.array([slot for slot in range(4) if slot != call.slot], dtype=np.float64)
        lie = Update(call.round, call.slot, call.client, "failed", "unusable", accused=named)
        return lie if call.client == "3" else told

    monkeypatch.setattr(Masks, "masked", masked)
    x, records = _run(WHOLE, quadratics())
    assert x == others
    assert [(record.attempts, record.replies) for record in records] == [(1, 3)] * 4
    assert {f["client"] for record in records for f in record.failures} == {"3"}


def test_too_large_slopes_name_the_key() -> None:
    with pytest.raises(RoundError, match=r"a slope is beyond slope-range = 1e-06; a larger slope-range allows it"):
        run_in_process(small(**MASKED, slope_range=1e-6, max_retries=0), quadratics())


def test_flowers_nodes_are_refused_with_the_reason() -> None:
    with pytest.raises(RoundError, match="secure-aggregation needs clients that keep their keys between messages"):
        fit(small(**MASKED, max_retries=0), nodes(3))


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        ("uplink", "move", "what is masked is K slopes"),
        ("directions", "per-slot", "only along shared directions"),
        ("sampling", "with-replacement", "a sum of one client's slots"),
        ("aggregation", "median", "the other rules look at each slot's slopes"),
        ("weighting", "examples", "equal weights"),
        ("step_size", "auto", "auto learns from the losses of each slot"),
        ("subspace_weight", "auto", "auto compares the clients' slopes"),
        ("on_error", "skip-step", "a client would tell beside the sum how many steps it skipped, and why"),
        ("algorithm", "zofed-shrink", "clients name their stiff directions unmasked"),
        ("share_threshold", 1, "at least 2, more than half of clients-per-round = 3 and not more than all, got 1"),
        ("share_threshold", 4, "not more than all, got 4"),
    ],
)
def test_what_cannot_work_is_refused_with_the_reason(key: str, value: Any, why: str) -> None:
    with pytest.raises(ConfigError) as caught:
        small(**(MASKED | {"local_steps": 9, key: value}))
    assert any(why in problem and key.replace("_", "-") in problem for problem in caught.value.problems)
