"""The pure search: what the parts of ``auto`` may spend, and what the descent does where differences mislead."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from zofedht.common.typing import Matrix, Vector
from zofedht.server.cma.tables import whole
from zofedht.server.minimizers import descent as descent_module
from zofedht.server.minimizers.descent import around, begun, learnt
from zofedht.server.minimizers.search import Generation, Left, Problem, Search, answer, ask, begin_search, tell
from zofedht.server.minimizers.words import why_changed

N = 10
TURNED = np.linalg.qr(np.random.default_rng(1).standard_normal((N, N)))[0]


def narrow(x: Vector) -> float:
    """A turned ellipsoid of condition 1e6: forward differences are wrong by more than the slope near its bottom."""
    return float(np.sum(1e6 ** (np.arange(N) / (N - 1)) * (TURNED @ x) ** 2))


def creased(x: Vector) -> float:
    """Smooth at the start; at its creases no slope leads lower, and a descent creeps."""
    return float(np.max(10.0 ** (np.arange(N) / (N - 1)) * np.abs(TURNED @ x)))


def searched(
    f: Callable[[Vector], float], method: str, budget: float, low: float = -math.inf, high: float = math.inf
) -> Iterator[tuple[Problem, Search, Search, Generation, Matrix]]:
    """Yield each step of a search of one site: the problem, before, after, and what was asked and answered."""
    problem = Problem(np.ones(N), np.full(N, low), np.full(N, high), 1, 3)
    search = begin_search(problem, method, Left(budget))
    while not search.over:
        asked = ask(problem, search)
        if search.answers + asked.answers > budget:
            return
        table = np.array([[f(x) for x in asked.points]])
        left = Left(budget - search.answers - asked.answers)
        before, search = search, tell(problem, search, [table] * asked.repeats, left)
        yield problem, before, search, asked, table


def evaluations_until(f: Callable[[Vector], float], method: str, value: float) -> int:
    return next(after.answers for *_, after, _, table in searched(f, method, 20_000) if np.min(table) < value)


def test_auto_needs_no_more_than_its_better_part_in_a_narrow_valley() -> None:
    descent, evolution = (evaluations_until(narrow, method, 1e-8) for method in ("lbfgs", "cma-es"))
    assert evaluations_until(narrow, "auto", 1e-8) < 1.1 * min(descent, evolution)


def test_forward_differences_alone_would_creep() -> None:
    sizes = [len(asked.points) for *_, asked, _ in searched(narrow, "lbfgs", 3_000)]
    assert set(sizes) == {N + 1, 2 * N + 1}
    forward = [table for *_, asked, table in searched(narrow, "lbfgs", 3_000) if len(asked.points) == N + 1]
    assert min(np.min(table) for table in forward) > 1e-7


def test_a_descent_of_auto_takes_half_of_the_budget_at_most() -> None:
    steps = list(searched(creased, "auto", 2_000))
    descended = sum(asked.answers for _, before, _, asked, _ in steps if before.phase == "lbfgs")
    assert 900 < descended <= 1_000
    assert steps[-1][2].phase == "cma-es"
    reasons = [why_changed(before, after) for _, before, after, *_ in steps]
    assert "L-BFGS-B has taken half of what was left, and is not at its end" in reasons


def test_auto_is_better_than_a_descent_that_creeps() -> None:
    ends = {}
    for method in ("auto", "lbfgs"):
        *_, (problem, _, last, _, _) = searched(creased, method, 3_000)
        ends[method] = creased(answer(problem, last))
    assert ends["auto"] < 0.1 * ends["lbfgs"]


def test_a_descent_that_was_cut_off_goes_on_from_its_best() -> None:
    steps = list(searched(creased, "auto", 1_000))
    cut = next(after for _, before, after, *_ in steps if before.phase == "lbfgs" and after.phase == "cma-es")
    assert cut.descent is not None
    assert cut.descent.best is not None
    np.testing.assert_allclose(cut.evolution.distribution.mean, cut.descent.best.x)


def test_central_slopes_of_a_parabola_are_exact_at_bounds_too() -> None:
    problem = Problem(np.zeros(3), np.array([0.0, -1.0, 0.5]), np.array([2.0, 1.0, 0.5]), 1)
    for start in ([0.0, 1.0, 0.5], [2.0, -1.0, 0.5], [1.0, 0.0, 0.5]):
        descent = begun(np.array(start))
        central = type(descent)(descent.start, descent.point, central=True)
        points = around(problem, central)
        assert np.all((points >= problem.lower) & (points <= problem.upper))
        values = np.sum(np.array([3.0, 5.0, 7.0]) * points**2 + points, axis=1)[None]
        told = learnt(problem, central, values).slopes[0]
        exact = np.array([6.0, 10.0, 0.0]) * start + np.array([1.0, 1.0, 0.0])
        np.testing.assert_allclose(told, exact, atol=1e-8)


@pytest.mark.parametrize("lost", [1, 4])
def test_a_lost_end_leaves_the_other_one(lost: int) -> None:
    """``whole`` fills in what one site lost; with a single site nothing fills it in."""
    problem = Problem(np.zeros(3), np.full(3, -np.inf), np.full(3, np.inf), 1)
    central = type(begun(np.ones(3)))(np.ones(3), np.ones(3), central=True)
    values = np.sum(around(problem, central) ** 2, axis=1)[None]
    values[0, lost] = np.nan
    assert len(whole(values)[1]) == 6
    np.testing.assert_allclose(learnt(problem, central, values).slopes[0], 2.0, atol=1e-4)


def test_a_long_descent_begins_anew_from_its_best(monkeypatch: pytest.MonkeyPatch) -> None:
    """What SciPy does again at each step is bounded."""
    monkeypatch.setattr(descent_module, "_MOST", 8)
    steps = [after.descent for *_, after, _, _ in searched(narrow, "lbfgs", 600)]
    told = [len(descent.values) for descent in steps if descent]
    assert max(told) < 8
    assert steps[-1] is not None
    assert steps[-1].gradients == len(steps) > 40
    best = [descent.best.mean for descent in steps if descent and descent.best]
    assert best == sorted(best, reverse=True)
    assert best[-1] < 0.01 * best[0]
