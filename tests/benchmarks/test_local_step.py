"""The benchmark of the local step compares like with like, and prints and writes what it says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.local_step import CASES, main
from benchmarks.steps.baseline import LOSSES, slope
from benchmarks.steps.rows import mnist_like, rcv1_like
from tests.common.samples import probe
from zofedht.common.models.table import build_model


@pytest.mark.parametrize("case", [name for name in CASES if name != "black-box"])
def test_slopes_are_those_of_the_baseline(case: str) -> None:
    """At 1e-9, as the differences of the baseline allow: its losses have 1e-16 of rounding, over 2e-4."""
    kind = CASES[case]
    data: Any = (mnist_like if kind.rows == "mnist" else rcv1_like)(rows=40)
    objective = build_model(kind.model, data)
    rng = np.random.default_rng(3)
    w, v = rng.standard_normal(objective.dim) / 30, rng.standard_normal(objective.dim)
    batch = rng.integers(0, 40, kind.batch_size) if kind.batch_size else slice(None)
    ours = probe(objective, w, v, 1e-4, batch, "central").slope
    plain = slope(LOSSES[kind.model], w, v, 1e-4, data.features[batch], data.target[batch])
    assert ours == pytest.approx(plain, rel=1e-9, abs=1e-12)


def test_it_prints_a_table_and_writes_the_numbers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "local.json"
    assert main(["--cases", "svm-hinge,black-box", "--repeats", "1", "--json", str(out)]) == 0
    found = json.loads(out.read_text())
    assert "svm-hinge/numpy/gaussian" in found
    assert "svm-hinge/numpy/gaussian" in capsys.readouterr().out
    for numbers in found.values():
        assert set(numbers) == {"baseline_us", "ours_us", "ratio", "limit_us"}
        assert all(value > 0.0 for value in numbers.values())
