"""The race of steps, as laws on clients that are parabolas in one number."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

import numpy as np
import pytest

from zofedht.common.config.run_config import RunConfig
from zofedht.server.auto.race import FIRST, begin_race, race_length
from zofedht.server.auto.state import Findings, StepState
from zofedht.server.auto.step_size import drawn_as, learn, steps
from zofedht.server.auto.trials import Trial

CONFIG = RunConfig(step_size="auto", clients_per_round=4, rounds=225)
LENGTH, OWN, LOOKS = 11, 5, 2  # rounds of a turn, and of those the ones of its own step and the looks
BEGAN = 7  # round of the run in which the races here begin
ROUND = 1000  # evaluations
MEASURED = 0.1
SECOND = 2.0 * FIRST * MEASURED  # the next longer step


@dataclass(frozen=True)
class World:
    """Clients on curvature (x - far)^2/2, x being 0 at first, and what is not as plain as that."""

    curvature: float = 1.0
    far: float = 1.0
    limit: float = math.inf  # longer steps diverge,
    least: float = 0.0  # and those of at most this length lead x nowhere
    stir: float = 0.0  # times the step: how far beyond ``far`` steps lead x, as where clients pull apart
    fit: float = 0.0  # times the step: how far slots fit their own rows, which is none of the loss at x
    noise: float = 0.0  # of each slot's loss
    apart: float = 0.0  # loss by which each client is above the one before

    def lead(self, x: np.ndarray, step: float) -> np.ndarray:
        if step <= self.least:
            return x
        return x - step * self.curvature * (x - self.far - self.stir * step)

    def loss(self, x: float) -> float:
        return self.curvature * (x - self.far) ** 2 / 2.0


@dataclass
class Played:
    """What a race did."""

    last: Findings
    turns: list[list[float]] = field(default_factory=list)  # the steps of each turn
    told: list[list[float]] = field(default_factory=list)  # the mean losses of its rounds
    starts: list[float] = field(default_factory=list)  # x when it began
    clients: list[list[int]] = field(default_factory=list)  # the rounds whose clients it met
    over: int = BEGAN  # the first round after it

    @property
    def state(self) -> StepState:
        return self.last.state

    @property
    def firsts(self) -> list[float]:
        """The steps raced."""
        return [turn[0] for turn in self.turns]


def play(config: RunConfig = CONFIG, seed: int = 0, total: int = 0, **told: Any) -> Played:
    """Race in the world told of; each round costs ROUND."""
    rng, world = np.random.default_rng(seed), World(**told)
    level = world.loss(0.0) + 1.5 * world.apart
    x, state = np.zeros(1), begin_race(StepState(step=MEASURED, level=level, reach=level), BEGAN, total)
    played = Played(Findings(state, 0.0), [[]], [[]], [0.0], [[]])
    for round_ in itertools.count(BEGAN):
        progress = config.progress(round_, round_ * ROUND)
        asked = steps(state, config, round_, 4, follows=False, progress=progress)
        assert len(set(asked)) == 1
        step = asked[0]
        trials = []
        for i in range(4):
            own = world.loss(float(x[0])) / (1.0 + world.fit * step) + i * world.apart
            loss = own + world.noise * rng.standard_normal() if step <= world.limit else math.inf
            trials.append(Trial(step, loss, client=f"client-{i}"))
        played.turns[-1].append(step)
        played.told[-1].append(fmean(trial.loss for trial in trials))
        played.clients[-1].append(drawn_as(state, round_))
        found = learn(state, config, round_, x, trials, follows=False, progress=progress)
        played.last, played.over, state = found, round_ + 1, found.state
        x = world.lead(x, step) if found.restored is None else found.restored
        if found.restored is None:
            continue
        assert found.longest == 0.0  # the moves of the last round are those of a look
        if state.searching == "done":
            return played
        played.turns.append([])
        played.told.append([])
        played.starts.append(float(x[0]))
        played.clients.append([])
    raise AssertionError("no end")


def test_all_turns_begin_at_one_x_and_meet_the_clients_of_the_same_rounds() -> None:
    played = play(curvature=0.05)
    assert len(played.turns) > 2
    assert played.starts == [0.0] * len(played.turns)
    assert played.clients == [list(range(BEGAN, BEGAN + LENGTH))] * len(played.turns)


def test_a_turn_has_its_own_step_then_a_quarter_of_it_to_settle_and_a_look() -> None:
    for turn in play(curvature=0.05).turns:
        own = turn[0]
        settling = LENGTH - OWN - LOOKS
        assert turn == pytest.approx([own] * OWN + [own / 4.0] * settling + [own / 1000.0] * LOOKS)


def test_it_begins_at_twice_the_measured_step_and_doubles() -> None:
    firsts = play(curvature=0.05).firsts
    assert firsts == pytest.approx([0.2 * 2.0**i for i in range(len(firsts))])


def test_where_x_has_far_to_go_a_longer_step_wins_and_the_run_goes_on_from_where_it_led() -> None:
    played = play(curvature=0.05)
    assert played.state.step > SECOND
    assert played.last.restored is not None
    assert played.last.restored[0] > 0.3
    assert [i.what for i in played.last.interventions] == ["step-size", "x"]
    assert played.last.interventions[0].after == played.state.step
    assert not played.state.racing


def test_the_looks_decide_and_not_what_slots_fit_on_their_own() -> None:
    """Longer steps are told as lower while they are taken, though they lead x beyond."""
    played = play(curvature=2.0, stir=0.5, fit=100.0)
    first, second = played.told[:2]
    assert fmean(second[:OWN]) < 0.7 * fmean(first[:OWN])
    assert second[-1] > first[-1]
    assert played.state.step < SECOND


def test_longer_steps_that_diverge_cut_their_turn_and_lose() -> None:
    played = play(limit=0.3)
    assert played.state.step == pytest.approx(FIRST * MEASURED)
    assert played.firsts == pytest.approx([0.2, 0.4, 0.1])
    assert [len(turn) for turn in played.turns] == [LENGTH, 1, LENGTH]


def test_a_measured_step_that_diverges_is_shortened() -> None:
    played = play(limit=0.05)
    assert played.firsts == pytest.approx([0.2, 0.1, 0.05, 0.025])
    assert played.state.step == pytest.approx(0.05)


def test_a_measured_step_that_leads_x_away_is_shortened_until_shorter_ones_are_worse() -> None:
    played = play(curvature=30.0)
    assert played.told[0][-1] > played.told[0][0]
    assert played.firsts == pytest.approx([0.2 / 2.0**i for i in range(5)])
    assert played.state.step == pytest.approx(0.025)


def test_where_every_step_diverges_the_shortest_of_all_goes_on_from_the_start() -> None:
    played = play(limit=0.0)
    assert played.state.step < min(played.firsts)
    assert "diverged" in played.last.interventions[0].why
    assert played.last.restored is not None
    assert played.last.restored[0] == 0.0
    assert played.over <= BEGAN + CONFIG.rounds // 3


def test_where_every_step_throws_x_about_a_quarter_of_the_shortest_goes_on_from_there() -> None:
    played = play(curvature=5000.0)
    assert played.state.step == pytest.approx(min(played.firsts) / 4.0)
    assert "threw x about" in played.last.interventions[0].why
    assert played.last.restored is not None
    assert played.last.restored[0] == 0.0
    assert played.last.interventions[1].why == "back to the start of the race"


def shorter(noise: float) -> int:
    """In how many of 20 races a shorter step than the first wins where it is a bit better and longer ones diverge."""
    played = [play(stir=0.2, noise=noise, limit=0.3, seed=seed, curvature=8.0) for seed in range(20)]
    return sum(each.state.step < 0.99 * FIRST * MEASURED for each in played)


def test_a_shorter_step_must_be_better_by_more_than_chance() -> None:
    assert shorter(0.0) == 20
    assert shorter(1.0) <= 2


def test_which_clients_were_drawn_is_no_noise_since_all_turns_meet_the_same() -> None:
    alike, apart = (play(stir=0.2, limit=0.3, curvature=8.0, apart=loss) for loss in (0.0, 100.0))
    assert (apart.state.step, apart.firsts) == (alike.state.step, alike.firsts)


@pytest.mark.parametrize("far", [1.0, 1000.0])
def test_where_nothing_falls_before_steps_are_long_enough_it_goes_on_upwards(far: float) -> None:
    """As at a saddle."""
    played = play(curvature=1.0 / far**2, far=far, least=0.9)
    assert played.firsts[:4] == pytest.approx([0.2, 0.4, 0.8, 1.6])
    assert played.state.step > 0.9


def test_a_saddle_that_steps_climb_a_little_ends_no_race() -> None:
    at = begin_race(StepState(step=MEASURED, level=1.0), BEGAN)
    for turn, told in enumerate((1.01, 1.02, 1.04), start=1):
        for _ in range(LENGTH):
            trials = [Trial(1.0, told, client=name) for name in "abcd"]
            at = learn(at, CONFIG, BEGAN, np.zeros(1), trials, follows=False, progress=0.0).state
        assert at.race is not None
        assert (at.race.runner, at.race.best) == (turn, 0)


@pytest.mark.parametrize("by_budget", [False, True])
@pytest.mark.parametrize("rounds", [100, 225, 1000])
def test_a_race_never_takes_more_than_a_third_of_the_run(rounds: int, by_budget: bool) -> None:
    config = CONFIG.replace(rounds=rounds)
    if by_budget:
        config = CONFIG.replace(rounds=0, budget=rounds * ROUND)
    played = play(config, total=rounds if by_budget else 0, curvature=1e-9)  # the longer the better, without end
    assert sum(len(turn) for turn in played.turns) <= rounds // 3
    assert played.state.step == pytest.approx(max(played.firsts))
    assert len(played.turns) >= 5
    assert played.state.begun == pytest.approx((played.over - 1) / rounds)


def test_after_a_race_the_step_falls_from_the_won_one_to_nothing_at_the_end_of_the_run() -> None:
    played = play(curvature=0.05)
    taken = [
        steps(played.state, CONFIG, round_, 1, follows=False, progress=CONFIG.progress(round_, 0))[0]
        for round_ in range(played.over, CONFIG.rounds)
    ]
    assert taken[0] == pytest.approx(played.state.step, rel=0.01)
    assert taken[-1] == pytest.approx(played.state.step / (len(taken) + 1))
    assert np.diff(taken) == pytest.approx(-taken[-1])


@pytest.mark.parametrize(
    ("changes", "total"),
    [({"rounds": 99}, 0), ({"rounds": 0, "budget": 10**6}, 0), ({}, 99), ({"step_schedule": "constant"}, 225)],
)
def test_short_runs_those_of_unknown_length_and_constant_steps_have_no_race(
    changes: Mapping[str, object], total: int
) -> None:
    assert race_length(CONFIG.replace(**changes), total) == 0
    assert race_length(CONFIG) == race_length(CONFIG.replace(rounds=0, budget=10**6), 225) == LENGTH


def test_a_race_that_a_resumed_run_has_no_more_rounds_for_ends_in_its_next_round() -> None:
    short = CONFIG.replace(rounds=90)
    state = begin_race(StepState(step=MEASURED, level=1.0), BEGAN)
    asked = steps(state, short, 20, 4, follows=False, progress=0.2)
    found = learn(state, short, 20, np.zeros(1), [Trial(step, 1.0) for step in asked], follows=False, progress=0.2)
    assert found.state.searching == "done"
    assert found.state.step == pytest.approx(FIRST * MEASURED)
