"""Over Flower's messages a run ends in the x of the run in process, whatever the nodes are and do."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.common import (
    EvaluateIns,
    EvaluateRes,
    FitIns,
    FitRes,
    GetParametersIns,
    GetParametersRes,
)

from tests.helpers import black_box, searches, small
from tests.server.flower.loopback import Loopback, fit, nodes
from zofedht.client.steps.worker import BasisStore
from zofedht.common.config.run_config import RunConfig
from zofedht.common.errors import ObjectiveError, RoundError
from zofedht.server.inprocess import run_in_process
from zofedht.server.records.history import read_history
from zofedht.server.records.run_folder import RunFolder, sha256_of_x

CONFIG = small(train_rows=240, step_size=1.0)
EVERYBODY = {"sampling": "without-replacement", "clients_per_round": 4}


def digest(config: RunConfig, proxies: list[Loopback]) -> str:
    return sha256_of_x(fit(config, proxies).state.x)


def in_process(config: RunConfig) -> str:
    return sha256_of_x(run_in_process(config).state.x)


def with_basis(proxies: list[Loopback], round_: int) -> int:
    return sum("basis" in ins.config for proxy in proxies for ins in proxy.fits if ins.config["round"] == round_)


@pytest.mark.parametrize("count", [1, 2, 3, 7])
@pytest.mark.parametrize("seed", [0, 1])
def test_x_equals_in_process_for_any_nodes(count: int, seed: int):
    assert digest(CONFIG, nodes(count, seed)) == in_process(CONFIG)


@pytest.mark.parametrize(
    "changes",
    [
        {"algorithm": "zofedavg-sgd"},
        {"algorithm": "zofedavg-gd"},
        {"covariance": "paper", "memory": 3},
        {"model": "mlp", "hidden_units": 3},
        {"model": "mlp", "hidden_units": 3, "init": "random"},
        {"model": "quadratic", "slope": "forward", "step_size": 0.05},
        {"sampling": "without-replacement", "weighting": "examples", "partition": "dirichlet"},
        {"l2": 0.1, "model": "svm-squared-hinge", "init": "ones", "step_size": 0.1},
        {"step_size": "auto", "subspace_weight": "auto", "local_steps": 6, "partition": "sorted"},
    ],
    ids=str,
)
def test_every_algorithm_and_model_ends_in_the_same_x(changes: dict[str, Any]):
    config = CONFIG.replace(**changes)
    assert digest(config, nodes(2)) == in_process(config)


@pytest.mark.parametrize("algorithm", ["cma-es", "lbfgs", "auto"])
@pytest.mark.parametrize("dataset", [{"train_rows": 240}, {"objective": "bounded"}], ids=str)
def test_a_search_ends_in_the_same_x(
    algorithm: str, dataset: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    if "objective" in dataset:
        dataset = {"objective": f"{black_box(tmp_path, monkeypatch)}:Bounded"}
    config = searches(algorithm=algorithm, **dataset)
    folder = RunFolder(tmp_path / "run")
    folder.begin(config, "simulation")
    assert sha256_of_x(fit(config, nodes(3), folder=folder).state.x) == in_process(config)
    rows = read_history(folder.history_file)
    assert {row["replies"] for row in rows} <= {2, 3, 4}
    assert not any(row["failures"] or row["skipped"] for row in rows)


def test_the_order_in_which_nodes_join_does_not_matter():
    proxies = nodes(5)
    assert digest(CONFIG, proxies[::-1]) == digest(CONFIG, nodes(5))


def test_losses_equal_in_process(tmp_path: Path):
    """So does the number of evaluations."""
    over_flower, here = RunFolder(tmp_path / "flower"), RunFolder(tmp_path / "here")
    for folder in (over_flower, here):
        folder.begin(CONFIG, "simulation")
    fit(CONFIG, nodes(3), folder=over_flower)
    run_in_process(CONFIG, folder=here)
    rows = [read_history(folder.history_file) for folder in (over_flower, here)]
    drop = {"seconds", "bytes_down", "bytes_up"}  # a message for each node in the one, for each slot in the other
    assert [{k: v for k, v in row.items() if k not in drop} for row in rows[0]] == [
        {k: v for k, v in row.items() if k not in drop} for row in rows[1]
    ]
    assert rows[0][0]["start_loss"] == pytest.approx(np.log(2.0), abs=1e-6)  # of every row at x_0 = 0


def test_a_run_begun_in_process_goes_on_over_flower(tmp_path: Path):
    folder = RunFolder(tmp_path / "run")
    steady = CONFIG.replace(step_schedule="constant")
    folder.begin(steady.replace(rounds=3), "in-process")
    run_in_process(steady.replace(rounds=3), folder=folder)
    config, state, _ = folder.reopen({"rounds": 7})
    assert sha256_of_x(fit(config, nodes(2), folder=folder, state=state).state.x) == in_process(steady)
    assert [row["round"] for row in read_history(folder.history_file)] == list(range(7))


def test_q_goes_once_to_each_node():
    proxies = nodes(1)
    fit(CONFIG, proxies)
    assert [with_basis(proxies, r) for r in range(7)] == [0, 0, 1, 0, 1, 0, 1]


def test_a_lost_basis_is_resent_within_the_round(tmp_path: Path):
    """Every message meets a fresh process, as in simulation: whoever was not sent Q is sent it at once."""
    proxies = [Loopback(str(cid), bases=BasisStore) for cid in (5, 3)]
    folder = RunFolder(tmp_path / "run")
    folder.begin(CONFIG, "simulation")
    assert sha256_of_x(fit(CONFIG, proxies, folder=folder).state.x) == in_process(CONFIG)
    asked = [sum(any(ins.config["round"] == r for ins in proxy.fits) for proxy in proxies) for r in range(7)]
    assert [with_basis(proxies, r) for r in range(7)] == [0, 0, *asked[2:]]
    rows = read_history(folder.history_file)
    assert all((row["replies"], row["attempts"], row["failures"]) == (3, 1, []) for row in rows)


def test_all_slots_of_a_node_are_one_message():
    proxies = nodes(2)
    config = CONFIG.replace(num_clients=12, clients_per_round=12, sampling="without-replacement")
    assert digest(config, proxies) == in_process(config)
    assert [len(proxy.fits) for proxy in proxies] == [config.rounds] * 2


def test_a_slot_that_ends_its_process_costs_no_other_slot(tmp_path: Path):
    class Mortal(Loopback):
        def fit(self, ins: FitIns, timeout: float | None, group_id: int | None) -> FitRes:
            if "2" in [value for key, value in ins.config.items() if key.endswith("client")]:
                raise ConnectionResetError("the process has ended")
            return super().fit(ins, timeout, group_id)

    folder = RunFolder(tmp_path / "run")
    config = CONFIG.replace(**EVERYBODY, num_clients=4, min_replies=1)
    folder.begin(config, "simulation")
    fit(config, nodes(2, kind=Mortal), folder=folder)
    rows = read_history(folder.history_file)
    assert [row["replies"] for row in rows] == [4] * config.rounds  # another client has taken the slot over
    assert {failure["client"] for row in rows for failure in row["failures"]} == {"2"}


def test_without_a_node_the_wait_is_bounded():
    with pytest.raises(RoundError, match=r"no client connected within 0\.1 seconds"):
        fit(CONFIG.replace(round_timeout=0.1), [])


@pytest.mark.parametrize("factory", ["Valve", "Starting", "ByName"])
def test_a_black_box_equals_in_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, factory: str):
    """Its start is asked of a client, and evaluations are asked of all of them."""
    config = small(objective=f"{black_box(tmp_path, monkeypatch)}:{factory}")
    over_flower, here = fit(config, nodes(3)), run_in_process(config)
    assert sha256_of_x(over_flower.state.x) == sha256_of_x(here.state.x)
    assert over_flower.initial == here.initial
    assert over_flower.final == here.final
    assert over_flower.state.settings == here.state.settings
    assert bool(here.state.settings) == (factory == "ByName")


@pytest.mark.parametrize("every", [0, 2])
def test_the_verdict_equals_that_in_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, every: int):
    config = small(objective=f"{black_box(tmp_path, monkeypatch)}:Valve", evaluate_every=every, init="ones")
    over_flower, here = fit(config, nodes(3)), run_in_process(config)
    assert sha256_of_x(over_flower.x) == sha256_of_x(here.x)
    assert over_flower.verdict.about() == here.verdict.about()
    assert over_flower.state.totals.full_evaluations == here.state.totals.full_evaluations > 0


@pytest.mark.parametrize("algorithm", ["zofedht", "cma-es"])
def test_code_that_ends_the_program_loses_its_evaluation(
    algorithm: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    make = searches if algorithm == "cma-es" else small
    config = make(objective=f"{black_box(tmp_path, monkeypatch)}:Quitting", on_error="skip-step")
    folder = RunFolder(tmp_path / "run")
    folder.begin(config, "simulation")
    over_flower, here = fit(config, nodes(3), folder=folder), run_in_process(config)
    assert sha256_of_x(over_flower.state.x) == sha256_of_x(here.state.x)
    lost = folder.summary()["lost"]
    assert lost["steps"] > 0
    assert "the objective raised SystemExit" in lost["reason"]


def test_a_failing_black_box_is_named_with_its_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    config = small(objective=f"{black_box(tmp_path, monkeypatch)}:Breaking", max_retries=0)
    with pytest.raises(RoundError, match="client 2: round 1, step 1: the objective raised RuntimeError"):
        fit(config, nodes(2))


class Mute(Loopback):
    """A node that can neither say its start nor evaluate."""

    def get_parameters(self, ins: GetParametersIns, timeout: float | None, group_id: int | None) -> GetParametersRes:
        raise ConnectionError("the stream was reset")

    def evaluate(self, ins: EvaluateIns, timeout: float | None, group_id: int | None) -> EvaluateRes:
        raise ConnectionError("the stream was reset")


class Blind(Mute):
    """A node that can say its start but not evaluate."""

    get_parameters = Loopback.get_parameters


@pytest.mark.parametrize(
    ("kind", "kind_of_error", "sentence"),
    [
        (Mute, RoundError, "clients 0, 1, 2, 3 could not say the starting point"),
        (Blind, ObjectiveError, "no client could evaluate the start: clients 0, 1, 2, 3"),
    ],
)
def test_a_start_that_nobody_gives_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type[Loopback], kind_of_error: type[Exception], sentence: str
):
    """An evaluation that nobody gives is one as well."""
    config = small(objective=f"{black_box(tmp_path, monkeypatch)}:Valve")
    with pytest.raises(kind_of_error, match=f"{sentence}: the stream was reset"):
        fit(config, nodes(2, kind=kind))


class Ended(Loopback):
    """A node that is gone in the third round, or at its evaluation, since the run was interrupted."""

    interrupted = threading.Event()
    at = "fit"

    def fit(self, ins: FitIns, timeout: float | None, group_id: int | None) -> FitRes:
        return super().fit(ins, timeout, group_id) if self._is_there("fit", ins) else self._lost()

    def evaluate(self, ins: EvaluateIns, timeout: float | None, group_id: int | None) -> EvaluateRes:
        return super().evaluate(ins, timeout, group_id) if self._is_there("evaluate", None) else self._lost()

    def _is_there(self, what: str, ins: FitIns | None) -> bool:
        third = ins.config["round"] == 2 if ins else bool(self.fits and self.fits[-1].config["round"] == 2)
        return not (third and what == self.at)

    def _lost(self) -> Any:
        self.interrupted.set()
        raise ConnectionError("the node is gone")


@pytest.mark.parametrize("at", ["fit", "evaluate"])
def test_an_interrupt_keeps_the_last_whole_round(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: str):
    """What is lost by the interrupt is no failure: the run that goes on ends in the x of one without it."""
    config = small(objective=f"{black_box(tmp_path, monkeypatch)}:Valve", checkpoint_every=100, evaluate_every=1)
    monkeypatch.setattr(Ended, "interrupted", threading.Event())
    monkeypatch.setattr(Ended, "at", at)
    folder = RunFolder(tmp_path / "run")
    folder.begin(config, "simulation")
    with pytest.raises(RoundError, match="interrupted"):
        fit(config, nodes(1, kind=Ended), folder=folder, interrupted=Ended.interrupted)
    config, state, _ = folder.reopen({})
    assert state.round == 2
    rows = read_history(folder.history_file)
    assert not any(row["failures"] for row in rows)
    assert sha256_of_x(fit(config, nodes(2), folder=folder, state=state).state.x) == in_process(config)


def test_waiting_for_somebody_to_ask_is_told_once(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("zofedht.server.flower.presence._WORTH_A_WORD", 0.0)
    caplog.set_level("INFO", "zofedht")
    with pytest.raises(RoundError, match="no client connected"):
        fit(CONFIG.replace(round_timeout=0.3), [])
    assert [r.message for r in caplog.records].count("waiting for clients: none can be asked now") == 1
