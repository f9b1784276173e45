"""The best x so far."""

from __future__ import annotations

import numpy as np
import pytest

from zofedht.server.evaluation.full_evaluation import FullEvaluation
from zofedht.server.evaluation.incumbent import EVERYBODY, EvaluatedX, better_of

SITES = ("a", "b", "c", "d")


def seen(round_: int, *losses: float, sites: tuple[str, ...] = SITES) -> EvaluatedX:
    return EvaluatedX(np.zeros(1), round_, sites[: len(losses)], np.array(losses))


def test_the_lower_mean_wins_and_the_older_of_equals():
    best = seen(1, 1.0, 2.0, 3.0, 4.0)
    assert better_of(None, best) is best
    lower, equal = seen(2, 0.0, 2.0, 3.0, 4.0), seen(2, 4.0, 3.0, 2.0, 1.0)
    assert better_of(best, lower) is lower
    assert better_of(best, equal) is best


def test_means_are_over_common_sites():
    """A site of a high level that is gone makes no x better."""
    best = seen(1, 1.0, 1.0, 100.0)
    assert better_of(best, seen(2, 1.1, 1.1)) is best
    new = seen(2, 0.9, 0.9)
    assert better_of(best, new) is new


def test_half_of_the_sites_must_tell():
    best, few = seen(1, 5.0, 5.0, 5.0, 5.0), seen(2, 0.0)
    assert better_of(best, few) is best
    half = seen(2, 0.0, 0.0)
    assert better_of(best, half) is half


@pytest.mark.parametrize("loss", [np.nan, np.inf])
def test_what_is_not_finite_is_no_best_x(loss: float):
    best = seen(1, 9.0, 9.0)
    assert better_of(best, seen(2, 0.0, loss)) is best
    assert better_of(None, seen(2, loss)) is None


def test_the_servers_rows_are_one_site():
    found = EvaluatedX.of(np.ones(2), 3, FullEvaluation({"train_loss": 0.5}))
    assert (found.sites, found.losses.tolist(), found.round) == (EVERYBODY, [0.5], 3)
    assert EvaluatedX.of(np.ones(2), 3, FullEvaluation({})).sites == ()
