"""The comparison with pycma runs, and measures what it says."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from benchmarks.methods import few_parameters
from benchmarks.methods.few_parameters import main, ours, pycma

needs_pycma = pytest.mark.skipif(find_spec("cma") is None, reason="pycma, of the extra `dev`, is not installed")


def test_the_sites_of_a_task_have_the_optimum_that_its_gap_says() -> None:
    task = few_parameters.quadratics(0.5, 0.0, 1)
    mean = [np.mean([site(x) for site in task.sites]) for x in (task.start, np.zeros(10))]
    assert task.gap(task.start) == pytest.approx(1.0)
    assert task.gap(np.zeros(10)) == 0.0
    assert mean[0] - mean[1] == pytest.approx(10.0)


def test_tilted_sites_have_the_mean_of_the_function() -> None:
    function, start = few_parameters.functions(3)["ellipsoid 1e4"]
    task = few_parameters.shifted(function, start, 1)
    assert np.mean([site(start) for site in task.sites]) == pytest.approx(function(start))
    assert np.ptp([site(start) for site in task.sites]) > 0.01


@pytest.mark.parametrize("method", [ours, pytest.param(pycma, marks=needs_pycma)])
def test_evaluations_are_counted_over_all_sites(method: object) -> None:
    task = few_parameters.quadratics(0.0, 0.0, 1)
    spent, before = [], 0
    for now, _, points in method(task, 1000):  # type: ignore[operator]
        assert (now - before) % len(points) == 0
        before = now
        spent.append(now)
    assert spent[-1] >= 1000
    assert spent[0] == (10 * 20 if method is pycma else 10 * 2 * 2)  # two sites, asked twice


@needs_pycma
def test_a_table_is_printed_and_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(few_parameters, "MARKS", (100, 200))
    assert main(["--tables", "bounded", "--seeds", "1", "--json", str(tmp_path / "few.json")]) == 0
    kept = json.loads((tmp_path / "few.json").read_text())["bounded"]
    assert len(kept) == 6
    assert capsys.readouterr().out.count("| sd ") == 6
