"""One site before a run."""

from __future__ import annotations

import numpy as np
import pytest

from zofedht.common.objective.base import Objective
from zofedht.common.objective.points import Answer
from zofedht.common.objective.units import Units
from zofedht.common.typing import Indices, Vector
from zofedht.server.plan.measure import AskedSite, SiteReading, measured


class Rows(Objective):
    """A quadratic around the mean of its rows; each batch pulls elsewhere."""

    dim = 2

    def __init__(self, samples: int = 40, spread: float = 1.0, noise: float = 0.0) -> None:
        rng = np.random.default_rng(0)
        self.rows = 3.0 + spread * rng.standard_normal((samples, 2))
        self.noise, self.rng, self.calls = noise, rng, list[Vector]()

    def __len__(self) -> int:
        return len(self.rows)

    def value(self, x: Vector, batch: Indices | slice) -> float:
        self.calls.append(x.copy())
        return float(np.mean(np.square(x - self.rows[batch]))) + self.noise * float(self.rng.standard_normal())


def looked_at(objective: Objective, most: int = 200, radius: float = 0.01, batch_size: int = 8) -> SiteReading:
    at = {"radius": radius, "batch_size": batch_size, "seed": 1, "most": most}
    return measured("a", objective, len(objective), np.zeros(2), **at)  # type: ignore[arg-type]


def test_all_evaluations_are_counted_and_near_the_start():
    rows = Rows()
    found = looked_at(rows)
    assert found.evaluations == len(rows.calls) <= 200
    assert max(float(np.max(np.abs(x))) for x in rows.calls) < 1.0  # 10 radii along normal directions, and room
    assert (found.noise, found.error) == (0.0, "")
    assert 0.0 < found.seconds < 0.1
    assert {finding.level for finding in found.findings} == {"ok"}


@pytest.mark.parametrize("most", [3, 20, 30])
def test_no_more_is_asked_than_was_allowed(most: int):
    rows = Rows(noise=1.0)
    found = looked_at(rows, most=most)
    assert found.evaluations == len(rows.calls) == most
    assert "all that --calls allows" in found.findings[-1].text
    assert found.error == ""


def test_noise_is_measured():
    assert looked_at(Rows(noise=0.1)).noise == pytest.approx(0.1, rel=0.5)


def test_slopes_are_those_of_the_shard():
    """Batches differ, the directional derivative of the whole shard does not."""
    wide, narrow = looked_at(Rows(spread=2.0)), looked_at(Rows(spread=2.0), batch_size=2)
    assert wide.slopes is not None
    assert narrow.slopes is not None
    np.testing.assert_allclose(wide.slopes, narrow.slopes, rtol=1e-6)
    assert narrow.batch_spread > wide.batch_spread > 0.0


def test_a_site_that_fails_is_named_with_its_cause():
    class Broken(Rows):
        def value(self, x: Vector, batch: Indices | slice) -> float:
            raise OSError("the valve is shut")

    found = looked_at(Broken())
    assert found.error.startswith("raised: the objective raised OSError: the valve is shut")
    assert found.slopes is None


def test_an_asked_site_is_asked_within_its_bounds():
    asked: list[Vector] = []

    def ask(x: Vector) -> Answer:
        asked.append(x)
        return Answer(float(np.sum(np.square(x - 1.0))), 2.0)

    units = Units(np.array([0.5, 10.0, 1.0]), np.array([0.0, -np.inf, 2.0]), np.array([1.0, np.inf, 3.0]))
    site = AskedSite(3, units, ask)
    found = measured("a", site, 50, np.array([0.0, 0.0, 2.0]), radius=0.1, batch_size=0, seed=1, most=200)
    assert found.evaluations == len(asked)
    assert all(0.0 <= x[0] <= 1.0 and 2.0 <= x[2] <= 3.0 for x in asked)
    assert min(x[1] for x in asked) < 0.0
    assert found.seconds == pytest.approx(2.0 / 50)  # the site's own seconds, of one sample
    assert np.isnan(found.batch_spread)


def test_a_lost_answer_is_the_sites_error():
    site = AskedSite(1, None, lambda x: Answer.lost("no-answer", "the connection was lost"))
    found = measured("a", site, 1, np.zeros(1), radius=0.1, batch_size=0, seed=1, most=200)
    assert found.error == "no-answer: the connection was lost"
