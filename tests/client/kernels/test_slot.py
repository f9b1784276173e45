"""Compiled loops take the steps that NumPy's take."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from tests.common.samples import Exact, model, orthonormal, samples
from tests.helpers import spec
from zofedht.client.plan import Plan
from zofedht.client.steps.local_steps import SlotResult, local_steps
from zofedht.common.directions.law import DirectionLaw
from zofedht.common.errors import ObjectiveError
from zofedht.common.models.linear import LinearObjective
from zofedht.common.models.losses import ScoreLoss
from zofedht.common.models.table import ModelOptions, build_model
from zofedht.common.random.streams import Address

pytest.importorskip("numba", reason="the extra `fast` is not installed")
from zofedht.client.kernels.column_groups import ColumnGroups, rows_of

_MODELS = ["logistic", "svm-hinge", "svm-squared-hinge", "mlp"]


def _plan(dimension: int, **changes: Any) -> Plan:
    law = DirectionLaw(dimension, orthonormal(dimension, 2), 0.4, dimension / 2)
    law = changes.pop("law", law)
    options = {"step_size": 0.3, "local_steps": 30, "batch_size": 8, "kernel": "compiled"}
    return Plan(spec(**(options | changes)), law, Address(1, 2, 3))


def _start(dimension: int) -> Any:
    return np.random.default_rng(2).standard_normal(dimension)


def _assert_close(one: SlotResult, other: SlotResult) -> None:
    # Two orders of sums of 30 steps: some 1e-13 of the numbers; slopes may be small themselves.
    assert np.linalg.norm(one.move - other.move) <= 1e-11 * np.linalg.norm(other.move)
    np.testing.assert_allclose(one.slopes, other.slopes, rtol=1e-9, atol=1e-11)
    assert one.loss == pytest.approx(other.loss, rel=1e-11)
    assert one.evaluations == other.evaluations


@pytest.mark.parametrize("name", _MODELS)
@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("l2", [0.0, 0.3])
@pytest.mark.parametrize("batch_size", [0, 8])
@pytest.mark.parametrize(("slope", "slopes_per_step"), [("central", 1), ("forward", 1), ("central", 2), ("forward", 3)])
def test_compiled_steps_equal_plain_steps(
    name: str, kind: str, bias: bool, l2: float, batch_size: int, slope: str, slopes_per_step: int
) -> None:
    objective = model(name, kind, bias=bias, l2=l2)
    plan = _plan(
        objective.dim,
        batch_size=batch_size,
        slope=slope,
        slopes_per_step=slopes_per_step,
        step_size=0.3 / slopes_per_step,
    )
    x = _start(objective.dim)
    _assert_close(local_steps(objective, x, plan), local_steps(Exact(objective), x, plan))


@pytest.mark.parametrize("name", _MODELS)
@pytest.mark.parametrize("every", [1, 5])
def test_rows_in_stretches_and_rows_of_scattered_entries_take_the_same_steps(name: str, every: int) -> None:
    data = samples(columns=41)
    features = np.zeros_like(data.features)
    features[:, ::every] = data.features[:, ::every]  # type: ignore[index]
    objective = build_model(name, dataclasses.replace(data, features=features), ModelOptions(hidden_units=4))
    if name != "mlp":
        assert isinstance(rows_of(objective), ColumnGroups) == (every == 1)  # type: ignore[arg-type]
    plan, x = _plan(objective.dim), _start(objective.dim)
    _assert_close(local_steps(objective, x, plan), local_steps(Exact(objective), x, plan))


@pytest.mark.parametrize(
    ("name", "radius"),
    # The network's difference is one of two scores, which cancel at a smaller radius, in both paths alike.
    [(name, radius) for name in _MODELS for radius in (1e-8, 1e-2, 3.0) if (name, radius) != ("mlp", 1e-8)],
)
def test_compiled_steps_equal_plain_steps_at_any_radius(name: str, radius: float) -> None:
    objective = model(name, l2=0.3)
    plan, x = _plan(objective.dim, radius=radius), _start(objective.dim)
    _assert_close(local_steps(objective, x, plan), local_steps(Exact(objective), x, plan))


@pytest.mark.parametrize("scale", [30.0, 1000.0])
def test_large_scores_do_not_overflow(scale: float) -> None:
    objective = model("logistic")
    plan, x = _plan(objective.dim, step_size=1e-6), scale * _start(objective.dim)
    _assert_close(local_steps(objective, x, plan), local_steps(Exact(objective), x, plan))


@pytest.mark.parametrize("follows", [True, False])
def test_blocks_of_directions_change_nothing(follows: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    from zofedht.client.kernels import steps as compiled_steps

    objective = model("mlp")
    changes = {} if follows else {"law": DirectionLaw(objective.dim)}
    plan, x = _plan(objective.dim, **changes), _start(objective.dim)
    whole = local_steps(objective, x, plan)
    monkeypatch.setattr(compiled_steps, "_BLOCK_BYTES", 8 * objective.dim * 7)
    monkeypatch.setattr(compiled_steps, "_CACHED_BYTES", 8 * objective.dim * 7)
    _assert_close(local_steps(objective, x, plan), whole)


@pytest.mark.parametrize("name", _MODELS)
@pytest.mark.parametrize("batch_size", [0, 1, 8])
def test_a_slope_that_is_not_finite_is_reported_with_its_step(name: str, batch_size: int) -> None:
    objective = model(name, l2=0.3)
    plan = _plan(objective.dim, step_size=1e200, batch_size=batch_size)
    with np.errstate(all="ignore"), pytest.raises(ObjectiveError, match=r"^the slope is") as caught:
        local_steps(objective, _start(objective.dim), plan)
    assert caught.value.cause == "not-finite"
    assert caught.value.step is not None


def test_x_is_left_alone() -> None:
    objective = model("logistic")
    x = np.ones(objective.dim)
    local_steps(objective, x, _plan(objective.dim))
    np.testing.assert_array_equal(x, np.ones(objective.dim))


def test_a_subclass_takes_its_own_path() -> None:
    class Doubled(LinearObjective):
        def difference(self, *where: Any) -> tuple[float, float]:
            change, low = super().difference(*where)
            return 2.0 * change, 2.0 * low

    inner = model("logistic", rows=400)
    assert isinstance(inner, LinearObjective)
    doubled = Doubled(inner, inner.loss)  # type: ignore[arg-type]
    plan = _plan(inner.dim, local_steps=1)
    once, twice = (local_steps(objective, _start(inner.dim), plan) for objective in (inner, doubled))
    np.testing.assert_allclose(twice.slopes, 2.0 * once.slopes, rtol=1e-12)


def test_a_loss_of_somebodys_own_takes_numpys_path() -> None:
    class Absolute(ScoreLoss):
        def value(self, scores: Any, y: Any) -> Any:
            return np.abs(scores - y)

        def derivative(self, scores: Any, y: Any) -> Any:
            return np.sign(scores - y)

        def difference(self, scores: Any, delta: Any, y: Any) -> Any:
            return self.value(scores + delta, y) - self.value(scores, y)

    inner = model("logistic")
    assert isinstance(inner, LinearObjective)
    objective = LinearObjective(inner, Absolute())  # type: ignore[arg-type]
    plan, x = _plan(objective.dim, radius=1e-2), _start(objective.dim)
    _assert_close(local_steps(objective, x, plan), local_steps(Exact(objective), x, plan))
