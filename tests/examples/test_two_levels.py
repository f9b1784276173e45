"""Penalties by the loss of what they train: the inner problem is solved once a slot."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.examples.as_written import EXAMPLES, run_as_written
from zofedht.common.config.run_config import RunConfig
from zofedht.server.conduct import Result
from zofedht.server.inprocess import run_in_process


@pytest.fixture
def penalties(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(EXAMPLES / "two_levels"))
    sys.modules.pop("penalties", None)
    import penalties

    return penalties


def ended(penalties: Any, *, prepared: bool, **keys: Any) -> tuple[Result, int]:
    with (EXAMPLES / "two_levels" / "run.toml").open("rb") as file:
        config = RunConfig.from_mapping(tomllib.load(file) | keys)
    labs = [penalties.Penalties(1 + index, prepared=prepared) for index in range(4)]
    return run_in_process(config, labs), sum(lab.inner_steps for lab in labs)


def test_one_inner_step_from_the_prepared_solution_is_enough(penalties: Any) -> None:
    (near, few), (whole, many) = (ended(penalties, prepared=prepared, rounds=10) for prepared in (True, False))
    start = np.mean([penalties.Penalties(1 + index).evaluate(np.full(4, -3.0))["loss"] for index in range(4)])
    assert near.final["train_loss"] == pytest.approx(whole.final["train_loss"], rel=0.02)
    assert near.final["train_loss"] < 0.6 * start
    assert few < many / 3


def test_the_example_runs_as_written(tmp_path: Path) -> None:
    said = run_as_written("two_levels", tmp_path)
    found = re.search(r"training loss +([\d.]+) -> ([\d.]+)", said)
    assert found, said
    assert [float(number) for number in found.groups()] == pytest.approx([1.778, 0.650], abs=0.001)
