"""Theorem 1 with the paper's constants: what holds, and a counterexample to each step that does not."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from zofedht.common.directions.law import DirectionLaw
from zofedht.experiments.theory.bounds import Problem, Work, bound, spectrum
from zofedht.experiments.theory.insensitive import held_by_trajectory, held_on_digits, smoothing_cost
from zofedht.experiments.theory.lemmas import check_lemmas
from zofedht.experiments.theory.one_round import measure_round
from zofedht.experiments.theory.printed import (
    descent_left,
    printed_bound,
    printed_conditions,
    printed_step,
    psi,
    round_bounds,
    two_steps,
)
from zofedht.experiments.theory.printed_tables import SECTION_IV, proof_steps, steep_quadratic
from zofedht.experiments.theory.quadratic_problem import make_quadratic, mean_squared_gradient

PROBLEM = Problem(smoothness=1.0, gap=1.0, local_noise=2.0, global_noise=0.5)
WORK = Work(rounds=400, local_steps=5, slots=5, radius=1e-3)


class TestTheorem:
    def test_the_printed_step_meets_all_seven_conditions(self):
        eta = printed_step(PROBLEM, WORK, 20)
        limits = printed_conditions(PROBLEM, WORK, 20, 0.3)
        assert eta == pytest.approx(8.25e-4, rel=1e-3)
        assert list(limits) == [f"({number})" for number in range(13, 20)]
        assert eta < min(limits.values()) == limits["(16)"]

    def test_it_is_far_above_the_measured_mean_and_ours(self):
        quadratic = make_quadratic(20)
        eta = printed_step(quadratic.problem, WORK, 20)
        measured = mean_squared_gradient(quadratic, WORK, eta, weight=0.3)
        printed = printed_bound(quadratic.problem, WORK, 20, 0.3).total
        ours = bound(quadratic.problem, WORK, spectrum(20, 5, 0.3, "paper"), eta).total
        assert printed == pytest.approx(14.14, rel=1e-3)
        assert measured < ours < printed

    def test_the_last_line_lacks_the_root_of_the_smoothness(self):
        for smoothness in (0.25, 1.0, 9.0):
            problem = replace(PROBLEM, smoothness=smoothness)
            work = replace(WORK, radius=0.0)
            eta = printed_step(problem, work, 20)
            noise = problem.global_noise**2 + problem.local_noise**2
            last = problem.gap / (work.rounds * eta * work.local_steps)
            last += 36.0 / work.slots * smoothness * eta * 24 * noise
            ratio = 8.0 / 0.7 * last / printed_bound(problem, work, 20, 0.3).total
            assert ratio == pytest.approx(math.sqrt(smoothness))
            corrected = printed_bound(problem, work, 20, 0.3, corrected=True).total
            assert 8.0 / 0.7 * last == pytest.approx(corrected)

    def test_a_steep_quadratic_exceeds_the_printed_bound(self):
        """All conditions hold; with L under the root the bound holds again."""
        steepness, work = 1e4, replace(WORK, rounds=200, radius=1e-4)
        quadratic = steep_quadratic(20, steepness)
        problem = quadratic.printed_problem
        eta = printed_step(problem, work, 20)
        assert eta < min(printed_conditions(problem, work, 20, 0.3).values())
        measured = mean_squared_gradient(quadratic, work, eta, weight=0.3)
        assert measured > 3.0 * printed_bound(problem, work, 20, 0.3).total
        assert measured < printed_bound(problem, work, 20, 0.3, corrected=True).total

    def test_scaling_f_scales_only_the_corrected_bound_rightly(self):
        """The squared gradient of c f is c^2 times that of f, along the same path."""
        flat, steep = steep_quadratic(20, 1.0), steep_quadratic(20, 16.0)
        work = replace(WORK, rounds=20, radius=0.0)
        sides = []
        for quadratic in (flat, steep):
            problem = quadratic.printed_problem
            bounds = [printed_bound(problem, work, 20, 0.3, corrected=which).total for which in (False, True)]
            eta = printed_step(problem, work, 20)
            measured = mean_squared_gradient(quadratic, replace(work, radius=1e-4), eta, weight=0.3)
            sides.append(np.array([measured, *bounds]))
        assert sides[1] / sides[0] == pytest.approx([16.0**2, 16.0**1.5, 16.0**2])


class TestProof:
    def test_lemma_5_does_not_follow_from_the_condition_it_cites(self):
        for weight in (0.1, 0.3, 0.5, 0.9):
            limit = printed_conditions(PROBLEM, WORK, 20, weight)["(13)"]
            left, needed = descent_left(PROBLEM, WORK, 20, weight, limit)
            assert left < needed
            assert (left <= 1e-12) == (weight >= 0.5)
        left, needed = descent_left(PROBLEM, WORK, 20, 0.0, printed_conditions(PROBLEM, WORK, 20, 0.0)["(13)"])
        assert left == pytest.approx(needed)

    def test_lemma_5_follows_from_two_other_conditions(self):
        rng = np.random.default_rng(0)
        for _ in range(500):
            problem = replace(PROBLEM, smoothness=float(rng.lognormal()))
            work = Work(100, int(rng.integers(1, 60)), int(rng.integers(1, 40)), 0.0)
            dimension, weight = int(rng.integers(1, 2000)), float(rng.uniform(0.0, 0.99))
            limits = printed_conditions(problem, work, dimension, weight)
            eta = min(limits["(16)"], limits["(17)"])
            left, needed = descent_left(problem, work, dimension, weight, eta)
            assert left >= 1.5 * needed * (1.0 - 1e-12)

    def test_lemma_6_takes_a_wrong_mean_of_g(self):
        """E[g] = C grad f_mu: the mean is off grad f_mu by many standard errors, and within five of C grad f_mu."""
        check = check_lemmas(weight=0.3, draws=50_000)
        assert check.plain_z > 20.0
        assert check.largest_z < 5.0

    @pytest.mark.parametrize("curvature", [1.0, -1.0])
    def test_lemma_6_drops_cross_terms(self, curvature: float):
        eta, draws = 0.1, 400_000
        move, parts = two_steps(curvature, eta)
        assert move - parts == pytest.approx(-4.0 * eta * curvature**3)
        v = np.square(np.random.default_rng(0).standard_normal((2, draws)))
        first = curvature * v[0]
        moves = np.square(first + curvature * (1.0 - eta * first) * v[1])
        error = moves.std() / math.sqrt(draws)
        assert abs(moves.mean() - move) < 5.0 * error
        assert abs(moves.mean() - parts) > 5.0 * error

    def test_the_experiments_take_steps_outside_of_the_theorem(self):
        found = proof_steps()["section IV"]
        assert found["least"] > 20.0 * found["allowed"]
        assert SECTION_IV.rounds * SECTION_IV.local_steps * SECTION_IV.slots * 2 * 64 == 500 * 48_000


class TestLemmas:
    """Lemmas 4 to 6 on one round, at the largest step that the seven conditions allow."""

    @pytest.mark.parametrize("weight", [0.0, 0.3])
    @pytest.mark.parametrize("place", ["start", "minimum"])
    def test_drift_descent_and_move_are_within_their_bounds(self, weight: float, place: str):
        quadratic = make_quadratic(20)
        problem = quadratic.printed_problem
        x = quadratic.centre if place == "minimum" else np.zeros(20)
        eta = min(printed_conditions(problem, WORK, 20, weight).values())
        basis = np.linalg.qr(np.random.default_rng(0).standard_normal((20, 5)))[0]
        found = measure_round(quadratic, x, WORK, eta, DirectionLaw(20, basis, weight), draws=1000)
        gradient = float(np.sum(np.square(quadratic.gradient(x))))
        right = round_bounds(problem, WORK, 20, weight, eta, gradient=gradient, mean=found.mean[0])
        for name in ("drift", "size", "descent", "move"):
            mean, error = getattr(found, name)
            assert mean + 5.0 * error <= getattr(right, name), name

    def test_a_measured_round_is_that_of_the_formulas(self):
        """K = 1 without noise: E|g|^2 = (n + 2)|grad|^2, E<grad, move> = -eta |grad|^2, no drift."""
        quadratic = make_quadratic(20, local_noise=0.0, global_noise=0.0)
        work, eta = replace(WORK, local_steps=1), 1e-2
        found = measure_round(quadratic, np.zeros(20), work, eta, DirectionLaw(20), draws=20_000)
        gradient = float(np.sum(np.square(quadratic.gradient(np.zeros(20)))))
        for (mean, error), exact in ((found.size, 22.0 * gradient), (found.descent, -eta * gradient)):
            assert abs(mean - exact) < 5.0 * error
        assert found.drift == (0.0, 0.0)

    def test_psi_is_that_of_one_client_without_smoothing(self):
        assert psi(PROBLEM, replace(WORK, radius=0.0), 20) == pytest.approx(2 * 24 * (4 * 0.25 + 4.0))


class TestBasis:
    def test_the_least_curved_directions_solve_problem_10(self):
        rng = np.random.default_rng(0)
        frame = np.linalg.qr(rng.standard_normal((8, 8)))[0]
        hessian = frame @ np.diag(np.geomspace(1.0, 0.01, 8)) @ frame.T
        least = smoothing_cost(hessian, frame[:, -3:], 0.4)
        others = [np.linalg.qr(rng.standard_normal((8, 3)))[0] for _ in range(200)]
        assert all(smoothing_cost(hessian, basis, 0.4) > least for basis in others)
        turned = frame[:, -3:] @ np.linalg.qr(rng.standard_normal((3, 3)))[0]  # only the span counts
        assert smoothing_cost(hessian, turned, 0.4) == pytest.approx(least)

    def test_q_of_a_run_is_not_the_least_curved_directions(self):
        """Early it holds the most curved ones, by more than chance; at no time the least curved ones by much."""
        held = held_by_trajectory(1.0)
        assert held.chance == 0.25
        assert held.most_early > held.chance + 0.03
        assert max(held.least_early, held.least_late) < held.chance + 0.15

    def test_q_of_a_model_is_the_most_curved(self):
        """Twice chance of the most curved directions of digits, and no more than chance of the least."""
        held = held_on_digits("iid", rounds=60)
        assert held.chance == pytest.approx(5 / 65)
        assert held.most > 1.7 * held.chance
        assert held.least < 1.2 * held.chance
