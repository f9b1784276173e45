"""What paired answers say of two points."""

from __future__ import annotations

import numpy as np
import pytest

from zofedht.server.evaluation.compare import comparison

SITES = ("a", "b", "c", "d")


def test_quiet_sites_are_told_exactly() -> None:
    before, after = np.array([[3.0] * 2, [4.0] * 2, [5.0] * 2, [6.0] * 2]), np.full((4, 2), 4.5)
    told = comparison(before, after, SITES)
    assert (told.gain, told.these_sites) == (0.0, (0.0, 0.0))
    assert (told.wins, told.losses, told.worst, told.noise) == (2, 2, "a", 0.0)
    assert not told.better
    reach = 3.1824463052842624 * np.std([-1.5, -0.5, 0.5, 1.5], ddof=1) / 2.0  # t of 3 degrees of freedom
    assert told.sites_like_these == pytest.approx((-reach, reach), rel=1e-12)


def test_two_sites_say_nothing_of_others() -> None:
    told = comparison(np.full((2, 2), 3.0), np.full((2, 2), 2.0), SITES[:2])
    assert told.sites_like_these is None
    assert told.better
    assert str(told) == "gain 1, these sites exactly, 2 of 2 sites better, worst a (+1)"


def test_one_answer_each_knows_no_noise() -> None:
    told = comparison(np.full((2, 1), 3.0), np.full((2, 1), 2.0), SITES[:2])
    assert told.these_sites is None
    assert np.isnan(told.noise)
    assert not told.better


def test_a_site_without_all_answers_is_lost() -> None:
    before = np.array([[3.0, 3.0], [np.nan, 3.0], [3.0, 3.0], [3.0, 3.0]])
    told = comparison(before, np.full((4, 2), 2.0), SITES)
    assert (told.sites, told.lost) == (("a", "c", "d"), ("b",))
    assert "lost b" in str(told)
    nobody = comparison(np.full((1, 2), np.nan), np.zeros((1, 2)), ("a",))
    assert str(nobody) == "no site answered both (lost: a)"
    assert not nobody.better


@pytest.mark.parametrize("sites", [3, 8])
def test_intervals_cover_as_often_as_they_say(sites: int) -> None:
    """Of 2000 fleets; five standard errors of a share of .95 are .024."""
    rng = np.random.default_rng(1)
    these = alike = 0
    names = [str(index) for index in range(sites)]
    for _ in range(2000):
        gains = 0.3 + rng.standard_normal(sites)
        noise = 0.5 * rng.standard_normal((2, sites, 3))
        told = comparison(gains[:, None] + noise[0], noise[1], names)
        these += told.these_sites[0] < gains.mean() < told.these_sites[1]
        alike += told.sites_like_these[0] < 0.3 < told.sites_like_these[1]
    assert these / 2000 == pytest.approx(0.95, abs=0.024)
    assert alike / 2000 == pytest.approx(0.95, abs=0.024)
