"""What a round's slots say about their steps: laws of the comparison."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from zofedht.server.auto.trials import Trial, evened, hurting, level_of, rungs_of, throws_about

STARTS = [3.0, 9.0, 1.0, 5.0, 7.0]  # of five clients, at one x


def ladder(starts: Sequence[float], fall: float = 1e-6) -> list[Trial]:
    """Five steps, each four times the last, of which each gains ``fall`` times its step and explains twice that."""
    return [Trial(4.0**i, start - fall * 4.0**i, 2.0 * fall * 4.0**i, f"c{i}", start) for i, start in enumerate(starts)]


def test_where_starts_are_exact_each_slot_is_judged_by_its_own_fall() -> None:
    losses = [rung.loss for rung in rungs_of(evened(ladder(STARTS)))]
    np.testing.assert_allclose(losses, [5.0 - 1e-6 * 4.0**i for i in range(5)], rtol=0, atol=1e-12)
    assert level_of(rungs_of(evened(ladder(STARTS)))) == pytest.approx(5.0, abs=1e-5)


def test_the_clients_that_had_which_step_change_nothing_then() -> None:
    one, other = (rungs_of(evened(ladder(starts))) for starts in (STARTS, STARTS[::-1]))
    assert [rung.loss for rung in one] == pytest.approx([rung.loss for rung in other], abs=1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_starts_that_scatter_by_their_batch_are_left_out_of_it(seed: int) -> None:
    """A first probe on a few rows says nothing of the mean over many."""
    scatter = np.random.default_rng(seed).standard_normal(5)
    trials = [
        replace(trial, start_loss=trial.start_loss + noise)
        for trial, noise in zip(ladder([5.0] * 5), scatter, strict=True)
    ]
    assert evened(trials) == trials


@pytest.mark.parametrize("fall", [1.0, 100.0])
def test_steps_that_all_lead_somewhere_tell_nothing_of_the_starts(fall: float) -> None:
    trials = ladder(STARTS, fall)
    assert evened(trials) == trials


def test_slots_that_diverged_stay_infinitely_bad() -> None:
    lost = Trial(4.0**9, math.inf, client="c9", start_loss=5.0)
    trials = evened([*ladder(STARTS), lost, Trial(4.0**10, math.inf)])
    assert [rung.loss for rung in rungs_of(trials)][-2:] == [math.inf, math.inf]
    assert rungs_of(trials)[0].loss == pytest.approx(5.0, abs=1e-5)


def test_losses_of_other_magnitudes_throw_x_about_and_losses_next_to_zero_do_not() -> None:
    """An objective may be counted from today's settings: then short steps tell any small number."""
    assert not throws_about(ladder(STARTS))
    assert not throws_about(ladder([0.0] * 5))
    assert throws_about(
        [Trial(1.0, 1.0, start_loss=0.5), Trial(4.0, 1e5, start_loss=0.5), Trial(16.0, 1e9, start_loss=0.5)]
    )


def test_short_steps_that_all_end_alike_far_above_where_they_began_are_none_either() -> None:
    """At a bound, where the loss is flat, or where floats tell no two probes apart."""
    assert throws_about([Trial(4.0**i, 50.0, client=f"c{i}", start_loss=start) for i, start in enumerate(STARTS)])
    noise = np.random.default_rng(0).standard_normal(5)
    assert not throws_about([Trial(4.0**i, 5.0 + noise[i], start_loss=5.0) for i in range(5)])
    less_than_they_differ = [replace(trial, loss=trial.loss + 0.1) for trial in ladder(STARTS)]
    assert not throws_about(less_than_they_differ)


def test_the_shortest_step_that_hurts_ends_above_its_start_and_all_starts_by_more_than_the_best_one_gains() -> None:
    gains = [Trial(1.0, 39.0, start_loss=40.0), Trial(4.0, 30.0, start_loss=42.0)]
    bad, lucky = Trial(16.0, 60.0, start_loss=40.0), Trial(64.0, 8.0, start_loss=41.0)
    assert hurting([*gains, bad, replace(bad, step=256.0)]) == 16.0
    assert hurting([*gains, bad, lucky]) == math.inf  # what hurts by less than the best one gains
    assert hurting([*gains, Trial(16.0, math.inf, start_loss=40.0), lucky]) == 16.0
    assert hurting([*gains, lucky]) == math.inf
    assert hurting([]) == math.inf


def test_a_slot_that_began_on_easy_rows_is_not_hurt_by_its_other_ones() -> None:
    """As with few rows a batch: the first probe tells its own batch, the mean over the slot all of them."""
    starts = [200.0, 200.0, 60.0, 200.0, 200.0]
    assert hurting([Trial(4.0**i, 195.0, start_loss=start) for i, start in enumerate(starts)]) == math.inf
