"""Which x a run returns, and whether it is better than the start."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from zofedht.common.typing import Vector
from zofedht.server.evaluation.full_evaluation import FullEvaluation
from zofedht.server.evaluation.incumbent import EvaluatedX
from zofedht.server.evaluation.verdict import Verdict, judge

CENTRES = {"a": 1.0, "b": 2.0, "c": 3.0}
Answer = Callable[[str, float], float]


class Sites:
    """Sites that answer F(x), and count what they are asked."""

    def __init__(self, answer: Answer, names: tuple[str, ...] = tuple(CENTRES)) -> None:
        self.answer, self.names = answer, names
        self.asked: list[float] = []

    def __call__(self, x: Vector) -> FullEvaluation:
        self.asked.append(float(x[0]))
        told = {name: self.answer(name, float(x[0])) for name in self.names}
        losses = {name: loss for name, loss in told.items() if np.isfinite(loss)}
        metrics = {"train_loss": float(np.mean(list(losses.values())))} if losses else {}
        return FullEvaluation(metrics, tuple(losses), losses=tuple(losses.values()), samples=len(losses))


def quiet(name: str, x: float) -> float:
    return (x - CENTRES[name]) ** 2


def judged(sites: Sites, start: float, best: float | None, last: float) -> Verdict:
    def at(x: float, round_: int) -> EvaluatedX:
        return EvaluatedX.of(np.array([x]), 0 if x == start else round_, sites(np.array([x])))

    points = at(start, 0), None if best is None else at(best, 3), at(last, 9)
    evaluation = sites(np.array([last]))
    sites.asked.clear()
    return judge(sites, *points, evaluation)


def test_quiet_sites_are_asked_once_and_known_exactly():
    sites = Sites(quiet)
    found = judged(sites, 0.0, 2.0, 2.5)
    assert sorted(sites.asked) == [0.0, 2.0, 2.5]
    assert (found.which, found.chosen.round, found.success, found.samples) == ("best", 3, True, 9)
    assert found.comparison is not None
    assert found.comparison.gain == pytest.approx(4.0)
    assert found.comparison.these_sites == (found.comparison.gain, found.comparison.gain)
    assert (found.comparison.wins, found.comparison.losses) == (2, 0)  # site a is as far from 2 as from 0


def test_a_best_x_that_is_the_last_is_asked_once():
    sites = Sites(quiet)
    found = judged(sites, 0.0, 2.0, 2.0)
    assert sorted(sites.asked) == [0.0, 2.0]
    assert (found.samples, found.repeats) == (6, 1)


def test_a_worse_run_returns_its_start():
    found = judged(Sites(quiet), 2.0, 2.0, 50.0)
    assert (found.which, found.success, found.chosen.x[0]) == ("start", False, 2.0)
    assert found.comparisons["last"].gain < 0.0


@pytest.mark.parametrize("count", [1, 2, 3, 20])
def test_noise_is_told_from_enough_repeats(count: int):
    """The noise has at least 6 degrees of freedom, and points are asked in turn."""
    rng = np.random.default_rng(count)
    names = tuple(f"site-{index}" for index in range(count))
    sites = Sites(lambda name, x: (x - 2.0) ** 2 + 0.01 * rng.standard_normal(), names)
    found = judged(sites, 0.0, 2.0, 2.3)
    assert count * (found.repeats - 1) >= 6
    assert sites.asked[:6] == [2.0, 2.3, 0.0, 0.0, 2.3, 2.0]
    assert (found.which, found.success) == ("best", True)
    assert found.comparison is not None
    assert found.comparison.noise == pytest.approx(0.01 * np.sqrt(2), rel=0.7)


def test_luck_is_no_success():
    """F is flat: of many runs hardly any is a success by luck."""
    rng = np.random.default_rng(0)
    lucky = [judged(Sites(lambda name, x: rng.standard_normal()), 0.0, 1.0, 2.0).success for _ in range(300)]
    assert np.mean(lucky) < 0.1  # of two x the better one: at most 2 * 2.5%, and three standard errors


def test_new_answers_decide_not_the_lucky_old_one():
    """The best x had a lucky loss; asked anew, the last x is lower."""
    rng = np.random.default_rng(1)
    sites = Sites(lambda name, x: abs(x - 2.0) + 0.1 * rng.standard_normal())
    lucky = EvaluatedX(np.array([1.0]), 3, sites.names, np.full(3, -5.0))
    start = EvaluatedX.of(np.zeros(1), 0, sites(np.zeros(1)))
    last = EvaluatedX.of(np.full(1, 2.0), 9, sites(np.full(1, 2.0)))
    assert judge(sites, start, lucky, last, FullEvaluation({})).which == "last"


def test_a_diverged_last_x_does_not_win():
    sites = Sites(lambda name, x: quiet(name, x) if abs(x) < 10.0 else np.inf)
    found = judged(sites, 0.0, 2.0, 1e9)
    assert (found.which, found.success) == ("best", True)
    alone = judged(sites, 0.0, None, 1e9)  # where the best x may not be kept
    assert (alone.which, alone.success) == ("last", False)


def test_half_of_the_sites_make_no_success():
    sites = Sites(lambda name, x: np.nan if name != "a" and x else quiet(name, x))
    found = judged(sites, 0.0, 1.0, 1.0)
    assert (found.which, found.success) == ("start", False)


def test_where_nobody_tells_losses_nothing_is_asked():
    asked: list[Vector] = []
    private = FullEvaluation({"train_loss": np.nan})
    start, last = (EvaluatedX.of(np.zeros(1), round_, private) for round_ in (0, 9))

    def evaluate(x: Vector) -> FullEvaluation:
        asked.append(x)
        return private

    found = judge(evaluate, start, None, last, private)
    assert (found.which, found.success, asked) == ("last", None, [])


def test_sites_that_are_gone_leave_the_evaluated_x():
    sites = Sites(quiet)
    start, best, last = (
        EvaluatedX.of(np.full(1, x), r, sites(np.full(1, x))) for x, r in ((0.0, 0), (1.5, 3), (2.0, 9))
    )
    gone = Sites(lambda name, x: np.nan)
    found = judge(gone, start, best, last, FullEvaluation({}))
    assert (found.which, found.success) == ("best", False)
    assert judge(gone, start, start, last, FullEvaluation({})).which == "last"
