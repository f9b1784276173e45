"""The rule of the step size: laws on slots that are made up."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from zofedht.server.auto.step_size import LATE, LEAST, PACE, RAMP_MOST, Findings, Look, StepState, learn, planned

X, ANCHOR = np.ones(3), np.zeros(3)
RUNNING = StepState(base=0.5, ratio=PACE, part=0.01, anchor=ANCHOR, promised=1.0)


def look(step: float, curvature: float, gap: float = 0.0, slope: float = 1.0) -> Look:
    """What a slot of ten steps measures of a parabola."""
    square = (step * slope) ** 2
    return Look(10, step, slope**2, square * curvature, square, gap)


def taught(state: StepState, looks: Sequence[Look], lost: int = 0, part: float = 0.01, over: float = 0.5) -> Findings:
    return learn(state, X, looks, lost, 1e-4, part, over)


@pytest.mark.parametrize("unit", [1e-18, 1.0, 1e18])
def test_first_steps_are_as_long_as_the_radius(unit: float) -> None:
    found = taught(StepState(), [look(0.0, 0.0, slope=3.0 * unit), look(0.0, 0.0, slope=4.0 * unit)])
    assert found.state.base * math.sqrt(12.5) * unit == pytest.approx(1e-4)
    assert found.state.anchor is X


@pytest.mark.parametrize("part", [0.001, 0.2])
@pytest.mark.parametrize("unit", [1e-18, 1.0, 1e18])
def test_the_base_becomes_what_the_curvature_allows(unit: float, part: float) -> None:
    state, curvature = StepState(base=1e-6 / unit, anchor=ANCHOR, gained=1.0 / unit), 3.0 * unit
    bases = []
    for _ in range(30):
        state = taught(state, [look(planned(state, "linear", 0, 0.5), curvature)] * 4, part=part).state
        bases.append(state.base)
    assert state.base == pytest.approx(1.0 / curvature)
    assert max(after / before for before, after in itertools.pairwise(bases)) <= RAMP_MOST * (1 + 1e-9)
    assert not state.ramping


def test_after_the_ramp_the_base_changes_little_by_little() -> None:
    for curvature, ratio in ((-1.0, PACE), (0.01, PACE), (100.0 / PACE, 1.0 / PACE)):
        assert taught(replace(RUNNING, base=0.1), [look(0.05, curvature)]).state.base == pytest.approx(0.1 * ratio)


def test_steps_fall_to_nothing_in_the_last_round() -> None:
    state = replace(RUNNING, part=0.1)
    found = [planned(state, "linear", round_, round_ / 10) for round_ in range(10)]
    assert found == pytest.approx([0.05 * left for left in range(9, -1, -1)])
    assert planned(state, "constant", 3, 0.3) == 0.5
    assert planned(state, "constant", 9, 0.9) == 0.0


@pytest.mark.parametrize(("best", "back"), [(0.01, True), (-0.01, False)])
def test_an_x_that_all_slots_find_worse_goes_back_to_the_anchor(best: float, back: bool) -> None:
    """Long steps wander, and the schedule ends that: one slot of five rounds that finds x better lets it go on."""
    state = RUNNING
    for round_ in range(5):
        assert state.anchor is ANCHOR
        found = taught(state, [look(0.1, 1.0, gap) for gap in (best, 0.02, 0.03)])
        state = found.state
        assert (found.restored is ANCHOR) == (back and round_ == 4)
    assert [change.what for change in found.interventions] == (["step-size", "x"] if back else [])


def test_an_x_that_is_clearly_better_becomes_the_anchor() -> None:
    found = taught(RUNNING, [look(0.1, 1.0, -gap) for gap in (0.1, 0.2, 0.3, 0.2, 0.15)])
    assert found.state.anchor is X
    assert found.restored is None


@pytest.mark.parametrize("seed", range(5))
def test_gaps_that_are_noise_move_neither_anchor_nor_x(seed: int) -> None:
    gaps = np.random.default_rng(seed).standard_normal(10)
    found = taught(RUNNING, [look(0.1, 1.0, float(gap - gaps.mean())) for gap in gaps])
    assert found.state.anchor is ANCHOR
    assert found.restored is None


def test_too_few_gaps_decide_nothing() -> None:
    assert taught(RUNNING, [look(0.1, 1.0, -0.1)] * 4).state.anchor is ANCHOR


def test_a_rise_of_another_magnitude_is_undone_at_once() -> None:
    found = taught(RUNNING, [look(0.1, 1.0, 1e9), look(0.1, 1.0, -1.0)])
    assert found.restored is ANCHOR
    assert found.state.base <= RUNNING.base / 4


def test_a_round_whose_steps_raised_the_loss_moves_nothing() -> None:
    found = taught(RUNNING, [look(0.1, 1000.0)])
    assert found.restored is X
    assert found.state.base <= RUNNING.base / 4


@pytest.mark.parametrize(("kept", "restored"), [(0, True), (1, True), (2, False), (3, False)])
def test_slots_that_diverged_send_x_back_where_they_are_most(kept: int, restored: bool) -> None:
    found = taught(RUNNING, [look(0.1, 1.0)] * kept, lost=2)
    assert (found.restored is ANCHOR) == restored


@pytest.mark.parametrize(("gap", "kept"), [(1e-30, False), (-1e-30, True), (0.0, True)])
def test_the_run_ends_at_the_better_of_x_and_the_anchor(gap: float, kept: bool) -> None:
    found = taught(RUNNING, [look(0.0, 0.0, gap)], over=1.0)
    assert (found.restored is None) == kept
    assert kept or found.restored is ANCHOR


@pytest.mark.parametrize(("usual", "kept"), [(-0.2, True), (0.2, False)])
def test_the_end_is_judged_by_the_rounds_of_the_last_tenth(usual: float, kept: bool) -> None:
    """Where clients differ much, the few slots of one round say little: here most of the last one say the opposite."""
    state = RUNNING
    for round_ in range(round(LATE / 0.01)):
        spread = 1.0 if round_ % 2 else -1.0
        state = taught(state, [look(0.1, 1.0, usual + spread * side) for side in (-1.0, 1.0, 0.05)]).state
    found = taught(state, [look(0.0, 0.0, gap - usual) for gap in (-0.9, 0.5, 0.5)], over=1.0)
    assert (found.restored is None) == kept


def test_where_all_slopes_are_nothing_nothing_is_learnt() -> None:
    assert taught(StepState(), [look(0.0, 0.0, slope=0.0)]).state == replace(StepState(), anchor=X)
    found = taught(RUNNING, [look(0.1, 0.0, slope=0.0)])
    assert (found.state.base, found.restored) == (RUNNING.base, None)


@pytest.mark.parametrize("unit", [1e-18, 1.0, 1e18])
def test_the_noise_of_a_base_is_at_most_what_was_gained(unit: float) -> None:
    """F settles n eta c^2/(4 M) above its least value: here n = 3, M = 4 and c^2 = unit^2."""
    state, gained = replace(RUNNING, base=2.0 / unit), 0.5 * unit
    looks = [look(1.0 / unit, 0.25 * unit, slope=unit)] * 4
    for _ in range(20):
        state = taught(replace(state, gained=gained), looks).state
    assert 3 * state.base * unit**2 / (4 * 4) == pytest.approx(gained)


@pytest.mark.parametrize("unit", [1e-18, 1.0, 1e18])
def test_few_steps_in_many_parameters_make_no_more_noise_than_they_can(unit: float) -> None:
    """N steps of a linear schedule raise F by h N eta^2 c^2/(6 M) at most: here N = 1000, M = 4 and c = unit."""
    state, gained, x = replace(RUNNING, base=2.0 / unit), 93.75 * unit, np.zeros(100_000)
    looks = [look(1.0 / unit, 0.25 * unit, slope=unit)] * 4
    for _ in range(20):
        state = learn(replace(state, gained=gained), x, looks, 0, 1e-4, 0.01, 0.5).state
    assert 0.25 * unit * 1000 * (state.base * unit) ** 2 / (6 * 4) == pytest.approx(gained)
    assert LEAST * 4.0 < state.base * unit < 4.0


@pytest.mark.parametrize(("slots", "part"), [(1, 1.0), (4, LEAST)])
def test_without_gain_several_slots_make_the_base_shorter(slots: int, part: float) -> None:
    state = replace(RUNNING, base=4.0)
    for _ in range(20):
        state = taught(state, [look(1.0, 0.25)] * slots).state
    assert state.base == pytest.approx(part * 4.0)


def test_the_ramp_asks_for_no_gain() -> None:
    state = StepState(base=0.1, anchor=ANCHOR)
    assert taught(state, [look(0.1, 0.25)] * 4).state.base > 0.1


def test_what_is_gained_is_the_sum_of_the_gaps_of_anchors() -> None:
    state = RUNNING
    for _ in range(2):
        state = taught(state, [look(0.1, 1.0, -gap) for gap in (0.1, 0.2, 0.3, 0.2, 0.15)]).state
    assert state.gained == pytest.approx(2 * 0.19)
