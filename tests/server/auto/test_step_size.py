"""step-size = auto, as laws on slots whose loss is known: steps of gradient descent on a parabola."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest

from zofedht.common.config.run_config import RunConfig
from zofedht.server.auto.race import FIRST
from zofedht.server.auto.step_size import Findings, StepState, learn, steps
from zofedht.server.auto.trials import Trial

CONFIG = RunConfig(step_size="auto", clients_per_round=10, local_steps=50, rounds=99)  # too short for a race
Slot = Callable[[float, int], Trial]


def parabola(curvature: float, floor: float = 0.0, noise: float = 0.0, seed: int = 0, steps: int = 50) -> Slot:
    """A slot on curvature w^2/2 from w = 1; ``floor`` and ``noise`` are what differs from client to client."""
    rng = np.random.default_rng(seed)

    def slot(step: float, _: int) -> Trial:
        with np.errstate(over="ignore", invalid="ignore"):
            w = (1.0 - step * curvature) ** np.arange(steps)
            loss = float(np.mean(curvature * w**2 / 2.0)) + floor + noise * rng.standard_normal()
            explained = step * (steps - 1) / 2.0 * float(np.mean((curvature * w) ** 2))
        start = curvature / 2.0 + floor
        return Trial(step, loss, explained, start_loss=start) if math.isfinite(loss) else Trial(step, math.inf)

    return slot


def asked_in(state: StepState, round_: int, config: RunConfig = CONFIG, follows: bool = False) -> list[float]:
    """The steps of a round's slots."""
    progress = config.progress(round_, 0)
    return steps(state, config, round_, config.clients_per_round, follows, progress)


def taught(
    state: StepState, round_: int, trials: Sequence[Trial], config: RunConfig = CONFIG, follows: bool = False
) -> Findings:
    """What a round teaches; x counts the rounds."""
    return learn(state, config, round_, np.full(3, float(round_)), trials, follows, config.progress(round_, 0))


def search(slot: Slot, config: RunConfig = CONFIG) -> tuple[StepState, int, Findings]:
    """Ask and learn until the step is found; return the state, how many rounds it took, and the last findings."""
    state = StepState()
    for round_ in range(30):
        asked = asked_in(state, round_, config)
        found = taught(state, round_, [slot(step, i) for i, step in enumerate(asked)], config)
        state = found.state
        if state.searching in ("race", "done"):
            return state, round_ + 1, found
    raise AssertionError("no end")


def steady(losses: Sequence[float], state: StepState, first: int = 17, own: float | None = None) -> list[Findings]:
    """Rounds whose slots all begin at the same loss, and have the mean loss ``own``, that one if it is None."""
    found = []
    for round_, loss in enumerate(losses, start=first):
        trials = [Trial(1.0, loss if own is None else own, start_loss=loss)] * 4
        found.append(taught(state, round_, trials))
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
    assert [i.what for i in last.interventions] == ["step-size"]
    assert state.step == last.interventions[0].after
    assert state.step <= last.longest < 1.01 * state.step
    assert f"{FIRST:g} times what was measured, since it falls to nothing; mean loss by" in last.interventions[0].why


def test_where_longer_steps_never_hurt_it_takes_one_that_has_most_of_the_fall() -> None:
    """As on a client with rows of one label: its loss falls to nothing, the longer the steps the faster."""
    state, _, _ = search(lambda step, _: Trial(step, 1.0 / (1.0 + step), step / (1.0 + step)))
    assert 4.0 < state.step < 64.0


@pytest.mark.parametrize(
    ("changes", "times"),
    [({}, FIRST), ({"step_schedule": "inverse-sqrt"}, 1.0), ({"step_schedule": "constant"}, 1.0)],
)
def test_a_run_without_a_race_takes_twice_the_measured_step_where_it_falls_to_nothing(
    changes: dict[str, object], times: float
) -> None:
    measured, *_ = search(parabola(1.0), CONFIG.replace(rounds=100))
    state, _, last = search(parabola(1.0), CONFIG.replace(**changes))
    assert state.step == times * measured.step == last.interventions[0].after
    assert not state.racing


def test_long_runs_race_and_x_stays_until_then() -> None:
    state, rounds, last = search(parabola(1.0), CONFIG.replace(rounds=100))
    assert state.race is not None
    assert (state.race.began, last.longest, state.step) == (rounds, 0.0, last.interventions[0].after)


@pytest.mark.parametrize("curvature", [1e-6, 1.0, 1e12])
@pytest.mark.parametrize("rounds", [0, 1000, 120])
def test_a_run_that_a_budget_ends_races_as_the_rounds_that_it_pays_for(curvature: float, rounds: int) -> None:
    """Slots that diverge are charged with nothing, however many rounds of the search they take."""
    config = CONFIG.replace(rounds=rounds, budget=2000)  # of slots: 200 rounds
    slot, state, spent, round_ = parabola(curvature), StepState(), 0, 0
    while state.searching in ("coarse", "fine"):
        progress = config.progress(round_, spent)
        trials = [slot(step, 0) for step in steps(state, config, round_, 10, False, progress)]
        state = learn(state, config, round_, np.zeros(3), trials, False, progress).state
        spent, round_ = spent + sum(math.isfinite(trial.loss) for trial in trials), round_ + 1
    assert state.race is not None
    assert state.race.total == 120 if rounds == 120 else 150 < state.race.total <= 210


def test_what_only_seemed_to_fall_is_looked_at_again_eight_times_shorter() -> None:
    state = StepState("fine", 1, tried=tuple(parabola(1.0)(4.0**e, 0) for e in range(-6, -1)), step=64.0)
    found = taught(state, 3, [parabola(1.0)(step, 0) for step in asked_in(state, 3)])
    assert (found.state.searching, found.state.step, found.longest) == ("fine", 8.0, 0.0)
    again = taught(found.state, 4, [parabola(1.0)(step, 0) for step in asked_in(found.state, 4)])
    assert (again.state.searching, again.state.step) == ("fine", 1.0)
    last = taught(again.state, 5, [parabola(1.0)(step, 0) for step in asked_in(again.state, 5)])
    assert last.state.searching == "done"
    assert 0.03 < last.state.step < 1.6


@pytest.mark.parametrize("budget", [0, 1000])
def test_linear_falls_from_the_end_of_the_search_to_nothing_at_the_end_of_the_run(budget: int) -> None:
    """By the rounds or by the budget, whichever is further on."""
    config = CONFIG.replace(rounds=50, budget=budget)
    assert config.step_schedule == "linear"  # the default
    state = StepState(searching="done", step=0.8, began=10, begun=config.progress(10, 200))

    def step(round_: int, evaluations: int) -> float:
        return steps(state, config, round_, 1, False, config.progress(round_, evaluations))[0]

    assert step(10, 200) == pytest.approx(0.8)
    assert step(30, 600) == pytest.approx(0.4)
    assert step(49, 600) == pytest.approx(0.02)
    assert step(30, 975) == pytest.approx(0.025 if budget else 0.4)
    assert step(50, 1000) == 0.0


def test_a_search_and_a_race_are_no_part_of_what_linear_falls_over() -> None:
    state, rounds, _ = search(parabola(1.0))
    assert rounds > 1
    assert asked_in(state, rounds)[0] == pytest.approx(state.step, rel=0.02)
    assert asked_in(state, CONFIG.rounds - 1)[0] == pytest.approx(state.step / (CONFIG.rounds - rounds + 1))


def test_inverse_sqrt_is_held_and_then_falls_with_the_root_of_the_round_and_constant_stays() -> None:
    state = StepState(searching="done", step=0.8, began=3)
    root, constant = (CONFIG.replace(step_schedule=schedule) for schedule in ("inverse-sqrt", "constant"))
    taken = [asked_in(state, round_, root) for round_ in (3, 11, 38)]
    np.testing.assert_allclose(taken, [[0.8] * 10, [0.8] * 10, [0.4] * 10], rtol=1e-12)
    assert steps(state, constant, 1000, 1, False, 0.99) == [0.8]


def test_the_first_basis_shortens_a_step_that_it_makes_too_long_and_is_looked_at_once() -> None:
    config = CONFIG.replace(step_schedule="constant", clients_per_round=8)
    state = StepState(searching="done", step=0.8, began=3)
    asked = asked_in(state, 5, config, follows=True)
    assert set(asked) == {0.8, 0.4, 0.2, 0.1}
    stretched = parabola(8.0)
    found = taught(state, 5, [stretched(step, 0) for step in asked], config, follows=True)
    assert found.state.step in (0.1, 0.2)
    assert found.state.step <= found.longest < 0.4
    assert found.interventions[0].before == 0.8
    assert asked_in(found.state, 6, config, follows=True) == [found.state.step] * 8


def test_the_first_basis_leaves_a_step_that_it_does_not_hurt_wherever_the_schedule_is() -> None:
    state = StepState(searching="done", step=0.5, began=3)
    trials = [parabola(0.5)(step, 0) for step in asked_in(state, 50, follows=True)]
    assert trials[0].step < 0.3
    found = taught(state, 50, trials, follows=True)
    assert (found.state.step, found.interventions) == (0.5, ())


def test_the_first_basis_leaves_a_step_with_which_each_slot_falls_whoever_its_client_is() -> None:
    """A slot's loss says who its client is: here those with the longest step are the worst off."""
    state = StepState(searching="done", step=0.5, began=3)
    asked = asked_in(state, 5, follows=True)
    trials = [Trial(step, 100.0 * step - 0.1, start_loss=100.0 * step) for step in asked]
    found = taught(state, 5, trials, follows=True)
    assert (found.state.step, found.interventions) == (0.5, ())
    assert found.longest >= max(asked)


RUNNING = StepState(searching="done", step=0.8, level=1.2, best_loss=1.2, reach=1.2)


@pytest.mark.parametrize("own", [None, 0.001])
def test_losses_at_x_that_rise_halve_the_step_and_bring_x_back(own: float | None) -> None:
    """Also where slots fit their own rows all the better, which x is none the better for."""
    found = steady([1.0, 0.9, 0.8, 0.7, 0.6, 1.9, 2.5, 4.0, 8.0], RUNNING, own=own)
    assert [bool(each.interventions) for each in found] == [False] * 7 + [True, False]
    changed = found[7]
    assert changed.state.step == 0.4
    assert changed.restored is not None
    assert changed.restored[0] == 21.0  # the x of the last round of the best window
    assert "rose from 0.8 to 1.9" in changed.interventions[0].why


def test_x_never_comes_back_to_where_a_round_had_thrown_it() -> None:
    """The median of a window whose last round is thrown far off is still the lowest."""
    found = steady([1.1, 0.9, 1.0, 0.8, 0.7, 1e90, 1e90, 1e90, 1e90], RUNNING)
    back = next(each for each in found if each.restored is not None)
    assert back.restored is not None
    assert back.restored[0] == 21.0  # of the round with .7, not of the first with 1e90


def test_losses_of_slots_that_rise_from_an_x_that_gets_better_change_nothing() -> None:
    """As when steps get shorter, and slots fit their own rows less."""
    state = RUNNING
    for round_ in range(20):
        found = taught(state, round_, [Trial(1.0, 0.1 * round_, start_loss=1.0 - 0.01 * round_)] * 4)
        assert not found.interventions
        state = found.state


def test_a_run_that_diverges_from_the_start_goes_back_to_the_start() -> None:
    found = steady([1.3, 2.0, 9.0, 80.0, 900.0], RUNNING)
    assert found[-1].state.step == 0.4
    assert found[-1].restored is not None
    assert found[-1].restored[0] == 17.0


@pytest.mark.parametrize("seed", range(5))
def test_one_bad_round_noise_or_a_slow_drift_change_nothing(seed: int) -> None:
    rng = np.random.default_rng(seed)
    noisy = list(0.4 + 0.001 * np.arange(200) + 0.05 * rng.standard_normal(200))
    noisy[50] = 9.0
    assert not any(each.interventions for each in steady(noisy, RUNNING))


@pytest.mark.parametrize("seed", range(5))
def test_noise_around_the_loss_before_the_first_move_changes_nothing(seed: int) -> None:
    """As at a saddle, where nothing falls for long."""
    rng = np.random.default_rng(seed)
    losses = RUNNING.level + 0.05 * rng.standard_normal(200)
    assert not any(each.interventions for each in steady(list(losses), RUNNING))


def thrashing(round_: int, slots: int, rise: float, better: float = 0.0) -> list[Trial]:
    """A round whose x is as good as any, from which slots end about ``rise`` higher, in a corner each."""
    draws = np.random.default_rng(round_)
    starts = 0.6 - better * round_ + 0.1 * (round_ % 2)
    return [Trial(0.8, starts + rise + draws.normal(scale=0.1), start_loss=starts) for _ in range(slots)]


def first_change(slots: int, rise: float, better: float = 0.0) -> tuple[int, Findings | None]:
    """The first of twenty rounds that changes the step, and what it taught."""
    state = replace(RUNNING, best_x=np.full(3, -1.0))
    for round_ in range(20):
        found = taught(state, round_, thrashing(round_, slots, rise, better))
        if found.interventions:
            return round_, found
        state = found.state
    return 20, None


@pytest.mark.parametrize(("slots", "latest"), [(1, 5), (2, 3), (4, 3), (10, 3)])
def test_slots_that_end_far_above_where_they_began_round_after_round_quarter_the_step_and_bring_x_back(
    slots: int, latest: int
) -> None:
    """As where bounds catch slots that are thrown about: the losses at x swing, and never climb."""
    round_, found = first_change(slots, rise=2.0)
    assert round_ <= latest
    assert found is not None
    assert found.state.step == pytest.approx(0.2)
    assert not found.state.rises  # of another step
    assert found.restored is not None
    assert found.restored[0] < round_
    assert "above where they began, in the mean of" in found.interventions[0].why


@pytest.mark.parametrize(("rise", "better"), [(0.01, 0.0), (-2.0, 0.0), (2.0, 0.2)])
def test_rises_that_are_small_beside_the_fall_or_do_x_no_harm_change_nothing(rise: float, better: float) -> None:
    _, found = first_change(4, rise, better)
    assert found is None


def cornered(seed: int) -> Slot:
    """Slots that fall by a half at best, at steps about 1e-4; longer ones end in a corner, which may be a good one."""
    rng = np.random.default_rng(seed)

    def slot(step: float, _: int) -> Trial:
        start, q = 40.0 + rng.normal(), step / 1e-4
        loss = start * (1.0 - 0.5 * q / (1.0 + q)) if q < 4.0 else float(rng.choice([8.0, 20.0, 50.0, 90.0, 130.0]))
        return Trial(step, loss, explained=min(40.0 * q, 1e9), start_loss=start)

    return slot


@pytest.mark.parametrize("slots", [4, 5])
def test_what_steps_gain_in_lucky_corners_does_not_count_beside_shorter_ones_that_hurt(slots: int) -> None:
    config = CONFIG.replace(clients_per_round=slots)
    found = [search(cornered(seed), config)[0].step for seed in range(20)]
    assert sum(step > 4e-3 for step in found) <= 2  # not ten times too long


def one_hurt(exponents: range) -> StepState:
    """What a ladder teaches on which each step gains more than the last, but for the client that has the step 1."""
    trials = [Trial(4.0**e, 0.7 - 0.02 * (8 + e) if e else 1.6, 1.0, start_loss=0.7) for e in exponents]
    return taught(StepState(), 0, trials).state


def test_a_ladder_whose_shortest_steps_hurt_goes_on_below_however_much_longer_ones_gain() -> None:
    state = one_hurt(range(0, 5))
    assert (state.searching, state.lowest) == ("coarse", -10)


def test_one_client_that_a_step_hurts_says_nothing_of_longer_ones_where_shorter_steps_are_short() -> None:
    """As where clients have few kinds of rows: the next step is good for the client that has it."""
    state = one_hurt(range(-7, 3))
    assert state.searching == "coarse"  # longer steps are worth a look
    assert (state.lowest, state.raised) == (3, True)


@pytest.mark.parametrize("start_loss", [math.inf, 0.5])
def test_a_round_in_which_every_slot_diverged_quarters_the_step_and_brings_x_back(start_loss: float) -> None:
    best = np.ones(3)
    state = StepState(searching="done", step=0.8, best_x=best, best_loss=1.0)
    found = taught(state, 9, [Trial(0.8, math.inf, start_loss=start_loss)] * 3)
    assert found.state.step == pytest.approx(0.2)
    assert found.restored is best


def test_one_slot_that_diverged_is_passed_over() -> None:
    found = taught(RUNNING, 9, [Trial(0.8, math.inf), Trial(0.8, 0.4, start_loss=0.5)])
    assert (found.state.step, found.state.recent, found.interventions) == (0.8, (0.5,), ())


@pytest.mark.parametrize("slots", [1, 4, 10])
def test_a_ladder_whose_shortest_steps_throw_x_about_goes_on_below(slots: int) -> None:
    """With few local steps they do not overflow, and tell losses of any size: nothing of the loss at the start."""
    config = CONFIG.replace(clients_per_round=slots, local_steps=10)
    state, rounds, _ = search(parabola(1e6, steps=10), config)
    assert 0.03 < state.step * 1e6 < 1.6
    assert rounds <= 20


@pytest.mark.parametrize("offset", [-1.0, 0.0, 1e6])
def test_the_loss_before_the_first_move_is_what_all_slots_of_the_search_began_from(offset: float) -> None:
    slot, begun = parabola(1.0), (3.0, 5.0)
    state, _, _ = search(lambda step, i: replace(slot(step, i), start_loss=offset + begun[i % 2]))
    assert (state.level, state.spread) == (pytest.approx(offset + 4.0), pytest.approx(1.0))
    np.testing.assert_array_equal(state.best_x, np.ones(3))  # of the search's last round, in which x still stood


@pytest.mark.parametrize("offset", [-1.2, 0.0, 1e4])
def test_a_run_thrown_off_in_its_first_rounds_goes_back_to_where_it_began_whatever_is_added_to_its_losses(
    offset: float,
) -> None:
    began = np.full(3, 7.0)
    state = replace(RUNNING, level=1.2 + offset, best_loss=1.2 + offset, best_x=began, spread=0.1)
    found = steady([loss + offset for loss in (9.0, 80.0, 700.0, 6e3, 5e4)], state)
    back = next(each for each in found if each.interventions)
    assert back.restored is began


def test_a_round_that_throws_x_to_another_magnitude_is_undone_at_once() -> None:
    """In a short run five rounds until a median sees it may be all that are left."""
    *_, thrown = steady([1.1, 1e7], RUNNING)
    assert thrown.state.step == pytest.approx(0.2)
    assert thrown.restored is not None
    assert thrown.restored[0] == 17.0
    assert "rose from 1.2 before the first move to 1e+07" in thrown.interventions[0].why


@pytest.mark.parametrize("offset", [-1.2, 0.0, 1e9])
def test_a_small_rise_is_no_throw_wherever_losses_are_counted_from(offset: float) -> None:
    """As where the objective is what is gained over today's settings: it begins at zero."""
    state = replace(RUNNING, level=1.2 + offset, best_loss=1.2 + offset)
    assert not any(each.interventions for each in steady([loss + offset for loss in (1.3, 1.8, 1.4, 1.1)], state))


@pytest.mark.parametrize("dimension", [1, 3, 1000])
def test_a_ladder_that_has_gone_up_goes_on_while_slots_gain_as_their_slopes_say(dimension: int) -> None:
    """A move of K steps along one slope is sqrt(K) times as long as one of K steps that share nothing."""
    config = CONFIG.replace(clients_per_round=5)
    along = 1.0 + (config.steps_of_slot + 1) / dimension

    def slot(step: float, _: int) -> Trial:
        told = parabola(1e-9)(step, 0)
        return replace(told, explained=along * told.explained)

    state, x = StepState(), np.zeros(dimension)
    for round_ in range(30):
        asked = asked_in(state, round_, config)
        state = learn(state, config, round_, x, [slot(step, 0) for step in asked], False, 0.0).state
        if state.searching == "done":
            break
    assert 0.03 < state.step / FIRST * 1e-9 < 1.6


def test_where_no_slot_has_a_slope_the_ladder_stays_where_it_is() -> None:
    """As on a staircase with too small a radius: shorter steps are no way out."""
    state, rounds, _ = search(lambda step, _: Trial(step, 3.0, explained=0.0, start_loss=3.0))
    assert rounds <= 22
    assert state.step > 1e-6
