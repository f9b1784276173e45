"""The one door: what a round is asked with, which slots count, and whether its move is travelled."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from tests.helpers import broadcast, reply, small
from zofedht.common.config.derived_keys import START_WEIGHT
from zofedht.common.config.run_config import RunConfig
from zofedht.common.typing import Matrix
from zofedht.server import auto
from zofedht.server.auto import AutoState, Now, Replies
from zofedht.server.auto.step_size import StepState
from zofedht.server.auto.subspace_weight import WeightState

Q = np.eye(3)[:, :2]


def now(config: RunConfig, basis: Matrix | None = None, round_: int = 4, evaluations: int = 0) -> Now:
    return Now(config, round_, evaluations, np.zeros(3), basis)


def replies(*step_sizes: float, diverged: tuple[int, ...] = ()) -> Replies:
    """Return usable replies, one a step size, but for the slots that diverged."""
    asked = {slot: broadcast(slot, str(slot), step_size=size, measured=1) for slot, size in enumerate(step_sizes)}
    return Replies([reply(b) for slot, b in asked.items() if slot not in diverged], asked, diverged)


def test_numbers_are_asked_as_they_are_given():
    config = small(step_size=0.5, step_schedule="constant", subspace_weight=0.2)
    rules = auto.begin(config)
    assert rules == AutoState()
    assert auto.spec(rules, now(config)) == {"step_size": 0.5}
    assert [auto.weight(rules, now(config, basis)) for basis in (None, Q)] == [0.0, 0.2]


def test_numbers_learn_nothing():
    config = small(step_size=0.5, subspace_weight=0.2)
    learnt = auto.learn(AutoState(), now(config, Q), replies(0.5, 0.5))
    assert learnt == auto.Learnt(AutoState())
    assert auto.renew(AutoState(), None, Q, replies(0.5, 0.5)) == (AutoState(), ())
    assert not AutoState().measures_steps
    assert not AutoState().needs_moves


def test_fixed_steps_follow_the_budget():
    config = small(step_size=0.5, step_schedule="linear", rounds=0, budget=1000)
    assert auto.spec(auto.begin(config), now(config, evaluations=250)) == {"step_size": 0.375}


def test_each_key_has_a_rule_of_its_own():
    steps = auto.begin(small(step_size="auto", local_steps=5))
    weight = auto.begin(small(subspace_weight="auto"))
    assert (steps.measures_steps, steps.needs_moves, steps.weight) == (True, False, None)
    assert (weight.measures_steps, weight.needs_moves, weight.step) == (False, True, None)


def test_the_first_round_measures_slopes_and_moves_nothing():
    config = small(step_size="auto", local_steps=50)
    asked = auto.spec(auto.begin(config), now(config))
    assert asked == {"step_size": 0.0, "measured": 1, "local_steps": 5}
    learnt = auto.learn(auto.begin(config), now(config), replies(0.0, 0.0))
    assert not learnt.travels


@pytest.mark.parametrize("bad", [math.nan, math.inf, 1e200])
def test_a_slot_that_measures_no_number_is_one_that_diverged(bad: float):
    config = small(step_size="auto")
    rules = AutoState(StepState(base=0.5, ratio=1.3, anchor=np.ones(3)))
    told = replies(0.5, 0.5)
    told = replace(told, updates=[replace(update, bent=bad) for update in told.updates])
    learnt = auto.learn(rules, now(config), told)
    assert learnt.x is not None


def test_a_restored_x_is_not_travelled():
    best = np.ones(3)
    rules = AutoState(StepState(base=0.5, ratio=1.3, anchor=best))
    config = small(step_size="auto", local_steps=5)
    learnt = auto.learn(rules, now(config), replies(0.5, 0.5, diverged=(0, 1)))
    assert learnt.x is best
    assert not learnt.travels
    assert {change.what for change in learnt.interventions} == {"step-size", "x"}


def test_a_step_is_found_when_it_has_a_base():
    assert [AutoState(StepState(base=base)).step_found for base in (0.0, 0.5)] == [None, 0.5]
    assert AutoState().step_found is None


def test_the_first_basis_is_judged_by_the_round_that_it_is_made_of():
    config = small(subspace_weight="auto")
    rules = auto.begin(config)
    learnt = auto.learn(rules, now(config), replies(0.5, 0.5))
    renewed, _ = auto.renew(learnt.state, None, Q, replies(0.5, 0.5))
    assert auto.weight(renewed, now(config, Q)) == pytest.approx(START_WEIGHT)  # clients went the same way
    assert renewed.weight is not None
    assert WeightState().stretch == 0.0 < renewed.weight.stretch
