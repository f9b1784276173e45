"""subspace-weight = auto, as laws on clients whose pulls are known."""

from __future__ import annotations

import numpy as np
import pytest

from zofedht.common.config.derived_keys import START_WEIGHT
from zofedht.server.auto.subspace_weight import Pull, WeightState, hear, observe, refreshed, weight_of_stretch

DIMENSION, RANK, SLOTS = 300, 5, 10
BASIS = np.linalg.qr(np.random.default_rng(1).standard_normal((DIMENSION, RANK)))[0]
MOST = 1.0 - START_WEIGHT + START_WEIGHT * DIMENSION / RANK


def pulls(state: WeightState, rng: np.random.Generator, shared: float, own: float, noise: float = 1.0) -> list[Pull]:
    """Slots of different clients: noise stretched as their directions are, a pull all share, and one of their own."""
    weight = weight_of_stretch(state, DIMENSION, RANK)
    stretch = max(1.0, state.stretch)
    common = shared * np.sqrt(stretch) * rng.standard_normal(RANK)
    found = []
    for slot in range(SLOTS):
        outside = rng.standard_normal(DIMENSION) * np.sqrt(1.0 - weight)
        outside -= BASIS @ (BASIS.T @ outside)
        inside = noise * np.sqrt(stretch) * rng.standard_normal(RANK)
        inside = inside + common + own * np.sqrt(stretch) * rng.standard_normal(RANK)
        found.append(Pull(str(slot), noise * outside + BASIS @ inside))
    return found


def weights(shared: float, own: float, refreshes: int = 8, seed: int = 0) -> list[float]:
    """The weight after each refresh, five rounds apart."""
    rng = np.random.default_rng(seed)
    state, _ = refreshed(WeightState(), DIMENSION, 0, RANK)
    found = []
    for _ in range(refreshes):
        for _ in range(5):
            state = observe(state, BASIS, pulls(state, rng, shared, own))
        state, _ = refreshed(state, DIMENSION, RANK, RANK)
        found.append(weight_of_stretch(state, DIMENSION, RANK))
    return found


def test_it_begins_with_the_first_basis_at_the_starting_weight() -> None:
    assert weight_of_stretch(WeightState(), DIMENSION, RANK) == 0.0
    state, changes = refreshed(WeightState(), DIMENSION, 0, RANK)
    assert weight_of_stretch(state, DIMENSION, RANK) == pytest.approx(START_WEIGHT)
    assert changes == ()


def test_the_first_basis_is_judged_by_the_round_before_it() -> None:
    rng = np.random.default_rng(6)
    for own, expected in ((0.0, START_WEIGHT), (4.0, 0.0)):
        seen = observe(WeightState(), BASIS, pulls(WeightState(), rng, shared=0.5, own=own))
        state, _ = refreshed(seen, DIMENSION, 0, RANK)
        assert weight_of_stretch(state, DIMENSION, RANK) == pytest.approx(expected)


@pytest.mark.parametrize("seed", range(5))
def test_clients_that_pull_apart_drive_the_weight_to_zero(seed: int) -> None:
    assert weights(shared=0.0, own=4.0, seed=seed)[-1] == 0.0


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("shared", [0.0, 0.5, 4.0])
def test_clients_that_differ_by_noise_only_keep_it(shared: float, seed: int) -> None:
    assert weights(shared=shared, own=0.0, seed=seed) == pytest.approx([START_WEIGHT] * 8)


def test_the_parts_of_the_energy_are_estimated_without_bias() -> None:
    rng = np.random.default_rng(9)
    state = WeightState(stretch=MOST)
    for _ in range(400):
        added = observe(WeightState(stretch=MOST), BASIS, pulls(state, rng, shared=1.0, own=2.0))
        state = WeightState(MOST, state.inside + added.inside, state.agreed + added.agreed, state.noise + added.noise)
    per_axis = 400 * RANK * MOST
    assert state.agreed / per_axis == pytest.approx(1.0, rel=0.1)  # 2000 squares: 3 standard errors are .1
    assert state.noise / per_axis == pytest.approx(1.0, rel=0.02)
    assert state.inside / per_axis == pytest.approx(1.0 + 4.0 + 1.0, rel=0.05)


def test_slots_of_one_client_do_not_count_as_agreement() -> None:
    rng = np.random.default_rng(2)
    state = WeightState(stretch=MOST)
    same = [Pull("only", pull.direction) for pull in pulls(state, rng, 0.0, 4.0)]
    assert observe(state, BASIS, same) == state  # nobody to compare with
    twice = [pull for pull in pulls(state, rng, 0.0, 4.0)[:2] for _ in range(5)]
    assert abs(observe(state, BASIS, twice).agreed) < observe(state, BASIS, twice).inside


def test_the_weight_comes_back_when_clients_no_longer_pull_apart() -> None:
    rng = np.random.default_rng(4)
    state = WeightState(stretch=1.0)
    for _ in range(10):
        for _ in range(5):
            state = observe(state, BASIS, pulls(state, rng, shared=1.0, own=0.0))
        state, changes = refreshed(state, DIMENSION, RANK, RANK)
        assert all(change.what == "subspace-weight" and "clients differ" in change.why for change in changes)
    assert weight_of_stretch(state, DIMENSION, RANK) == pytest.approx(START_WEIGHT)


def test_a_basis_of_nothing_or_of_everything_teaches_nothing() -> None:
    state = WeightState(stretch=MOST)
    assert observe(state, np.empty((DIMENSION, 0)), pulls(state, np.random.default_rng(0), 0.0, 1.0)) == state
    assert refreshed(state, DIMENSION, RANK, 0) == (state, ())
    assert refreshed(state, 3, 3, 3) == (state, ())


def after_losses(*periods: float, level: float = 1.0) -> list[float]:
    """The weight in each period of five rounds with these losses at x, of clients that all pull alike."""
    rng = np.random.default_rng(0)
    state, rank, found = hear(WeightState(), level), 0, []
    for loss in periods:
        found.append(weight_of_stretch(state, DIMENSION, rank) if rank else 0.0)
        for _ in range(5):
            state = observe(hear(state, loss), BASIS, pulls(state, rng, shared=0.5, own=0.0))
        state, _ = refreshed(state, DIMENSION, rank, RANK)
        rank = RANK
    return [*found, weight_of_stretch(state, DIMENSION, RANK)]


def test_stretched_directions_that_lead_above_the_loss_before_the_first_move_become_isotropic() -> None:
    assert after_losses(0.9, 3.0) == pytest.approx([0.0, START_WEIGHT, 0.0])
    assert after_losses(0.9, 0.95) == pytest.approx([0.0, START_WEIGHT, START_WEIGHT])


def test_losses_as_high_under_isotropic_directions_are_not_held_against_stretched_ones() -> None:
    """Steps that are long at first raise them however directions are drawn."""
    assert after_losses(4.0, 3.0, 2.0) == pytest.approx([0.0] + [START_WEIGHT] * 3)
    assert after_losses(2.0, 3.0) == pytest.approx([0.0, START_WEIGHT, 0.0])


def test_after_such_a_rise_they_stay_isotropic() -> None:
    assert after_losses(0.9, 3.0, 0.9, 0.8, 0.7) == pytest.approx([0.0, START_WEIGHT, 0.0, 0.0, 0.0, 0.0])


def test_a_rise_is_told_with_both_losses_and_rounds_without_a_loss_say_nothing() -> None:
    state, _ = refreshed(hear(WeightState(), 1.0), DIMENSION, 0, RANK)
    assert hear(state, np.nan) == state
    _, changes = refreshed(hear(state, 8.5), DIMENSION, RANK, RANK)
    assert [(change.what, change.after) for change in changes] == [("subspace-weight", 0.0)]
    assert "rose to 8.5; it was 1 before" in changes[0].why
