"""The bound in the setting of Theorem 1: its conditions, its rate, and that nothing violates it."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from zofedht.experiments.theory.bounds import (
    Problem,
    Spectrum,
    Work,
    balanced_step,
    binding,
    bound,
    conditions,
    spectrum,
)
from zofedht.experiments.theory.lemmas import check_lemmas
from zofedht.experiments.theory.quadratic_problem import make_quadratic, mean_squared_gradient

PROBLEM = Problem(smoothness=1.0, gap=1.0, local_noise=2.0, global_noise=0.5)
WORK = Work(rounds=400, local_steps=5, slots=5, radius=1e-3)
LAWS = [(0.0, "paper"), (0.3, "paper"), (0.3, "trace"), (0.7, "trace")]


def far(**changes: float) -> Work:
    """Return a run so long that the step is far from every condition."""
    return replace(WORK, rounds=10**8, **changes)  # type: ignore[arg-type]


class TestSpectrum:
    @pytest.mark.parametrize(("weight", "covariance"), LAWS)
    def test_it_encloses_the_covariance(self, weight: float, covariance: str):
        n, rank = 12, 5
        law = spectrum(n, rank, weight, covariance)
        basis = np.linalg.qr(np.random.default_rng(0).standard_normal((n, rank)))[0]
        s = 1.0 if covariance == "paper" else n / rank
        c = (1.0 - weight) * np.eye(n) + weight * s * basis @ basis.T
        eigenvalues = np.linalg.eigvalsh(c)
        assert law.smallest <= eigenvalues[0] + 1e-12
        assert law.largest >= eigenvalues[-1] - 1e-12
        assert law.trace >= np.trace(c) - 1e-12

    def test_the_printed_covariance_is_at_most_the_identity(self):
        assert all(spectrum(785, 5, weight, "paper").largest == 1.0 for weight in (0.0, 0.3, 0.9))

    def test_the_trace_covariance_is_outside_with_the_constant_that_is_documented(self):
        assert spectrum(785, 5, 0.3, "trace").largest == pytest.approx(1.0 - 0.3 + 0.3 * 785 / 5)

    def test_the_sixth_moment_is_not_exceeded(self):
        """E|v|^6 of a Gaussian is T^3 + 6 T tr C^2 + 8 tr C^3; equality where C is a multiple of I in one dimension."""
        c = np.array([0.7, 0.7, 1.9])
        exact = c.sum() ** 3 + 6.0 * c.sum() * np.sum(c**2) + 8.0 * np.sum(c**3)
        assert Spectrum(0.7, 1.9, float(c.sum())).sixth_moment >= exact
        assert Spectrum(2.0, 2.0, 2.0).sixth_moment == pytest.approx(15.0 * 8.0)


class TestConditions:
    def test_each_limit_makes_its_condition_an_equality(self):
        law = spectrum(20, 5, 0.3, "trace")
        limits = conditions(PROBLEM, WORK, law)
        k, lam, smooth = WORK.local_steps, law.largest, PROBLEM.smoothness
        growth = 8.0 * k * lam**2 + 4.0 * 2.0 * lam * (law.trace + 2.0 * lam)
        assert limits["overshoot"] * k * smooth * lam == pytest.approx(1.0)
        assert limits["drift"] ** 2 * k * smooth**2 * growth == pytest.approx(0.5)
        eta = limits["descent"]
        theta = k * lam * (smooth * eta) ** 2 + smooth * eta / (2.0 * WORK.slots)
        assert 2.0 * growth * theta == pytest.approx(law.smallest / 4.0)

    def test_the_one_that_binds_is_the_least(self):
        law = spectrum(20, 5, 0.0, "paper")
        name, largest = binding(PROBLEM, WORK, law)
        assert largest == min(conditions(PROBLEM, WORK, law).values())
        assert name == "descent"

    def test_many_slots_make_descent_easier_and_leave_the_others(self):
        law = spectrum(20, 5, 0.0, "paper")
        few, many = (conditions(PROBLEM, replace(WORK, slots=slots), law) for slots in (1, 100))
        assert many["descent"] > few["descent"]
        assert many["drift"] == few["drift"]

    def test_a_larger_step_is_refused_by_the_name_of_the_condition(self):
        law = spectrum(20, 5, 0.0, "paper")
        with pytest.raises(ValueError, match="'descent' binds"):
            bound(PROBLEM, WORK, law, 2.0 * binding(PROBLEM, WORK, law)[1])

    def test_weight_1_is_refused(self):
        with pytest.raises(ValueError, match="below 1"):
            bound(PROBLEM, WORK, spectrum(20, 5, 1.0, "paper"), 1e-6)

    def test_a_run_that_is_too_short_to_balance_takes_the_largest_step(self):
        law = spectrum(20, 5, 0.0, "paper")
        assert balanced_step(PROBLEM, replace(WORK, rounds=1), law) == (binding(PROBLEM, WORK, law)[1], "descent")
        assert balanced_step(PROBLEM, far(), law)[1] == "balance"

    def test_without_noise_the_conditions_decide(self):
        law = spectrum(20, 5, 0.0, "paper")
        quiet = Problem(1.0, 1.0, 0.0, 0.0)
        name, largest = binding(quiet, far(radius=0.0), law)
        assert balanced_step(quiet, far(radius=0.0), law) == (largest, name)


class TestRate:
    """The leading order is sqrt(n L gap / (K R M)) sigma_l: slopes -1/2 in R, K, M and +1/2 in n."""

    def total(self, work: Work, dimension: int = 10_000) -> float:
        law = spectrum(dimension, 0, 0.0, "paper")
        problem = replace(PROBLEM, global_noise=0.0)
        eta, decided = balanced_step(problem, work, law)
        assert decided == "balance"
        return bound(problem, work, law, eta).total

    @pytest.mark.parametrize("change", ["rounds", "local_steps", "slots"])
    def test_four_times_as_much_work_halves_the_bound(self, change: str):
        work = replace(WORK, rounds=10**12, radius=0.0)
        more = replace(work, **{change: 4 * getattr(work, change)})
        assert self.total(work) / self.total(more) == pytest.approx(2.0, rel=0.01)

    def test_four_times_the_dimension_doubles_it(self):
        work = replace(WORK, rounds=10**12, radius=0.0)
        assert self.total(work, 40_000) / self.total(work, 10_000) == pytest.approx(2.0, rel=0.01)

    def test_the_smoothing_term_is_of_order_mu_squared(self):
        law = spectrum(20, 5, 0.3, "paper")
        one, two = (bound(PROBLEM, replace(WORK, radius=mu), law, 1e-3).smoothing for mu in (1e-2, 2e-2))
        assert two == pytest.approx(4.0 * one)


class TestMeasured:
    @pytest.mark.parametrize(("weight", "covariance"), LAWS)
    def test_the_bound_is_not_violated_and_not_vacuous(self, weight: float, covariance: str):
        quadratic = make_quadratic(20)
        work = replace(WORK, rounds=150)
        law = spectrum(20, 5, weight, covariance)
        eta, _ = balanced_step(quadratic.problem, work, law)
        measured = mean_squared_gradient(quadratic, work, eta, weight=weight, covariance=covariance)
        right = bound(quadratic.problem, work, law, eta).total
        assert measured <= right
        assert right <= 20.0 / law.smallest * measured  # 4/kappa of the descent, and what its inequalities lose

    def test_it_is_not_violated_at_the_largest_step_either(self):
        quadratic = make_quadratic(8, local_noise=1.0, global_noise=2.0, gap=5.0)
        work = Work(rounds=60, local_steps=10, slots=3, radius=0.1)
        law = spectrum(8, 5, 0.5, "paper")
        _, eta = binding(quadratic.problem, work, law)
        measured = mean_squared_gradient(quadratic, work, eta, weight=0.5, covariance="paper")
        assert measured <= bound(quadratic.problem, work, law, eta).total

    def test_the_constants_of_the_quadratic_are_exact(self):
        quadratic = make_quadratic(7, clients=5, rows=4, gap=3.0, local_noise=1.5, global_noise=0.25)
        x = np.linspace(-1.0, 1.0, 7)
        h = quadratic.curvature
        means = np.stack([client.centres.mean(axis=0) for client in quadratic.clients])
        gradients = h * (x - means)
        assert np.allclose(gradients.mean(axis=0), quadratic.gradient(x))
        spread = np.mean(np.sum(np.square(gradients - gradients.mean(axis=0)), axis=1))
        assert spread == pytest.approx(0.25**2)
        local = [
            np.sum(np.square(h * (client.centres - mean)), axis=1)
            for client, mean in zip(quadratic.clients, means, strict=True)
        ]
        assert np.mean(local) == pytest.approx(1.5**2)
        value = np.mean([client.value(np.zeros(7), slice(None)) for client in quadratic.clients])
        least = np.mean([client.value(quadratic.centre, slice(None)) for client in quadratic.clients])
        assert value - least == pytest.approx(3.0)


class TestLemmas:
    """200,000 draws; a component of Lemma 1 is off by more than five standard errors once in 10^5 runs."""

    @pytest.mark.parametrize(("weight", "covariance"), LAWS)
    def test_the_mean_of_g_is_c_times_the_smoothed_gradient(self, weight: float, covariance: str):
        check = check_lemmas(weight=weight, covariance=covariance, draws=200_000)
        assert check.largest_z < 5.0
        if weight:
            assert check.plain_z > 20.0  # and not the smoothed gradient itself

    @pytest.mark.parametrize(("weight", "covariance"), LAWS)
    def test_bias_and_second_moment_are_within_their_bounds(self, weight: float, covariance: str):
        check = check_lemmas(weight=weight, covariance=covariance, draws=50_000)
        assert 0.0 < check.bias <= check.bias_bound
        assert check.second_moment + 5.0 * check.second_moment_se <= check.second_moment_bound

    def test_the_second_moment_bound_is_nearly_reached_by_a_linear_function(self):
        """For mu -> 0, isotropic v: E|g|^2 = (n + 2)|grad|^2, half of A |grad|^2."""
        check = check_lemmas(weight=0.0, draws=200_000, radius=1e-5)
        ratio = check.second_moment_bound / check.second_moment
        assert math.isclose(ratio, 2.0, rel_tol=5.0 * check.second_moment_se / check.second_moment)
