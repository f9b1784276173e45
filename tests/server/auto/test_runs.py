"""Runs with step-size and subspace-weight = auto, from the config to the history."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers import small
from tests.server.inprocess.test_resume import KilledError, kill_after, without_last_words
from zofedht.common.config.derived_keys import START_WEIGHT
from zofedht.common.config.run_config import RunConfig
from zofedht.common.models.quadratic import QuadraticObjective
from zofedht.common.objective.base import Objective
from zofedht.common.objective.function import FunctionObjective
from zofedht.common.typing import Vector
from zofedht.server.auto import AutoState
from zofedht.server.auto.step_size import PACE, StepState
from zofedht.server.auto.subspace_weight import WeightState
from zofedht.server.conduct import Result
from zofedht.server.core.round_record import RoundRecord
from zofedht.server.core.state import ServerState, initial_state
from zofedht.server.inprocess import run_in_process
from zofedht.server.minimise.run import run as minimise
from zofedht.server.records.checkpoint import read_checkpoint, write_checkpoint
from zofedht.server.records.history import read_history
from zofedht.server.records.run_folder import RunFolder

DIMENSION = 40


def clients(apart: float, curvature: float = 1.0, count: int = 8) -> list[Objective]:
    """Quadratics whose minima lie ``apart`` from their common one."""
    rng = np.random.default_rng(5)
    middle = np.full(DIMENSION, 3.0)
    bent = np.full(DIMENSION, curvature)
    centres = [middle + apart * rng.standard_normal(DIMENSION) for _ in range(count)]
    return [QuadraticObjective(centre + 0.3 * rng.standard_normal((20, DIMENSION)), bent) for centre in centres]


def config(**changes: Any) -> RunConfig:
    wanted = {
        "num_clients": 8,
        "clients_per_round": 6,
        "local_steps": 20,
        "memory": 3,
        "rounds": 30,
        "step_size": "auto",
    }
    return small(**(wanted | changes))


def loss(objectives: Sequence[Objective], x: np.ndarray) -> float:
    return float(np.mean([objective.value(x, slice(None)) for objective in objectives]))


@pytest.mark.parametrize("curvature", [1e-5, 1.0, 1e4])
@pytest.mark.parametrize("algorithm", ["zofedht", "zofedavg-sgd"])
def test_a_run_without_a_step_ends_near_one_with_the_best_of_a_grid(curvature: float, algorithm: str) -> None:
    objectives = clients(0.1, curvature)
    grid = [0.003, 0.01, 0.03, 0.1]  # in units of the inverse curvature
    fixed = [
        loss(objectives, run_in_process(config(algorithm=algorithm, step_size=step / curvature), objectives).state.x)
        for step in grid
    ]
    found = loss(objectives, run_in_process(config(algorithm=algorithm), objectives).state.x)
    start = loss(objectives, np.zeros(DIMENSION))
    assert found - min(fixed) < 0.05 * (start - min(fixed))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("curvature", [1e-10, 1e-6, 1.0, 1e6])
def test_few_clients_that_differ_get_somewhere_whatever_the_magnitude_of_their_loss(
    curvature: float, seed: int
) -> None:
    """A client's loss says where it stands, not what its step was worth: only its own fall says that."""
    objectives = clients(1.0, curvature, count=5)
    wanted = config(num_clients=5, clients_per_round=5, batch_size=0, seed=seed)
    start, least = (loss(objectives, np.full(DIMENSION, at)) for at in (0.0, 3.0))  # 3 is near the best
    assert loss(objectives, run_in_process(wanted, objectives).state.x) - least < 0.25 * (start - least)


def test_a_step_that_makes_the_run_diverge_is_cut_until_it_does_not() -> None:
    objectives = clients(0.1)
    begun = replace(
        initial_state(config(), np.zeros(DIMENSION)),
        auto=AutoState(StepState(base=0.6, ratio=PACE, anchor=np.zeros(DIMENSION), part=1 / 60)),
    )
    rows: list[RoundRecord] = []
    result = run_in_process(config(rounds=60), objectives, state=begun, observers=[lambda _, row: rows.append(row)])
    assert loss(objectives, result.state.x) < 0.2 * loss(objectives, np.zeros(DIMENSION))
    changes = [change for row in rows for change in row.interventions]
    assert any(change["what"] == "step-size" for change in changes)
    found = result.state.auto.step_found
    assert found is not None
    assert found < 0.3


def to_resume() -> RunConfig:
    return config(subspace_weight="auto", clients_per_round=8, rounds=16, checkpoint_every=3)


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Result, list[Any]]:
    """Return the run that the resumed ones must equal, and its interventions."""
    folder = RunFolder(tmp_path_factory.mktemp("auto") / "whole")
    folder.begin(to_resume(), "in-process")
    done = run_in_process(to_resume(), clients(3.0), folder=folder)
    return done, [row["interventions"] for row in read_history(folder.history_file)]


@pytest.mark.parametrize(("killed", "power_cut"), list(itertools.product([1, 2, 4, 9, 14], [False, True])))
def test_a_resumed_run_equals_an_uninterrupted_one_bit_for_bit(
    uninterrupted: tuple[Result, list[Any]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    killed: int,
    power_cut: bool,
) -> None:
    expected, interventions = uninterrupted
    objectives, broken = clients(3.0), RunFolder(tmp_path / "broken")
    broken.begin(to_resume(), "in-process")
    way_out = without_last_words(monkeypatch) if power_cut else nullcontext()
    with pytest.raises(KilledError), way_out:
        run_in_process(to_resume(), objectives, folder=broken, observers=[kill_after(killed)])
    again, state, _ = broken.reopen({})
    result = run_in_process(again, objectives, folder=broken, state=state)
    assert result.state.x.tobytes() == expected.state.x.tobytes()
    assert [row["interventions"] for row in read_history(broken.history_file)] == interventions
    assert result.summary["interventions"] == expected.summary["interventions"]


def test_interventions_are_in_the_history_and_counted_in_the_summary(tmp_path: Path) -> None:
    folder, wanted = RunFolder(tmp_path / "run"), config(subspace_weight="auto")
    folder.begin(wanted, "in-process")
    run_in_process(wanted, clients(3.0), folder=folder)
    rows = read_history(folder.history_file)
    changes = [change for row in rows for change in row["interventions"]]
    assert all(set(change) == {"what", "before", "after", "why"} for change in changes)
    counts = json.loads(folder.summary_file.read_text())["interventions"]
    assert sum(counts.values()) == len(changes) > 1
    assert rows[0]["step_size"] == 0.0  # its slots measure slopes
    found = next(row for row in rows if row["interventions"])["interventions"][0]
    assert (found["what"], found["before"]) == ("step-size", None)
    assert rows[1]["step_size"] < found["after"]
    assert rows[-1]["step_size"] == 0.0


def test_numbers_leave_nothing_to_intervene_in(tmp_path: Path) -> None:
    folder, wanted = RunFolder(tmp_path / "run"), config(step_size=0.01)
    folder.begin(wanted, "in-process")
    result = run_in_process(wanted, clients(3.0), folder=folder)
    assert result.summary["interventions"] == {}
    rows = read_history(folder.history_file)
    assert [row["subspace_weight"] for row in rows] == [0.0] * 3 + [START_WEIGHT] * 27
    assert result.state.auto == AutoState()


def final_weight(objectives: Sequence[Objective]) -> float:
    rows: list[RoundRecord] = []
    wanted = config(
        subspace_weight="auto",
        step_size=0.001,
        step_schedule="constant",
        local_steps=100,
        num_clients=len(objectives),
    )
    run_in_process(wanted, objectives, observers=[lambda _, row: rows.append(row)])
    return rows[-1].subspace_weight


def test_clients_with_other_minima_lose_the_trajectory_and_clients_alike_keep_it() -> None:
    assert final_weight(clients(10.0, count=30)) < 0.1 * START_WEIGHT
    assert final_weight(clients(0.0, count=30)) == pytest.approx(START_WEIGHT)


def test_what_the_rules_remember_is_in_the_checkpoint_bit_for_bit(tmp_path: Path) -> None:
    step = StepState(1 / 3, PACE, -0.0, 5e-324, 0.1, None, 2.0, 0.7, ((0.1, -1e-300), (), (7.0,)))
    wanted = config(subspace_weight="auto")
    rules = AutoState(step, WeightState(1 / 3, 0.1, -0.0, 5e-324))
    read, _ = read_checkpoint(write_checkpoint(tmp_path, ServerState(4, np.zeros(3), auto=rules), wanted))
    assert repr(read.auto) == repr(rules)  # as text: no number equals nan, and 0 equals -0
    anchor = np.array([np.pi, -0.0, 5e-324])
    with_anchor = AutoState(replace(step, anchor=anchor))
    read, _ = read_checkpoint(write_checkpoint(tmp_path, ServerState(4, np.zeros(3), auto=with_anchor), wanted))
    assert read.auto.step is not None
    assert read.auto.step.anchor is not None
    assert read.auto.step.anchor.tobytes() == anchor.tobytes()


@pytest.mark.parametrize("rounds", [30, 100])
@pytest.mark.parametrize("scale", [1.0, 1e12])
def test_two_slots_of_clients_that_differ_on_steep_axes_do_not_throw_x_off_for_good(scale: float, rounds: int) -> None:
    rng = np.random.default_rng(0)
    bent = scale * np.logspace(0.0, 3.0, DIMENSION)
    objectives: list[Objective] = [QuadraticObjective(rng.standard_normal((1, DIMENSION)), bent) for _ in range(5)]
    wanted = config(num_clients=5, clients_per_round=2, batch_size=0, rounds=rounds)
    found = run_in_process(wanted, objectives)
    assert loss(objectives, found.state.x) < 2.0 * loss(objectives, np.zeros(DIMENSION))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("rounds", [30, 60, 99])
def test_a_function_that_is_steep_far_off_throws_no_run_off_for_good(rounds: int, seed: int) -> None:
    """Rosenbrock's: one slot that runs away takes the mean with it, and the next rounds must bring x back."""

    def rosenbrock(x: Vector) -> float:
        return float(np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2))

    objectives = [FunctionObjective(rosenbrock, np.zeros(3)) for _ in range(5)]
    wanted = config(num_clients=5, clients_per_round=5, rounds=rounds, local_steps=50, radius=1e-3, seed=seed)
    assert rosenbrock(run_in_process(wanted, objectives).state.x) < 1.0  # from 2


def test_slopes_that_run_away_are_lessons_and_not_a_failed_round() -> None:
    begun = replace(
        initial_state(config(), np.zeros(DIMENSION)),
        auto=AutoState(StepState(base=1e3, ratio=PACE, anchor=np.zeros(DIMENSION), part=1 / 30)),
    )
    rows: list[RoundRecord] = []
    wanted, observers = config(local_steps=200), [lambda _, row: rows.append(row)]
    run_in_process(wanted, clients(0.1), state=begun, observers=observers)
    assert rows[0].failures[0]["cause"] == "not-finite"
    assert rows[0].attempts == 1
    assert rows[-1].train_loss < rows[1].train_loss


@pytest.mark.parametrize("seed", range(3))
def test_a_penalty_near_the_largest_float_ends_no_run(seed: int):
    def penalised(x: Vector) -> float:
        return 1.7e308 if np.any(np.abs(x) > 1.5) else float(np.sum((x - 1.0) ** 2))

    result = minimise(penalised, x0=np.zeros(4), rounds=40, seed=seed)
    assert result.success
    assert result.fun < 1e-3
