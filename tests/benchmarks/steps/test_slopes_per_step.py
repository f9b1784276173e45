"""The benchmark of several slopes a step compares equal evaluations."""

from __future__ import annotations

from benchmarks.steps.slopes_per_step import measure
from tests.common.samples import model


def test_it_measures_both_kinds() -> None:
    central, forward, ratio = measure(model("logistic"), 8, "rademacher", 3)
    assert min(central, forward, ratio) > 0.0
