"""The one door: what a round is asked with, which slots count, and whether its move is travelled."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from tests.helpers import broadcast, reply, small
from zofedht.common.config.run_config import START_WEIGHT, RunConfig
from zofedht.common.typing import Matrix
from zofedht.server import auto
from zofedht.server.auto import AutoState, Now, Replies
from zofedht.server.auto.state import Race, StepState
from zofedht.server.auto.subspace_weight import WeightState

Q = np.eye(3)[:, :2]
RACING = AutoState(StepState("race", step=0.1, race=Race(0, 225)))


def now(config: RunConfig, basis: Matrix | None = None, round_: int = 4, evaluations: int = 0) -> Now:
    return Now(config, round_, evaluations, np.zeros(3), basis)


def replies(*step_sizes: float, diverged: tuple[int, ...] = ()) -> Replies:
    """Return usable replies, one a step size, but for the slots that diverged."""
    asked = {slot: broadcast(slot, str(slot), step_size=size) for slot, size in enumerate(step_sizes)}
    return Replies([reply(b) for slot, b in asked.items() if slot not in diverged], asked, diverged)


def test_numbers_are_asked_as_they_are_given():
    config = small(step_size=0.5, step_schedule="constant", subspace_weight=0.2)
    rules = auto.begin(config)
    assert rules == AutoState()
    assert auto.steps(rules, now(config), 3) == [0.5] * 3
    assert [auto.weight(rules, now(config, basis)) for basis in (None, Q)] == [0.0, 0.2]
    assert auto.drawn_as(rules, 7) == 7


def test_numbers_learn_nothing():
    config = small(step_size=0.5, subspace_weight=0.2)
    learnt = auto.learn(AutoState(), now(config, Q), replies(0.5, 0.5))
    assert learnt == auto.Learnt(AutoState(), frozenset({0, 1}))
    assert auto.renew(AutoState(), None, Q, replies(0.5, 0.5)) == (AutoState(), ())
    assert not AutoState().measures_steps
    assert not AutoState().needs_moves


def test_fixed_steps_follow_the_budget():
    config = small(step_size=0.5, step_schedule="linear", rounds=0, budget=1000)
    assert auto.steps(auto.begin(config), now(config, evaluations=250), 1) == [0.375]


def test_each_key_has_a_rule_of_its_own():
    steps = auto.begin(small(step_size="auto", local_steps=5))
    weight = auto.begin(small(subspace_weight="auto"))
    assert (steps.measures_steps, steps.needs_moves, steps.weight) == (True, True, None)
    assert (weight.measures_steps, weight.needs_moves, weight.step) == (False, True, None)


def test_slots_whose_step_was_only_tried_do_not_count():
    config = small(step_size="auto", local_steps=5, clients_per_round=4)
    rules = auto.begin(config)
    sizes = auto.steps(rules, now(config), 4)
    assert len(set(sizes)) == 4
    learnt = auto.learn(rules, now(config), replies(*sizes))
    assert learnt.counts == frozenset()
    assert learnt.travels  # x stays where it is, for want of slots that count


def test_a_slot_that_diverged_is_an_infinite_loss():
    config = small(step_size="auto", local_steps=5, clients_per_round=4)
    rules = auto.begin(config)
    sizes = auto.steps(rules, now(config), 4)
    learnt = auto.learn(rules, now(config), replies(*sizes, diverged=(3,)))
    assert learnt.state.step is not None
    assert [trial.loss for trial in learnt.state.step.tried] == [0.5, 0.5, 0.5, math.inf]


def test_a_race_is_isotropic_and_its_moves_are_not_travelled():
    config = small(step_size="auto", local_steps=5, rounds=225)
    assert auto.weight(RACING, now(config, Q)) == 0.0
    learnt = auto.learn(RACING, now(config, Q), replies(0.2, 0.2))
    assert (learnt.travels, learnt.counts) == (False, frozenset({0, 1}))


def test_a_restored_x_is_not_travelled():
    best = np.ones(3)
    rules = AutoState(StepState("done", step=0.5, level=1.0, best_loss=1.0, best_x=best, followed=True))
    config = small(step_size="auto", local_steps=5)
    learnt = auto.learn(rules, now(config), replies(0.5, 0.5, diverged=(0, 1)))
    assert learnt.x is best
    assert not learnt.travels
    assert {change.what for change in learnt.interventions} == {"step-size", "x"}


@pytest.mark.parametrize(("searching", "began", "found"), [("fine", 0, None), ("done", 4, None), ("done", 3, 0.5)])
def test_a_step_is_found_when_a_round_was_run_with_it(searching: str, began: int, found: float | None):
    state = replace(StepState(step=0.5, began=began), searching=searching)
    assert AutoState(state).step_found(4) == found
    assert AutoState().step_found(4) is None


def test_the_first_basis_is_judged_by_the_round_that_it_is_made_of():
    config = small(subspace_weight="auto")
    rules = auto.begin(config)
    learnt = auto.learn(rules, now(config), replies(0.5, 0.5))
    renewed, _ = auto.renew(learnt.state, None, Q, replies(0.5, 0.5))
    assert auto.weight(renewed, now(config, Q)) == pytest.approx(START_WEIGHT)  # clients went the same way
    assert renewed.weight is not None
    assert WeightState().stretch == 0.0 < renewed.weight.stretch
