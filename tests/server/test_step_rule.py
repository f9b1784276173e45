"""step-size = auto, as laws on slots whose loss is known: steps of gradient descent on a parabola."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from common.config import RunConfig
from server.step_rule import Findings, StepState, learn, steps
from server.step_trials import Trial

CONFIG = RunConfig(step_size="auto", clients_per_round=10, local_steps=50, rounds=99)  # too short for a race
X = np.zeros(3)
Slot = Callable[[float, int], Trial]


def parabola(curvature: float, floor: float = 0.0, noise: float = 0.0, seed: int = 0, steps: int = 50) -> Slot:
    """A slot on curvature w^2/2 from w = 1; ``floor`` and ``noise`` are what differs from client to client."""
    rng = np.random.default_rng(seed)

    def slot(step: float, _: int) -> Trial:
        with np.errstate(over="ignore", invalid="ignore"):
            w = (1.0 - step * curvature) ** np.arange(steps)
            loss = float(np.mean(curvature * w**2 / 2.0)) + floor + noise * rng.standard_normal()
            explained = step * (steps - 1) / 2.0 * float(np.mean((curvature * w) ** 2))
        return Trial(step, loss, explained) if math.isfinite(loss) else Trial(step, math.inf)

    return slot


def search(slot: Slot, config: RunConfig = CONFIG) -> tuple[StepState, int, Findings]:
    """Ask and learn until the step is found; return the state, how many rounds it took, and the last findings."""
    state = StepState()
    for round_ in range(30):
        asked = steps(state, config, round_, config.clients_per_round, follows=False)
        found = learn(state, config, round_, X, [slot(step, i) for i, step in enumerate(asked)], follows=False)
        state = found.state
        if state.searching == "done":
            return state, round_ + 1, found
    raise AssertionError("no end")


def steady(losses: list[float], state: StepState, first: int = 17) -> list[Findings]:
    """Rounds whose slots all tell the same loss; x counts them."""
    found = []
    for round_, loss in enumerate(losses, start=first):
        trials = [Trial(1.0, loss)] * 4
        found.append(learn(state, CONFIG, round_, np.full(3, float(round_)), trials, follows=False))
        state = found[-1].state
    return found


@pytest.mark.parametrize("slots", [1, 3, 5, 10, 40])
@pytest.mark.parametrize("curvature", [1e-6, 0.03, 1.0, 70.0, 1e7])
def test_the_step_fits_the_curvature_whatever_the_scale_and_the_slots(curvature: float, slots: int) -> None:
    state, rounds, _ = search(parabola(curvature), CONFIG.replace(clients_per_round=slots))
    assert 0.03 < state.step * curvature < 1.6  # at .085 it has nine tenths of the fall, above 2 it diverges
    assert rounds <= 20 + 1


@pytest.mark.parametrize("seed", range(8))
def test_clients_of_different_losses_do_not_mislead_it(seed: int) -> None:
    state, _, _ = search(parabola(1.0, floor=3.0, noise=0.05, seed=seed))
    assert 0.03 < state.step < 1.6


@pytest.mark.parametrize("seed", range(4))
def test_noise_alone_is_no_fall(seed: int) -> None:
    """Ten steps far too short differ by noise only: the ladder goes on upwards to the steps that matter."""
    state, _, _ = search(parabola(1e-4, noise=1e-6, seed=seed))
    assert 0.03 < state.step * 1e-4 < 1.6


def test_x_moves_by_the_slots_whose_steps_were_not_too_long() -> None:
    state, _, last = search(parabola(1.0))
    assert state.step <= last.longest < 1.01 * state.step
    assert [i.what for i in last.interventions] == ["step-size"]
    assert last.interventions[0].after == state.step
    assert "mean loss by step" in last.interventions[0].why


def test_where_longer_steps_never_hurt_it_takes_one_that_has_most_of_the_fall() -> None:
    """As on a client with rows of one label: its loss falls to nothing, the longer the steps the faster."""
    state, _, _ = search(lambda step, _: Trial(step, 1.0 / (1.0 + step), step / (1.0 + step)))
    assert 4.0 < state.step < 64.0


def test_the_step_is_held_and_then_falls_with_the_root_of_the_round() -> None:
    state = StepState(searching="done", step=0.8, began=3)
    taken = [steps(state, CONFIG, round_, 2, follows=False) for round_ in (3, 10, 38)]
    np.testing.assert_allclose(taken, [[0.8] * 2, [0.8] * 2, [0.4] * 2], rtol=1e-12)
    constant = CONFIG.replace(step_schedule="constant")
    assert steps(state, constant, 1000, 1, follows=False) == [0.8]


def test_the_first_basis_shortens_a_step_that_it_makes_too_long_and_is_looked_at_once() -> None:
    state = StepState(searching="done", step=0.8, began=3)
    asked = steps(state, CONFIG, 5, 8, follows=True)
    assert set(asked) == {0.8, 0.4, 0.2, 0.1}
    stretched = parabola(8.0)
    found = learn(state, CONFIG, 5, X, [stretched(step, 0) for step in asked], follows=True)
    assert found.state.step in (0.1, 0.2)
    assert found.state.step <= found.longest < 0.4
    assert found.interventions[0].before == 0.8
    assert steps(found.state, CONFIG, 6, 3, follows=True) == [found.state.step] * 3
    assert (found.state.hold, found.state.most) == (2.0, 2.0)  # and later it may not grow as far


def test_the_first_basis_leaves_a_step_that_it_does_not_hurt() -> None:
    state = StepState(searching="done", step=0.5, began=3)
    trials = [parabola(0.5)(step, 0) for step in steps(state, CONFIG, 5, 8, follows=True)]
    found = learn(state, CONFIG, 5, X, trials, follows=True)
    assert (found.state.step, found.interventions) == (0.5, ())


RUNNING = StepState(searching="done", step=0.8, level=1.2, best_loss=1.2)


def test_losses_that_rise_halve_the_step_and_bring_x_back() -> None:
    found = steady([1.0, 0.9, 0.8, 0.7, 0.6, 1.5, 2.0, 4.0, 8.0], RUNNING)
    assert [bool(each.interventions) for each in found] == [False] * 7 + [True, False]
    changed = found[7]
    assert changed.state.step == 0.4
    assert changed.restored is not None
    assert changed.restored[0] == 21.0  # the x of the last round of the best window
    assert "rose from 0.8 to 1.5" in changed.interventions[0].why


def test_a_run_that_diverges_from_the_start_goes_back_to_the_start() -> None:
    found = steady([1.3, 2.0, 9.0, 80.0, 1e5], RUNNING)
    assert found[-1].state.step == 0.4
    assert found[-1].restored is not None
    assert found[-1].restored[0] == 17.0


@pytest.mark.parametrize("seed", range(5))
def test_one_bad_round_noise_or_a_slow_drift_of_steps_that_get_shorter_change_nothing(seed: int) -> None:
    rng = np.random.default_rng(seed)
    noisy = list(0.4 + 0.001 * np.arange(200) + 0.05 * rng.standard_normal(200))
    noisy[50] = 9.0
    assert not any(each.interventions for each in steady(noisy, RUNNING))


def test_a_round_in_which_every_slot_diverged_quarters_the_step_and_brings_x_back() -> None:
    best = np.ones(3)
    state = StepState(searching="done", step=0.8, best_x=best, best_loss=1.0)
    found = learn(state, CONFIG, 9, X, [Trial(0.8, math.inf)] * 3, follows=False)
    assert found.state.step == pytest.approx(0.2)
    assert found.restored is best


LOOKING = replace(RUNNING, measured=0.8)


def look(slot: Slot, state: StepState = LOOKING, config: RunConfig = CONFIG) -> Findings:
    """The round that looks at longer steps."""
    asked = steps(state, config, 8, config.clients_per_round, follows=False)
    return learn(state, config, 8, X, [slot(step, i) for i, step in enumerate(asked)], follows=False)


def test_rounds_that_double_look_at_longer_steps_where_there_are_two_slots_for_each() -> None:
    constant = CONFIG.replace(step_schedule="constant")
    for config, rounds in ((constant, [8, 16, 32, 64]), (constant.replace(clients_per_round=7), [])):
        tried = [set(steps(LOOKING, config, r, config.clients_per_round, follows=False)) for r in range(100)]
        assert [r for r, some in enumerate(tried) if len(some) > 1] == rounds
        assert all(some == {0.4, 0.8, 1.6, 3.2} for some in tried if len(some) > 1)


def test_a_step_that_became_too_short_is_lengthened_to_at_most_four_times_the_measured_one() -> None:
    found = look(parabola(0.01))
    assert found.state.step == 3.2
    assert 3.2 <= found.longest < 3.3
    assert found.interventions[0].before == 0.8
    assert "longer steps are better" in found.interventions[0].why
    again = look(parabola(0.01), found.state)
    assert (again.state.step, again.interventions) == (3.2, ())
    assert look(parabola(0.01), replace(LOOKING, most=2.0)).state.step == 1.6  # as along a basis


def test_the_step_is_kept_where_longer_ones_overshoot_diverge_or_are_better_by_less_than_the_noise() -> None:
    def noisy(step: float, slot: int) -> Trial:
        return Trial(step, (1.0, -1.0, 0.0)[slot // 4] - 0.1 * step)

    for slot in (parabola(1.3), parabola(1e3), noisy):
        kept = look(slot)
        assert (kept.state.step, kept.interventions) == (0.8, ())
        assert 0.8 <= kept.longest < 0.81


def test_slots_that_are_lost_are_no_reason_for_a_longer_step() -> None:
    asked = steps(LOOKING, CONFIG, 8, 10, follows=False)
    few = [parabola(0.01)(step, i) for i, step in enumerate(asked[:5])]  # one of each, and two of the present one
    assert learn(LOOKING, CONFIG, 8, X, few, follows=False).state.step == 0.8
    assert learn(LOOKING, CONFIG, 8, X, [], follows=False).state.step == 0.8


@pytest.mark.parametrize("slots", [1, 4, 10])
def test_a_ladder_whose_shortest_steps_throw_x_about_goes_on_below(slots: int) -> None:
    """With few local steps they do not overflow, and tell losses of any size: nothing of the loss at the start."""
    config = CONFIG.replace(clients_per_round=slots, local_steps=10)
    state, rounds, _ = search(parabola(1e6, steps=10), config)
    assert 0.03 < state.step * 1e6 < 1.6
    assert rounds <= 20
