"""What a slot measures beside its steps: curvature along them, and x against the anchor."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.common.samples import BlackBox, Exact, model, samples
from tests.helpers import spec
from zofedht.client.plan import Plan
from zofedht.client.steps.local_steps import SlotResult, local_steps
from zofedht.common.directions.law import DirectionLaw
from zofedht.common.errors import ObjectiveError
from zofedht.common.models.quadratic import QuadraticObjective
from zofedht.common.objective.base import Objective
from zofedht.common.random.streams import Address
from zofedht.common.typing import Indices, Matrix, Vector

STEP = {"step_size": 0.05, "local_steps": 25, "batch_size": 8, "measured": 10, "slope": "forward"}


def measured(objective: Objective, anchor: Any = None, **changes: Any) -> SlotResult:
    wanted = spec(**(STEP | changes))
    plan = Plan(wanted, DirectionLaw(objective.dim, probe=wanted.probe), Address(1, 2, 3))
    x = np.full(objective.dim, 0.5)
    return local_steps(objective, x, plan, x - 0.25 if anchor is None else anchor)


@pytest.mark.parametrize("slopes_per_step", [1, 3])
@pytest.mark.parametrize("black_box", [False, True])
def test_the_curvature_of_a_parabola_is_exact(slopes_per_step: int, black_box: bool) -> None:
    """In one parameter v'Hv is h v^2 with |v|^2 = 1 for signs, whatever the length of the step."""
    objective: Objective = QuadraticObjective(samples().features[:, :1], np.array([7.0]))
    objective = BlackBox(objective) if black_box else objective
    found = measured(objective, slopes_per_step=slopes_per_step, probe="rademacher", radius=1e-6).falls
    assert found.bent / found.lengths == pytest.approx(7.0 * slopes_per_step, rel=1e-4)


@pytest.mark.parametrize("name", ["logistic", "svm-squared-hinge", "mlp"])
@pytest.mark.parametrize("kernel", ["numpy", "auto"])
@pytest.mark.parametrize("batch_size", [0, 8])
@pytest.mark.parametrize("slopes_per_step", [1, 3])
def test_every_loop_measures_the_same(name: str, kernel: str, batch_size: int, slopes_per_step: int) -> None:
    objective = model(name, "dense", l2=0.1)
    changes = {"batch_size": batch_size, "slopes_per_step": slopes_per_step}
    one, other = measured(objective, kernel=kernel, **changes), measured(Exact(objective), **changes)
    for what in ("squares", "bent", "lengths", "gap"):
        assert getattr(one.falls, what) == pytest.approx(getattr(other.falls, what), rel=1e-6), what
    assert one.evaluations == other.evaluations


def test_the_gap_is_that_of_the_first_batch() -> None:
    objective = QuadraticObjective(samples().features)
    plan = Plan(spec(**STEP), DirectionLaw(objective.dim), Address(1, 2, 3))
    batch, x = plan.batches(len(objective))[0], np.full(objective.dim, 0.5)
    anchor = np.linspace(-1.0, 1.0, objective.dim)
    expected = objective.value(x, batch) - objective.value(anchor, batch)
    assert measured(objective, anchor).falls.gap == pytest.approx(expected)
    assert measured(objective, x).falls.gap == 0.0


def test_measuring_changes_no_step() -> None:
    objective = model("logistic", "dense")
    np.testing.assert_array_equal(measured(objective).move, measured(objective, measured=0).move)


@pytest.mark.parametrize("step_size", [0.0, 0.05])
def test_what_is_measured_is_charged(step_size: float) -> None:
    box = BlackBox(QuadraticObjective(samples().features))
    found = measured(box, step_size=step_size)
    assert found.evaluations == 8 * len(box.points)
    assert found.evaluations - measured(box, step_size=step_size, measured=0).evaluations == 8 * (7 if step_size else 2)


def test_no_step_is_looked_at_below_the_radius() -> None:
    found = measured(QuadraticObjective(samples().features), radius=0.5, step_size=1e-9).falls
    assert found.lengths == pytest.approx(3 * 0.5**2)


def test_code_that_ends_the_program_while_a_step_is_measured_costs_the_slot() -> None:
    class Ends(BlackBox):
        def values(self, ws: Matrix, batch: Indices | slice) -> Vector:
            raise SystemExit(3)  # only measured steps ask for many points at once

    with pytest.raises(ObjectiveError, match="SystemExit") as caught:
        measured(Ends(QuadraticObjective(samples().features)))
    assert (caught.value.cause, caught.value.step) == ("raised", 0)
