"""What a failing evaluation costs: its slot, its step, or the run."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from tests.helpers import Fleet, black_box, broadcast, quadratics, reply, small
from zofedht.common.errors import ObjectiveError, RoundError
from zofedht.server.core.coordinator import Coordinator
from zofedht.server.core.round_record import RoundRecord
from zofedht.server.core.state import initial_state
from zofedht.server.inprocess import run_in_process
from zofedht.server.records.history import read_history
from zofedht.server.records.run_folder import RunFolder


def records_of(module: str, factory: str, **changes: object) -> list[RoundRecord]:
    records: list[RoundRecord] = []
    config = small(objective=f"{module}:{factory}", init="ones", **changes)
    run_in_process(config, observers=[lambda state, record: records.append(record)])
    return records


def test_drop_slot_is_the_default_and_costs_the_slot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    module = black_box(tmp_path, monkeypatch)
    records = records_of(module, "Touchy", max_retries=50)
    assert any(record.failures for record in records)
    assert all(record.skipped == [] for record in records)
    failures = [failure for record in records for failure in record.failures]
    assert {failure["cause"] for failure in failures} == {"raised"}
    reasons = {str(failure["reason"]) for failure in failures}
    assert all(reason.startswith("the objective raised RuntimeError: the valve sticks (valve_") for reason in reasons)


def test_skip_step_counts_skipped_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """It keeps the slot."""
    module = black_box(tmp_path, monkeypatch)
    records = records_of(module, "Touchy", on_error="skip-step", local_steps=12)
    assert all((record.replies, record.failures) == (3, []) for record in records)
    skipped = [line for record in records for line in record.skipped]
    assert skipped
    assert all(1 <= int(str(line["steps"])) < 12 for line in skipped)
    for record in records:
        for line in record.skipped:
            assert (line["cause"], type(line["step"])) == ("raised", int)
            assert "the valve sticks" in str(line["reason"])
        assert np.isfinite(record.train_loss)


def test_a_slot_whose_steps_all_fail_has_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    module = black_box(tmp_path, monkeypatch)
    with pytest.raises(RoundError, match=r"the valve is shut \(valve_.*\); so it went in all 4 steps"):
        run_in_process(small(objective=f"{module}:Breaking", on_error="skip-step", max_retries=0))


@pytest.mark.parametrize("policy", ["skip-step", "stop"])
def test_without_a_failure_the_policy_changes_no_number(policy: str):
    x = run_in_process(small(), quadratics()).state.x
    assert run_in_process(small(on_error=policy), quadratics()).state.x.tobytes() == x.tobytes()
    digits = {"train_rows": 240, "step_size": 1.0, "evaluate_every": 0}  # the linear models' own path
    assert (
        run_in_process(small(on_error=policy, **digits)).state.x.tobytes()
        == run_in_process(small(**digits)).state.x.tobytes()
    )


def test_stop_ends_the_run_with_its_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The run can go on under another policy."""
    module = black_box(tmp_path, monkeypatch)
    config = small(objective=f"{module}:Touchy", init="ones", on_error="stop", checkpoint_every=100)
    folder = RunFolder(tmp_path / "run")
    folder.begin(config, "in-process")
    with pytest.raises(ObjectiveError, match=r"client \d, slot \d: round \d, step \d: .*the valve sticks .*resumed"):
        run_in_process(config, folder=folder)
    again, state, _ = folder.reopen({"on-error": "skip-step"})
    assert state.round == len(read_history(folder.history_file))
    result = run_in_process(again, folder=folder, state=state)
    assert result.state.x.tobytes() == run_in_process(config.replace(on_error="skip-step")).state.x.tobytes()


def test_a_client_cannot_choose_the_policy():
    """It can stop no run and skip no steps unless told to."""
    config = small()
    fleet = Fleet(quadratics())
    for lie in ({"status": "stopped", "reason": "tired"}, {"skipped": 1, "reason": "tired"}, {"skipped": 4}):
        coordinator = Coordinator(config, initial_state(config, np.zeros(12)))
        record = fleet.round(coordinator, lambda updates: [dataclasses.replace(updates[0], **lie), *updates[1:]])  # noqa: B023
        assert record is not None
        assert (record.replies, len(record.failures)) == (2, 1)


def test_skipping_all_steps_or_more_is_no_answer():
    from zofedht.server.aggregation.screening import screen

    asked = broadcast(on_error="skip-step")
    for skipped, usable in ((1, 1), (2, 0), (10**9, 0)):
        assert len(screen([reply(asked, skipped=skipped)], {0: asked})[0]) == usable
