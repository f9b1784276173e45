"""Integers and choices in CMA-ES."""

from __future__ import annotations

from dataclasses import replace
from statistics import NormalDist

import numpy as np
import pytest

from zofedht.common.space.kinds import Choice
from zofedht.common.space.numbers import Integer, Real
from zofedht.common.space.space import Space
from zofedht.common.typing import Vector
from zofedht.server.cma.cells import Cells, cells_of
from zofedht.server.cma.evolution import Distribution, fresh
from zofedht.server.cma.search import Problem, ask, begin, tell

SPACE = Space.of(
    {"valve": Real(0, 1), "teeth": Integer(8, 40), "cells": Integer(1, 900, log=True), "mode": Choice("a", "b", "c")}
)
SCALE = SPACE.box[:, 1] - SPACE.box[:, 0]
CELLS = Cells(SPACE.text, SCALE)
LAMBDA = 8
ALPHA = 1.0 / (SPACE.dim * LAMBDA)


def narrow(settings: dict[str, object], sigma: float = 1e-6) -> Distribution:
    return fresh(SPACE.coordinates(settings) / SCALE, sigma)


def values(distribution: Distribution, count: int = 20_000) -> list[dict[str, object]]:
    normal = np.random.default_rng(0).standard_normal((count, SPACE.dim))
    points = distribution.mean + normal * distribution.spread
    return [SPACE.settings(point * SCALE) for point in points]  # type: ignore[misc]


@pytest.mark.parametrize("teeth", [8, 9, 23, 40])
@pytest.mark.parametrize("cells", [1, 2, 30, 900])
def test_neighbours_keep_their_probability(teeth: int, cells: int) -> None:
    """However narrow the search: alpha for one neighbour, alpha/2 for each of two, within five standard errors."""
    start = {"valve": 0.5, "teeth": teeth, "cells": cells, "mode": "a"}
    found = values(CELLS.kept_open(narrow(start), LAMBDA))
    error = 5.0 * (ALPHA / len(found)) ** 0.5
    for name, here, ends in (("teeth", teeth, (8, 40)), ("cells", cells, (1, 900))):
        left = np.mean([one[name] != here for one in found])
        assert left == pytest.approx(ALPHA, abs=error), name
        if here not in ends:
            assert np.mean([one[name] == here + 1 for one in found]) == pytest.approx(ALPHA / 2, abs=error)


def test_each_option_keeps_its_probability() -> None:
    found = values(CELLS.kept_open(narrow({"valve": 0.5, "teeth": 9, "cells": 2, "mode": "b"}), LAMBDA))
    for option in ("a", "c"):
        share = np.mean([one["mode"] == option for one in found])
        assert 0.5 * ALPHA < share <= ALPHA + 5.0 * (ALPHA / len(found)) ** 0.5


def test_a_wide_distribution_is_left_alone() -> None:
    wide = fresh(np.array([0.5, 0.5, 0.5, 0.4, 0.5, 0.6]), 0.5)
    kept = CELLS.kept_open(wide, LAMBDA)
    assert np.array_equal(kept.mean, wide.mean)
    assert np.array_equal(kept.covariance, wide.covariance)


def test_other_parameters_keep_their_spread() -> None:
    before = narrow({"valve": 0.5, "teeth": 20, "cells": 2, "mode": "b"})
    after = CELLS.kept_open(before, LAMBDA)
    assert after.mean[0] == before.mean[0]
    assert after.spread[0] == before.spread[0]
    width = 1.0 / SCALE[1]
    assert after.spread[1] == pytest.approx(0.5 * width / NormalDist().inv_cdf(1.0 - ALPHA / 2), rel=1e-6)


def test_correlations_survive_a_wider_deviation() -> None:
    before = narrow({"valve": 0.5, "teeth": 20, "cells": 2, "mode": "b"})
    covariance = before.covariance.copy()
    covariance[0, 1] = covariance[1, 0] = 0.5
    after = CELLS.kept_open(replace(before, covariance=covariance), LAMBDA)
    spread = np.sqrt(np.diagonal(after.covariance))
    assert after.covariance[0, 1] / (spread[0] * spread[1]) == pytest.approx(0.5)


def search(space: Space, target: dict[str, object], generations: int = 200) -> tuple[list[Vector], dict[str, object]]:
    scale = space.box[:, 1] - space.box[:, 0]
    goal = space.coordinates(target) / scale
    lower, upper = (space.box / scale[:, None]).T
    start = space.coordinates(space.middle) / scale
    problem = Problem(start, lower, upper, 1, cells=cells_of(space, scale))
    state, asked = begin(problem), []
    for _ in range(generations):
        generation = ask(problem, state)
        asked += list(generation.points)
        table = np.sum((generation.points - goal) ** 2, axis=1)[None]
        state = tell(problem, state, [table] * (1 + generation.twice))
    best = min(asked, key=lambda z: float(np.sum((z - goal) ** 2)))
    return asked, space.settings(best * scale)  # type: ignore[return-value]


def test_all_that_is_asked_is_whole_and_within_bounds() -> None:
    asked, _ = search(SPACE, {"valve": 0.9, "teeth": 40, "cells": 1, "mode": "c"})
    points = np.array(asked) * SCALE
    np.testing.assert_allclose(SPACE.snapped(points), points, rtol=0.0, atol=1e-12)
    assert np.all(points >= SPACE.box[:, 0] - 1e-12)
    assert np.all(points <= SPACE.box[:, 1] + 1e-12)


@pytest.mark.parametrize("teeth", [8, 31, 40])
@pytest.mark.parametrize("mode", ["b", "c"])
def test_integers_and_choices_are_found(teeth: int, mode: str) -> None:
    target = {"valve": 0.3, "teeth": teeth, "cells": 700, "mode": mode}
    _, found = search(SPACE, target)
    assert found.pop("valve") == pytest.approx(target.pop("valve"), abs=1e-3)
    assert found == target


def test_a_space_of_reals_has_no_cells() -> None:
    assert cells_of(Space.of({"valve": Real(0, 1)}), np.ones(1)) is None
    assert cells_of(None, np.ones(1)) is None
