"""A failing evaluation, scale and bounds: a black box over Flower's messages does what it does in process."""

from __future__ import annotations

from pathlib import Path

import pytest
from flwr.common import EvaluateIns, EvaluateRes, GetParametersIns, GetParametersRes
from flwr.server.client_proxy import ClientProxy

from tests.helpers import NOT_ALIKE, black_box, small
from tests.server.flower.loopback import Loopback, fit, nodes
from zofedht.common.errors import ObjectiveError
from zofedht.common.shards import members_of
from zofedht.common.wire.clients import Member
from zofedht.server.inprocess import run_in_process
from zofedht.server.records.history import read_history
from zofedht.server.records.run_folder import RunFolder


@pytest.mark.parametrize("policy", ["skip-step", "drop-slot"])
def test_a_failing_evaluation_costs_the_same_as_in_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, policy: str
):
    module = black_box(tmp_path, monkeypatch)
    config = small(objective=f"{module}:Touchy", init="ones", on_error=policy, max_retries=50)
    rows = []
    for name in ("here", "there"):
        folder = RunFolder(tmp_path / name)
        folder.begin(config, name)
        result = run_in_process(config, folder=folder) if name == "here" else fit(config, nodes(2), folder=folder)
        told = [(row["replies"], row["failures"], row["skipped"]) for row in read_history(folder.history_file)]
        rows.append((result.state.x.tobytes(), told, folder.summary()["lost"]))
    assert rows[0] == rows[1]
    assert any(failures or skipped for _, failures, skipped in rows[0][1])
    assert rows[0][2]["slots"] + rows[0][2]["steps"] > 0


def test_stop_ends_the_run_and_it_can_be_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    module = black_box(tmp_path, monkeypatch)
    config = small(objective=f"{module}:Touchy", init="ones", on_error="stop")
    folder = RunFolder(tmp_path / "run")
    folder.begin(config, "simulation")
    with pytest.raises(ObjectiveError, match=r"client \d, slot \d: .*the valve sticks .*on-error = stop"):
        fit(config, nodes(2), folder=folder)
    again, state, _ = folder.reopen({"on-error": "skip-step"})
    wanted = run_in_process(config.replace(on_error="skip-step")).state.x
    assert fit(again, nodes(2), folder=folder, state=state).state.x.tobytes() == wanted.tobytes()


@pytest.mark.parametrize("downlink", ["x", "slopes"])
def test_a_memory_longer_than_n_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, downlink: str):
    """It is cut on all sides and told once."""
    module = black_box(tmp_path, monkeypatch)
    wire = {"downlink": downlink, "uplink": "slopes", "directions": "shared"} if downlink == "slopes" else {}
    config = small(objective=f"{module}:Valve", memory=50, rounds=14, step_schedule="constant", **wire)
    folder = RunFolder(tmp_path / "run")
    folder.begin(config, "simulation")
    there = fit(config, nodes(2), folder=folder).x.tobytes()
    assert there == run_in_process(config).x.tobytes() == run_in_process(config.replace(memory=6)).x.tobytes()
    rows = read_history(folder.history_file)
    assert [row["round"] for row in rows if row["basis_version"] == 6] == [6, 7, 8, 9, 10, 11]
    (told,) = [change for row in rows for change in row["interventions"]]
    assert told == rows[0]["interventions"][0] == told | {"what": "memory", "before": 50, "after": 6}
    # Resumed from the config as it was given.
    again, state, _ = folder.reopen({"rounds": 20})
    assert again.memory == 50
    wanted = run_in_process(config.replace(rounds=20, memory=6)).x.tobytes()
    assert fit(again, nodes(2), folder=folder, state=state).x.tobytes() == wanted
    assert [row["round"] for row in read_history(folder.history_file) if row["interventions"]] == [0]


def test_scaled_and_bounded_parameters_end_as_in_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    module = black_box(tmp_path, monkeypatch)
    config = small(objective=f"{module}:Bounded")
    there, here = fit(config, nodes(2)), run_in_process(config)
    assert there.x.tobytes() == here.x.tobytes()
    assert there.x[4] == 0.0
    assert there.state.units is not None


@pytest.mark.parametrize("factory", ["LastFails", "FailsAlways", "AllFailAtLast", "FailsOnce"])
def test_a_failed_evaluation_is_told_as_in_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, factory: str):
    module = black_box(tmp_path, monkeypatch)
    config = small(objective=f"{module}:{factory}")
    folder = RunFolder(tmp_path / "run")
    folder.begin(config, "simulation")
    there = fit(config, nodes(2), folder=folder)
    # Another task: an objective that counts its calls is then made anew.
    run_in_process(small(objective=f"{module}:Valve", rounds=1))
    here = run_in_process(config)
    assert (there.x.tobytes(), there.first, there.last) == (here.x.tobytes(), here.first, here.last)
    assert bool(there.last.missing) == (factory != "FailsOnce")
    (last,) = read_history(folder.history_file)[-1:]
    assert [one["client"] for one in last["unevaluated"]] == [one.client for one in here.last.missing]
    assert there.summary["final_train_loss"] == here.final.get("train_loss")


def test_stop_is_about_full_evaluations_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    module = black_box(tmp_path, monkeypatch)
    with pytest.raises(ObjectiveError, match=r"client 2: .*the plant is in maintenance .*on-error = stop"):
        fit(small(objective=f"{module}:LastFails", on_error="stop"), nodes(2))


@pytest.mark.parametrize(("factory", "sentence"), NOT_ALIKE)
def test_clients_that_differ_are_named_before_round_0(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, factory: str, sentence: str
):
    """They differ in n or in units."""
    module = black_box(tmp_path, monkeypatch)
    with pytest.raises(ObjectiveError, match=sentence):
        fit(small(objective=f"{module}:{factory}"), nodes(2))


class Reticent(Loopback):
    """A node that does not tell its start: what its clients have is first seen when they are to evaluate."""

    def get_parameters(self, ins: GetParametersIns, timeout: float | None, group_id: int | None) -> GetParametersRes:
        raise ConnectionError("the stream was reset")


def test_other_units_are_not_evaluated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A client with other units counts in no full evaluation."""
    module = black_box(tmp_path, monkeypatch)
    config = small(objective=f"{module}:OwnScale")
    found = fit(config.replace(num_clients=2, clients_per_round=2), [Loopback("1"), Reticent("2")])
    assert found.first.clients == found.last.clients == ("0",)
    (missing,) = found.last.missing
    assert missing.client == "1"
    assert "scale and bounds of this client's objective are not the run's" in missing.reason


class Leaving(Loopback):
    """A node whose line is cut as soon as it has done a slot of work."""

    def evaluate(self, ins: EvaluateIns, timeout: float | None, group_id: int | None) -> EvaluateRes:
        if self.fits:
            raise ConnectionError("the stream was reset")
        return super().evaluate(ins, timeout, group_id)


def test_a_cut_line_is_no_failed_evaluation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """It stops no run with on-error = stop."""
    module = black_box(tmp_path, monkeypatch)
    config = small(objective=f"{module}:Valve", on_error="stop", sampling="without-replacement", clients_per_round=4)
    found = fit(config, [Loopback("1"), Leaving("2")])
    assert found.x.tobytes() == run_in_process(config).x.tobytes()
    assert found.first.clients == ("0", "1", "2", "3")
    assert found.last.clients == ("0", "2")
    assert {one.reason for one in found.last.missing} == {"the stream was reset"}


def test_a_client_that_has_left_is_missing_and_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    module = black_box(tmp_path, monkeypatch)
    config = small(objective=f"{module}:Valve")
    node = Loopback("1")
    everybody = dict.fromkeys(members_of(config), node)

    def homes() -> dict[Member, ClientProxy]:
        return {m: n for m, n in everybody.items() if m.name != "2" or len(node.fits) < 3}

    found = fit(config, [node], homes=homes)
    assert (found.first.clients, found.last.clients) == (("0", "1", "2", "3"), ("0", "1", "3"))
    assert [(one.client, one.reason[:13]) for one in found.last.missing] == [("2", "not connected")]
