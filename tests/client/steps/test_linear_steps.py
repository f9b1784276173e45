"""Linear models: steps on projected scores equal the plain steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.common.samples import Exact, model, orthonormal
from tests.helpers import spec
from zofedht.client.plan import Plan
from zofedht.client.steps import local_steps as module
from zofedht.client.steps.linear_steps import pays_off
from zofedht.client.steps.local_steps import SlotResult, local_steps
from zofedht.common.directions import law as directions
from zofedht.common.directions.law import DirectionLaw
from zofedht.common.models.linear import LinearObjective
from zofedht.common.random.streams import Address

_N = 7
_LAW = DirectionLaw(_N, orthonormal(_N, 2), 0.4, _N / 2)


def _plan(**changes: Any) -> Plan:
    options: dict[str, Any] = {"step_size": 0.3, "local_steps": 30, "batch_size": 8, "kernel": "numpy"}
    return Plan(spec(**(options | changes)), _LAW, Address(1, 2, 3))


def _linear(name: str = "logistic", kind: str = "dense", l2: float = 0.0, rows: int = 40) -> LinearObjective:
    objective = model(name, kind, l2=l2, rows=rows)
    assert isinstance(objective, LinearObjective)
    return objective


def _both(objective: LinearObjective, plan: Plan) -> tuple[SlotResult, SlotResult]:
    x = np.random.default_rng(2).standard_normal(_N)
    return local_steps(objective, x, plan), local_steps(Exact(objective), x, plan)


def _assert_equal(fused: SlotResult, plain: SlotResult) -> None:
    for one, other in ((fused.slopes, plain.slopes), (fused.move, plain.move)):
        assert np.linalg.norm(one - other) <= 1e-9 * np.linalg.norm(other)
    np.testing.assert_allclose(fused.slopes, plain.slopes, rtol=1e-9, atol=1e-11)
    assert fused.loss == pytest.approx(plain.loss, rel=1e-9)
    assert fused.evaluations == plain.evaluations


@pytest.mark.parametrize("name", ["logistic", "svm-hinge", "svm-squared-hinge"])
@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("l2", [0.0, 0.3])
@pytest.mark.parametrize("slope", ["central", "forward"])
@pytest.mark.parametrize("slopes_per_step", [1, 3])
@pytest.mark.parametrize("batch_size", [0, 1, 8])
def test_projected_steps_equal_plain_steps(
    name: str, kind: str, l2: float, slope: str, slopes_per_step: int, batch_size: int
) -> None:
    # One row for each sample of the batch at most 16 times: else the plain path would be compared with itself.
    objective = _linear(name, kind, l2, rows=16 if batch_size == 1 else 40)
    assert pays_off(objective, batch_size)
    _assert_equal(*_both(objective, _plan(slope=slope, slopes_per_step=slopes_per_step, batch_size=batch_size)))


@pytest.mark.parametrize("l2", [0.0, 0.3])
@pytest.mark.parametrize("block", [1, 4, 29])
def test_projected_steps_equal_plain_steps_over_several_blocks(
    monkeypatch: pytest.MonkeyPatch, l2: float, block: int
) -> None:
    monkeypatch.setattr(directions, "BLOCK_BYTES", 8 * _N * block)
    _assert_equal(*_both(_linear(l2=l2), _plan()))


@pytest.mark.parametrize("radius", [1e-8, 1.0])
def test_projected_steps_equal_plain_steps_at_any_radius(radius: float) -> None:
    _assert_equal(*_both(_linear(l2=0.3), _plan(radius=radius)))


@pytest.mark.parametrize(("batch_size", "fused"), [(0, True), (2, False), (3, True)])
def test_the_projected_path_is_taken_where_it_pays_off(
    monkeypatch: pytest.MonkeyPatch, batch_size: int, fused: bool
) -> None:
    monkeypatch.setattr(module, "runs_compiled", lambda kernel: False)
    objective, calls = _linear(rows=40), []
    original = module.linear_steps
    monkeypatch.setattr(module, "linear_steps", lambda *a, **k: calls.append(1) or original(*a, **k))
    assert pays_off(objective, batch_size) == fused
    local_steps(objective, np.zeros(_N), _plan(batch_size=batch_size))
    assert bool(calls) == fused


@pytest.mark.parametrize("l2", [0.0, 0.3])
def test_projected_steps_leave_x_and_the_data_alone(l2: float) -> None:
    objective, x = _linear(l2=l2), np.ones(_N)
    features, target = np.array(objective.features), objective.target.copy()
    local_steps(objective, x, _plan())
    np.testing.assert_array_equal(x, np.ones(_N))
    np.testing.assert_array_equal(objective.features, features)
    np.testing.assert_array_equal(objective.target, target)
