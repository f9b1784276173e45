"""The race of step schedules, as laws on clients that are parabolas in one number."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field

import numpy as np
import pytest

from common.config import RunConfig
from server.step_race import begin_race, race_length
from server.step_rule import drawn_as, learn, steps
from server.step_state import Findings, StepState
from server.step_trials import Trial

CONFIG = RunConfig(step_size="auto", clients_per_round=4, rounds=225)
LENGTH = race_length(CONFIG)
FIRST = 7  # round of the run in which the races here begin
MEASURED = 0.1


@dataclass
class Played:
    """What a race did."""

    last: Findings
    turns: list[list[float]] = field(default_factory=list)  # the steps of each schedule's turn
    starts: list[float] = field(default_factory=list)  # x when its turn began
    clients: list[list[int]] = field(default_factory=list)  # the rounds whose clients it met

    @property
    def state(self) -> StepState:
        return self.last.state


def play(curvature: float, far: float = 1.0, limit: float = math.inf, noise: float = 0.0) -> Played:
    """Race on curvature (x - far)^2/2 from x = 0; a step above ``limit`` diverges."""
    rng = np.random.default_rng(0)
    state = begin_race(StepState(step=MEASURED, level=curvature * far**2 / 2.0), FIRST)
    x = np.zeros(1)
    played = Played(Findings(state, 0.0), [[]], [0.0], [[]])
    for round_ in itertools.count(FIRST):
        asked = steps(state, CONFIG, round_, 4, follows=False)
        assert len(set(asked)) == 1
        played.turns[-1].append(asked[0])
        played.clients[-1].append(drawn_as(state, round_))
        loss = float(curvature * (x[0] - far) ** 2 / 2.0) if asked[0] <= limit else math.inf
        trials = [Trial(asked[0], loss + noise * rng.standard_normal(), client=f"client-{i}") for i in range(4)]
        found = learn(state, CONFIG, round_, x, trials, follows=False)
        state = found.state
        moved = x - asked[0] * curvature * (x - far)
        x = moved if found.restored is None else found.restored
        if found.restored is not None:
            assert found.longest == 0.0
        played.last = found
        if state.searching == "done":
            return played
        if found.restored is not None:
            played.turns.append([])
            played.starts.append(float(x[0]))
            played.clients.append([])
    raise AssertionError("no end")


def test_all_schedules_begin_at_one_x_meet_the_clients_of_the_same_rounds_and_are_judged_at_one_step() -> None:
    played = play(0.05)
    assert len(played.turns) > 2
    assert played.starts == [0.0] * len(played.turns)
    assert played.clients == [list(range(FIRST, FIRST + LENGTH))] * len(played.turns)
    judged = [turn[-(LENGTH // 3) :] for turn in played.turns]
    assert judged == [judged[0]] * len(played.turns)


def test_the_first_is_held_and_longer_ones_fall_at_once() -> None:
    held, falling, *_ = play(0.05).turns
    assert held == pytest.approx([MEASURED] * 9)
    assert falling[:6] == pytest.approx([3 * MEASURED / math.sqrt(r) for r in range(1, 7)])


def test_where_x_has_far_to_go_a_longer_schedule_wins_and_goes_on_from_where_it_led() -> None:
    played = play(0.05)
    assert played.state.step > MEASURED
    assert played.last.restored is not None
    assert played.last.restored[0] > 0.3
    assert [i.what for i in played.last.interventions] == ["step-size", "x"]
    over = FIRST + sum(len(turn) for turn in played.turns)  # the next round
    going_on = steps(played.state, CONFIG, over, 1, follows=False)[0]
    assert going_on == pytest.approx(played.state.step / math.sqrt(LENGTH))  # 8 rounds are behind it: the last is lost


def test_where_longer_ones_diverge_the_measured_step_stays_and_their_turns_are_cut() -> None:
    played = play(1.0, limit=0.15)
    assert played.state.step == MEASURED
    assert [len(turn) for turn in played.turns] == [LENGTH, 1, LENGTH]  # held, 3 times as long, a third as long


def test_a_measured_step_that_is_too_long_is_shortened() -> None:
    played = play(1.0, limit=0.05)
    assert played.state.step == pytest.approx(MEASURED / 3.0)


def test_ties_go_upwards_since_at_a_saddle_nothing_falls_before_steps_are_long_enough() -> None:
    played = play(0.0, noise=1.0)
    assert len(played.turns) > 2
    assert all(after[0] > before[0] for before, after in itertools.pairwise(played.turns))


def test_a_race_never_takes_more_than_a_quarter_of_the_run() -> None:
    played = play(1e-9)  # the longer the better, without end
    assert sum(len(turn) for turn in played.turns) <= CONFIG.rounds // 4
    assert played.turns[-1][0] == max(turn[0] for turn in played.turns)


@pytest.mark.parametrize("changes", [{"rounds": 99}, {"step_schedule": "constant"}])
def test_short_runs_and_constant_steps_have_no_race(changes: dict[str, object]) -> None:
    assert race_length(CONFIG.replace(**changes)) == 0
    assert race_length(CONFIG) == 9
