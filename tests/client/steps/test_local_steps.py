"""Local steps: w <- w - eta c v, K times, on the samples and directions that the address names."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.common.samples import MODEL_CASES, BlackBox, Exact, model, orthonormal, probe, samples
from tests.helpers import Breaks, offline, spec
from zofedht.client.plan import Plan
from zofedht.client.steps.local_steps import SlotResult, local_steps
from zofedht.common.directions import law as directions
from zofedht.common.directions.law import DirectionLaw, slot_directions
from zofedht.common.errors import ObjectiveError
from zofedht.common.models.quadratic import QuadraticObjective
from zofedht.common.objective.base import Objective
from zofedht.common.random.streams import Address, stream
from zofedht.common.typing import Indices, Vector


def _plan(dimension: int, **changes: Any) -> Plan:
    law = changes.pop("law", DirectionLaw(dimension, orthonormal(dimension, 2), 0.4, dimension / 2))
    address = Address(*(changes.pop(name, own) for name, own in (("seed", 1), ("round", 2), ("slot", 3))))
    return Plan(spec(**({"step_size": 0.05, "local_steps": 12, "batch_size": 8} | changes)), law, address)


def _quadratic() -> Exact:
    return Exact(QuadraticObjective(samples().features))


def _run(objective: Objective, **changes: Any) -> SlotResult:
    return local_steps(objective, np.full(objective.dim, 0.5), _plan(objective.dim, **changes))


def _v(plan: Plan) -> np.ndarray:
    return np.concatenate(list(slot_directions(plan.law, plan.spec.slopes, plan.address)))


@pytest.mark.parametrize("slope", ["central", "forward"])
@pytest.mark.parametrize("batch_size", [0, 8])
def test_steps_are_those_of_algorithm_1(slope: str, batch_size: int) -> None:
    objective, plan = _quadratic(), _plan(7, slope=slope, batch_size=batch_size)
    rng = stream(1, "minibatch", 2, 3)
    w, slopes, losses = np.full(7, 0.5), [], []
    for v in _v(plan):
        batch = rng.integers(0, 40, 8) if batch_size else slice(None)
        c, loss = probe(objective, w, v, plan.spec.radius, batch, slope)
        w = w - plan.spec.step_size * c * v
        slopes.append(c)
        losses.append(loss)
    result = _run(objective, slope=slope, batch_size=batch_size)
    np.testing.assert_array_equal(result.slopes, slopes)
    np.testing.assert_array_equal(result.move, w - 0.5)
    assert result.loss == np.mean(losses)


@pytest.mark.parametrize("slope", ["central", "forward"])
@pytest.mark.parametrize("black_box", [False, True])
def test_a_step_measures_all_slopes_at_its_w(slope: str, black_box: bool) -> None:
    objective = BlackBox(_quadratic()) if black_box else _quadratic()
    plan = _plan(7, slope=slope, slopes_per_step=3, local_steps=4)
    w, slopes = np.full(7, 0.5), []
    for along, batch in zip(_v(plan).reshape(4, 3, 7), plan.batches(40), strict=True):
        found = [probe(objective, w, v, plan.spec.radius, batch, slope).slope for v in along]
        w = w - plan.spec.step_size * np.array(found) @ along
        slopes += found
    result = _run(objective, slope=slope, slopes_per_step=3, local_steps=4)
    np.testing.assert_allclose(result.slopes, slopes, atol=1e-9)  # a naive slope carries rounding of some 1e-12
    np.testing.assert_allclose(result.move, w - 0.5, atol=1e-9)


@pytest.mark.parametrize(("slope", "points"), [("central", 6), ("forward", 4)])
def test_forward_slopes_of_a_step_share_one_value(slope: str, points: int) -> None:
    box = BlackBox(_quadratic())
    result = _run(box, slope=slope, slopes_per_step=3, local_steps=5)
    assert len(box.points) == 5 * points
    assert result.evaluations == 5 * points * 8
    assert result.slopes.shape == (15,)


def test_a_failed_step_is_skipped_with_all_slopes() -> None:
    class Fails(BlackBox):
        def value(self, x: Vector, batch: Indices | slice) -> float:
            found = super().value(x, batch)
            return math.nan if len(self.points) == 6 else found  # in the second step

    result = _run(Fails(_quadratic()), slope="forward", slopes_per_step=3, local_steps=4, on_error="skip-step")
    assert (result.skipped, result.slopes[3:6].tolist()) == (1, [0.0] * 3)
    assert np.all(result.slopes[[0, 1, 2, 6, 7, 8]] != 0.0)


@pytest.mark.parametrize(("name", "bias", "l2"), MODEL_CASES)
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_the_slopes_tell_the_move(name: str, bias: bool, l2: float, kind: str) -> None:
    objective = model(name, kind, bias=bias, l2=l2)
    result = _run(objective)
    plan = _plan(objective.dim)
    np.testing.assert_allclose(result.move, -plan.spec.step_size * result.slopes @ _v(plan), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("slope", ["central", "forward"])
def test_a_black_box_moves_like_its_exact_twin(slope: str) -> None:
    exact, black = model("mlp"), BlackBox(model("mlp"))
    one, other = _run(exact, slope=slope), _run(black, slope=slope)
    # A naive slope at radius 1e-4 carries rounding of some 1e-12, and the steps add it up.
    np.testing.assert_allclose(other.slopes, one.slopes, atol=1e-9)
    np.testing.assert_allclose(other.move, one.move, atol=1e-9)
    assert one.evaluations == other.evaluations


def test_batch_size_0_is_the_whole_shard() -> None:
    box = BlackBox(_quadratic())
    _run(box, batch_size=0)
    assert box.batches == [slice(None)] * 24


def test_a_step_has_one_batch_of_its_own() -> None:
    box = BlackBox(_quadratic())
    _run(box)
    batches = [tuple(batch) for batch in box.batches]  # type: ignore[arg-type]
    assert batches[::2] == batches[1::2]
    assert len(set(batches[::2])) == 12
    assert all(len(batch) == 8 and min(batch) >= 0 and max(batch) < 40 for batch in batches)


def test_samples_are_drawn_uniformly_with_replacement() -> None:
    steps, size, rows = 400, 50, 40
    drawn = np.stack(list(_plan(7, local_steps=steps, batch_size=size).batches(rows)))
    count, share = steps * size, 1.0 / rows
    # A row's count is binomial; five of its standard errors, for 40 rows.
    assert np.all(np.abs(np.bincount(drawn.ravel(), minlength=rows) - count * share) < 5.0 * np.sqrt(count * share))
    assert any(len(set(batch)) < size for batch in drawn.tolist())


def test_batches_are_a_function_of_the_address_alone() -> None:
    def drawn(**changes: Any) -> list[list[int]]:
        return [np.asarray(batch).tolist() for batch in _plan(7, **changes).batches(40)]

    same = {"law": DirectionLaw(7), "step_size": 9.0, "radius": 1.0, "slope": "forward"}
    assert drawn() == drawn(**same)
    assert drawn(local_steps=5) == drawn()[:5]
    assert all(drawn(**{name: 9}) != drawn() for name in ("seed", "round", "slot"))


@pytest.mark.parametrize("name", ["logistic", "quadratic"])
@pytest.mark.parametrize(("batch_size", "evaluations"), [(0, 2 * 40 * 12), (8, 2 * 8 * 12), (64, 2 * 64 * 12)])
@pytest.mark.parametrize("slope", ["central", "forward"])
def test_evaluations_are_two_for_each_sample_of_each_step(
    name: str, batch_size: int, evaluations: int, slope: str
) -> None:
    assert _run(model(name), batch_size=batch_size, slope=slope).evaluations == evaluations


@pytest.mark.parametrize("batch_size", [0, 8])
@pytest.mark.parametrize("slope", ["central", "forward"])
def test_counted_evaluations_are_those_asked_for(batch_size: int, slope: str) -> None:
    box = BlackBox(_quadratic())
    result = _run(box, batch_size=batch_size, slope=slope)
    assert result.evaluations == sum(len(np.arange(40)[batch]) for batch in box.batches)


@pytest.mark.parametrize(("name", "bias", "l2"), MODEL_CASES)
def test_weight_0_moves_isotropically(name: str, bias: bool, l2: float) -> None:
    objective = model(name, bias=bias, l2=l2)
    ignored = DirectionLaw(objective.dim, orthonormal(objective.dim, 2), 0.0, objective.dim / 2)
    one, other = _run(objective, law=ignored), _run(objective, law=DirectionLaw(objective.dim))
    np.testing.assert_array_equal(one.move, other.move)
    np.testing.assert_array_equal(one.slopes, other.slopes)


def test_the_size_of_blocks_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = _run(_quadratic())
    monkeypatch.setattr(directions, "BLOCK_BYTES", 8 * 7 * 5)
    np.testing.assert_allclose(_run(_quadratic()).move, whole.move, rtol=1e-12)


@pytest.mark.parametrize("name", ["logistic", "mlp"])
def test_steps_go_down_and_keep_the_start(name: str) -> None:
    objective = model(name)
    x = np.full(objective.dim, 0.5)
    plan = _plan(objective.dim, law=DirectionLaw(objective.dim), local_steps=200, batch_size=0)
    result = local_steps(objective, x, plan)
    np.testing.assert_array_equal(x, np.full(objective.dim, 0.5))
    assert objective.value(x + result.move, slice(None)) < objective.value(x, slice(None))


@pytest.fixture(params=["compiled", "numpy", "any exact", "any black box"])
def path(request: pytest.FixtureRequest) -> Callable[[str], tuple[Objective, str]]:
    """Return a function from a model's name to an objective and the kernel, by which its steps take this path."""
    if request.param == "compiled":
        pytest.importorskip("numba", reason="the extra `fast` is not installed")
    wrap = {"any exact": Exact, "any black box": BlackBox}.get(request.param, lambda inner: inner)
    return lambda name: (wrap(model(name)), "compiled" if request.param == "compiled" else "numpy")


_MODELS = ["logistic", "svm-hinge", "svm-squared-hinge", "mlp", "quadratic"]


@pytest.mark.parametrize("name", _MODELS)
@pytest.mark.parametrize("slope", ["central", "forward"])
@pytest.mark.parametrize("batch_size", [0, 8])
def test_the_start_loss_is_that_at_x(
    path: Callable[[str], tuple[Objective, str]], name: str, slope: str, batch_size: int
) -> None:
    objective, kernel = path(name)
    plan = _plan(objective.dim, step_size=0.3, radius=1e-6, batch_size=batch_size, slope=slope, kernel=kernel)
    x = np.full(objective.dim, 0.5)
    at_x = objective.value(x, plan.batches(40)[0])
    result = local_steps(objective, x, plan)
    assert result.start_loss == pytest.approx(at_x, abs=100.0 * plan.spec.radius)  # slopes here are below 100
    assert abs(result.loss - at_x) > 1000.0 * plan.spec.radius  # where the steps led


@pytest.mark.parametrize("slope", ["central", "forward"])
def test_the_start_loss_is_the_probes_middle(slope: str) -> None:
    class Linear(BlackBox):
        def value(self, x: Vector, batch: Indices | slice) -> float:
            return float(np.arange(1.0, 8.0) @ x)

    objective, radius = Linear(_quadratic()), 0.25
    result = _run(objective, slope=slope, radius=radius)
    middle = 0.0 if slope == "central" else 0.5 * radius
    assert result.start_loss == pytest.approx(14.0 + middle * result.slopes[0], rel=1e-14)


@pytest.mark.parametrize("name", _MODELS)
@pytest.mark.parametrize("batch_size", [0, 8])
def test_the_start_loss_ignores_the_step_size(
    path: Callable[[str], tuple[Objective, str]], name: str, batch_size: int
) -> None:
    objective, kernel = path(name)
    one, other = (
        _run(objective, step_size=step, batch_size=batch_size, kernel=kernel, slope="central") for step in (0.01, 0.3)
    )
    assert one.start_loss == other.start_loss
    assert one.loss != other.loss


@pytest.mark.parametrize("failing", [1, 2, 7])
def test_skipped_steps_give_no_start_loss(failing: int) -> None:
    class Late(BlackBox):
        def value(self, x: Vector, batch: Indices | slice) -> float:
            loss = super().value(x, batch)
            return loss if len(self.points) > failing else offline()

    result = _run(
        Late(_quadratic()), on_error="skip-step"
    )  # of a step whose first end fails the second is not asked for
    plan = _plan(7)
    batch, v = plan.batches(40)[failing], _v(plan)[failing]
    first = probe(BlackBox(_quadratic()), np.full(7, 0.5), v, plan.spec.radius, batch, "central")
    assert result.skipped == failing
    assert result.start_loss == first.loss


@pytest.mark.parametrize("slope", ["central", "forward"])
@pytest.mark.parametrize(
    ("how", "cause", "complaint"),
    [
        (
            lambda: float("nan"),
            "not-finite",
            "the objective returned nan, not a finite number; where local steps led there, a smaller",
        ),
        (lambda: np.float32(1.0), "not-a-loss", "the objective must return one float64 number, got float32"),
        (offline, "raised", "the objective raised TimeoutError: the plant is offline"),
    ],
    ids=["NaN", "float32", "raising"],
)
def test_a_failed_evaluation_has_cause_and_step(slope: str, how: Callable[[], Any], cause: str, complaint: str) -> None:
    # Two evaluations a step: number 9 belongs to step 4.
    with pytest.raises(ObjectiveError, match=f"^{complaint}") as caught:
        _run(Breaks(9, how), slope=slope)
    assert (caught.value.cause, caught.value.step) == (cause, 4)


@pytest.mark.parametrize("fused", [True, False])
def test_diverging_slopes_are_told_with_cause_and_step(fused: bool) -> None:
    objective = model("svm-squared-hinge")
    with (
        np.errstate(over="ignore", invalid="ignore"),  # as the worker does
        pytest.raises(ObjectiveError, match=r"^the slope is (nan|-?inf), not a finite number") as caught,
    ):
        _run(objective if fused else Exact(objective), step_size=1e200, batch_size=0)
    assert caught.value.cause == "not-finite"
    assert caught.value.step is not None


def test_slopes_by_their_spread_ignore_the_scale_of_losses() -> None:
    """FZOO: c / sd(c) with q - 1 in the variance; losses in other units give the same move."""
    keys = {"slope": "forward", "slopes_per_step": 4, "local_steps": 3}
    objective = _quadratic()
    plain, scaled = (_run(objective, slope_scale=scale, step_size=1e-9, **keys) for scale in ("none", "spread"))
    slopes = plain.slopes.reshape(3, 4)
    np.testing.assert_allclose(scaled.slopes[:4], slopes[0] / np.std(slopes[0], ddof=1), rtol=1e-6)

    class Louder(Objective):
        dim = objective.dim

        def __len__(self) -> int:
            return len(objective)

        def value(self, x: Vector, batch: Any) -> float:
            return 1024.0 * float(objective.value(x, batch))

    louder, quiet = (_run(one, slope_scale="spread", step_size=0.01, **keys) for one in (Louder(), objective))
    np.testing.assert_allclose(louder.move, quiet.move, rtol=1e-5)
