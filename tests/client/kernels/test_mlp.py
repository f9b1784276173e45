"""Compiled steps of a network on rows with few of many columns are the steps of NumPy's loops."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

pytest.importorskip("numba", reason="the extra `fast` is not installed")
from zofedht.client.kernels import mlp, steps
from zofedht.client.plan import Plan
from zofedht.client.steps.local_steps import local_steps
from zofedht.client.steps.slot_result import SlotResult
from zofedht.common.config.step_spec import StepSpec
from zofedht.common.data.dataset import Dataset
from zofedht.common.directions.law import DirectionLaw
from zofedht.common.models.mlp import MlpObjective
from zofedht.common.random.streams import Address

_COLUMNS = 400  # a batch of 6 rows with 8 entries each meets 48 of them at most


def _objective(hidden: int, bias: bool) -> MlpObjective:
    rng = np.random.default_rng(hidden)
    features = sparse.random_array((20, _COLUMNS), density=0.02, rng=rng, format="csr")
    labels = rng.integers(0, 2, 20)
    return MlpObjective(Dataset(features, labels.astype(float), labels), hidden, bias, l2=0.01)


def _steps(objective: MlpObjective, together: int, kernel: str) -> SlotResult:
    spec = StepSpec(
        local_steps=7, batch_size=6, step_size=0.5, radius=1e-4, slope="central", probe="gaussian", uplink="parameters",
        slopes_per_step=together, kernel=kernel,
    )  # fmt: skip
    x = np.random.default_rng(1).standard_normal(objective.dim)
    return local_steps(objective, x, Plan(spec, DirectionLaw(objective.dim), Address(0, 0, 0)))


@pytest.mark.parametrize("hidden", [1, 5, 8, 50])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("together", [1, 2, 3])
def test_steps_are_those_of_numpy(hidden: int, bias: bool, together: int) -> None:
    objective = _objective(hidden, bias)
    compiled, plain = (_steps(objective, together, kernel) for kernel in ("compiled", "numpy"))
    np.testing.assert_allclose(compiled.move, plain.move, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(compiled.slopes, plain.slopes, rtol=1e-6, atol=1e-9)


def test_w_stays_where_a_slope_is_not_finite() -> None:
    objective = _objective(8, False)
    w, v = np.zeros(objective.dim), np.ones((1, 1, objective.dim))
    v[0, 0, -1] = np.inf
    slopes, losses = np.zeros((2, 1, 1))
    mlp.steps_of_block(objective, w, v, np.zeros((1, 6), np.intp), (1e-4, -1e-4, 1.0, 0.0), slopes, losses)
    assert not np.isfinite(slopes[0, 0])
    assert not np.any(w)
    assert steps.covers(objective)
