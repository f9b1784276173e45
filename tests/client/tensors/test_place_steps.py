"""Local steps in place: the slopes of ordinary steps along the same directions, and x_r put back bit for bit."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from tests.place import Rows
from zofedht import Objective, ObjectiveError, TensorObjective
from zofedht.client.plan import Plan
from zofedht.client.steps.local_steps import local_steps
from zofedht.client.tensors.held import Held
from zofedht.client.tensors.place_steps import place_steps
from zofedht.common.config.step_spec import StepSpec
from zofedht.common.directions.law import law_of
from zofedht.common.random.streams import Address
from zofedht.common.tensors.directions import Direction
from zofedht.common.tensors.trail import TrailLaw
from zofedht.common.typing import Indices, Matrix, Vector

LAW = TrailLaw(11, "gaussian", 12)


def spec(**changes: Any) -> StepSpec:
    keys = {"step_size": 0.02, "radius": 1e-3, "local_steps": 6, "batch_size": 8, "slope": "central", "in_place": True}
    keys |= {"slopes_per_step": 2, "probe": "gaussian", "kernel": "numpy", "uplink": "slopes"}
    return StepSpec(**(keys | changes))


def along(law: TrailLaw, objective: TensorObjective, round_: int) -> list[Direction]:
    """Return the directions that all slots of a round share."""
    return law.directions(round_, 0, objective.blocks, np.empty(0))


@dataclass(frozen=True)
class AlongTensors(Plan):
    """A plan whose directions are those of tensors, as whole vectors."""

    sizes: tuple[int, ...] = ()

    def steps(self, dimension: int) -> Iterator[Matrix]:
        q = self.spec.slopes_per_step
        for step in range(self.spec.local_steps):
            yield np.stack([self._whole(step * q + number) for number in range(q)])

    def _whole(self, number: int) -> Vector:
        v = Direction(self.address.directions, number, self.spec.probe)
        return np.concatenate([part for b, n in enumerate(self.sizes) for _, part in v.pieces(b, n)]).astype(float)


class AsVector(Objective):
    """The same loss as a function of one vector."""

    def __init__(self, rows: Rows) -> None:
        self.rows, self.dim = rows, rows.dim

    def __len__(self) -> int:
        return len(self.rows)

    def value(self, x: Vector, batch: Indices | slice) -> float:
        size = self.rows.arrays["weight"].size
        weight, bias = x[:size].reshape(self.rows.arrays["weight"].shape), x[size:]
        return float(np.mean((self.rows.features[batch] @ weight + bias - self.rows.target[batch]) ** 2))


@pytest.mark.parametrize("probe", ["gaussian", "rademacher"])
@pytest.mark.parametrize("slope", ["central", "forward"])
@pytest.mark.parametrize(("together", "scale"), [(1, "none"), (2, "none"), (3, "spread")])
def test_slopes_are_those_of_whole_vectors(probe: str, slope: str, together: int, scale: str):
    rows, address = Rows(0, "float64"), Address(11, 4, 2, direction_slot=0)
    how = spec(probe=probe, slope=slope, slopes_per_step=together, slope_scale=scale)
    sizes = tuple(block.size for block in rows.blocks)
    vector = local_steps(AsVector(rows), rows.vector(), AlongTensors(how, law_of(how, rows.dim), address, sizes))
    found = place_steps(rows, Plan(how, law_of(how, 0), address), along(TrailLaw(11, probe, how.slopes), rows, 4))
    # F is about 10: a slope carries its rounding over the radius, and w drifts by units in the last place.
    np.testing.assert_allclose(found.slopes, vector.slopes, rtol=1e-7, atol=1e-9)
    assert found.loss == pytest.approx(vector.loss, rel=1e-12)
    assert found.start_loss == pytest.approx(vector.start_loss, rel=1e-12)
    assert found.evaluations == vector.evaluations


def test_evaluations_are_as_many_as_are_counted():
    rows = Rows(0)
    how = spec(slope="forward", batch_size=0)
    found = place_steps(
        rows, Plan(how, law_of(how, 0), Address(1, 0, 0)), along(TrailLaw(1, "gaussian", how.slopes), rows, 0)
    )
    assert rows.calls * len(rows) == found.evaluations


@pytest.mark.parametrize("where", ["memory", "disk"])
def test_a_slot_ends_with_the_same_bits_as_it_began(where: str):
    rows = Rows(0)
    held, before = Held(rows, where), rows.state_digest()
    for trail in (np.empty(0), np.linspace(-0.1, 0.1, 12)):
        held.go_to(trail, LAW)
        before = rows.state_digest()
        with held.changed():
            place_steps(rows, Plan(spec(), law_of(spec(), 0), Address(11, 1, 0)), along(LAW, rows, 1))
            assert rows.state_digest() != before
        assert rows.state_digest() == before


class Fails(Rows):
    """Raises in the evaluations of these numbers."""

    def __init__(self, *numbers: int) -> None:
        super().__init__(0, "float64")
        self.numbers = numbers

    def value(self, batch: Indices | slice) -> float:
        if self.calls in self.numbers:
            self.calls += 1
            raise RuntimeError("no such day")
        return super().value(batch)


def test_a_skipped_step_leaves_w_where_it_was():
    how = spec(on_error="skip-step", local_steps=3, slopes_per_step=1, batch_size=0)
    law = TrailLaw(11, "gaussian", 3)
    whole, skipped = Rows(0, "float64"), Fails(3)  # the second end of the second step
    place_steps(whole, Plan(how, law_of(how, 0), Address(11, 0, 0)), along(law, whole, 0))
    found = place_steps(skipped, Plan(how, law_of(how, 0), Address(11, 0, 0)), along(law, whole, 0))
    assert found.skipped == 1
    assert found.slopes[1] == 0.0
    assert found.error is not None
    assert found.error.step == 1
    # Without the second step, the third one is measured at w after the first.
    plan = Plan(how, law_of(how, 0), Address(11, 0, 0))
    first = place_steps(Rows(0, "float64"), plan, along(law, whole, 0)).slopes[0]
    here = Rows(0, "float64")
    v = along(law, whole, 0)
    here.add_all([v[0], v[2]], [-how.step_size * first, how.radius])
    high = here.value(slice(None))
    here.add(v[2], -2 * how.radius)
    assert found.slopes[2] == pytest.approx((high - here.value(slice(None))) / (2 * how.radius), rel=1e-7)


def test_a_failed_evaluation_names_its_step_and_x_is_put_back():
    rows = Fails(5)
    held, before = Held(rows), rows.state_digest()
    held.go_to(np.empty(0), LAW)
    with pytest.raises(ObjectiveError, match="no such day") as raised, held.changed():
        place_steps(rows, Plan(spec(), law_of(spec(), 0), Address(11, 0, 0)), along(LAW, rows, 0))
    assert raised.value.step == 1
    assert rows.state_digest() == before


class Large(TensorObjective):
    """Four tensors of a million numbers, of which an evaluation looks at the sums."""

    def __init__(self) -> None:
        super().__init__({f"block{number}": np.zeros((1000, 1000), np.float32) for number in range(4)})

    def value(self, batch: Indices | slice) -> float:
        return float(sum(array.sum(dtype=np.float64) ** 2 for array in self.arrays.values()))


@pytest.mark.parametrize("probe", ["gaussian", "rademacher"])
def test_a_slot_needs_memory_for_its_largest_tensor(probe: str):
    large = Large()
    held, how, law = Held(large, "disk"), spec(probe=probe, batch_size=0, local_steps=2), TrailLaw(11, probe, 4)
    plan, directions = Plan(how, law_of(how, 0), Address(11, 1, 0)), along(law, large, 1)
    place_steps(Large(), plan, directions)  # loads the compiled loops, which take memory once
    tracemalloc.start()
    try:
        held.go_to(np.full(4, 1e-3), law)
        with held.changed():
            place_steps(large, plan, directions)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    largest, piece = 4 * 10**6, 2**20
    assert peak < largest + 4 * piece  # the parameters, which were there before, are four times the largest tensor
