"""The worker: does the work of a broadcast, and answers what goes wrong."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import numpy as np
import pytest

from tests.common.samples import model, orthonormal
from tests.helpers import Breaks, changed, spec
from zofedht.client.plan import Plan
from zofedht.client.steps.local_steps import local_steps
from zofedht.client.steps.worker import BasisStore, Worker
from zofedht.common.directions.law import DirectionLaw
from zofedht.common.errors import ConfigError, DataError
from zofedht.common.machine.blas import one_thread
from zofedht.common.objective.base import Objective
from zofedht.common.objective.scaling import in_search_units, units_of
from zofedht.common.random.streams import Address
from zofedht.common.typing import Vector
from zofedht.common.wire.arrays import basis_digest
from zofedht.common.wire.messages import Broadcast, Update

_N = 7
_Q = orthonormal(_N, 2)
_SPEC = spec(step_size=0.05, local_steps=10, batch_size=8, subspace_weight=0.4, subspace_gain=_N / 2)
_PLAIN = Broadcast(address=Address(1, 12, 3), spec=_SPEC, client="5", shard_index=5, x=np.full(_N, 0.5))
_WITH_BASIS = dataclasses.replace(_PLAIN, basis_version=10, basis_digest=basis_digest(_Q), basis_rank=2, basis=_Q)
_WITHOUT_BASIS = dataclasses.replace(_WITH_BASIS, basis=None)
_OBJECTIVE = model("logistic")


def _worker(objective: Objective = _OBJECTIVE, bases: BasisStore | None = None) -> Worker:
    return Worker(lambda broadcast: objective, bases)


def _assert_refused(update: Update, status: str) -> None:
    assert (update.round, update.slot, update.client, update.status) == (12, 3, "5", status)
    assert update.move is None
    assert update.evaluations == 0


@pytest.mark.parametrize(("broadcast", "basis"), [(_PLAIN, None), (_WITH_BASIS, _Q)])
def test_an_update_is_the_local_steps_of_the_broadcast(broadcast: Broadcast, basis: Any) -> None:
    plan = Plan(_SPEC, DirectionLaw(_N, basis, 0.4, _N / 2), Address(1, 12, 3))
    with one_thread():
        wanted = local_steps(_OBJECTIVE, broadcast.x, plan)
    update = _worker().work(broadcast)
    assert (update.round, update.slot, update.client, update.status, update.reason) == (12, 3, "5", "ok", "")
    np.testing.assert_array_equal(update.move, wanted.move)  # type: ignore[arg-type]
    assert (update.examples, update.evaluations, update.loss) == (40, 2 * 8 * 10, wanted.loss)
    assert update.start_loss == wanted.start_loss


def test_the_basis_changes_the_work_and_is_remembered() -> None:
    worker = _worker()
    with_basis, later = worker.work(_WITH_BASIS), worker.work(_WITHOUT_BASIS)
    np.testing.assert_array_equal(later.move, with_basis.move)  # type: ignore[arg-type]
    assert np.all(with_basis.move != worker.work(_PLAIN).move)


def test_a_basis_never_given_is_answered_as_missing() -> None:
    update = _worker().work(_WITHOUT_BASIS)
    _assert_refused(update, "basis-missing")
    assert update.reason == "basis 10 is not held"


def test_an_older_basis_does_not_count() -> None:
    worker = _worker()
    worker.work(_WITH_BASIS)
    newer = dataclasses.replace(_WITHOUT_BASIS, basis_version=15, basis_digest=basis_digest(-_Q))
    _assert_refused(worker.work(newer), "basis-missing")


def test_an_unannounced_basis_is_refused() -> None:
    worker = _worker()
    update = worker.work(dataclasses.replace(_WITH_BASIS, basis=-_Q))
    _assert_refused(update, "failed")
    assert "digest" in update.reason
    _assert_refused(worker.work(_WITHOUT_BASIS), "basis-missing")


def test_an_empty_basis_moves_isotropically() -> None:
    empty = _Q[:, :0]
    broadcast = changed(_WITH_BASIS, basis=empty, basis_rank=0, basis_digest=basis_digest(empty), subspace_gain=1.0)
    np.testing.assert_array_equal(_worker().work(broadcast).move, _worker().work(_PLAIN).move)  # type: ignore[arg-type]


def test_workers_of_a_process_share_their_bases() -> None:
    bases = BasisStore()
    _worker(bases=bases).work(_WITH_BASIS)
    assert _worker(bases=bases).work(_WITHOUT_BASIS).status == "ok"


def test_the_store_drops_the_oldest_bases() -> None:
    store = BasisStore(keep=2)
    for digest in ("a", "b", "a", "c"):
        store.add(digest, _Q)
    assert store.get("a") is _Q
    assert store.get("c") is _Q
    assert store.get("b") is None


def test_an_objective_of_another_dimension_is_answered_with_both() -> None:
    update = _worker(model("logistic", columns=9)).work(_PLAIN)
    _assert_refused(update, "failed")
    assert update.reason == "the server's x has 7 parameters, this client's objective has 9"


def _offline() -> float:
    raise TimeoutError("the plant is offline")


def test_nan_from_a_black_box_names_its_step() -> None:
    update = _worker(Breaks(7, lambda: float("nan"), _N)).work(_PLAIN)
    _assert_refused(update, "failed")
    assert (update.cause, update.step) == ("not-finite", 3)
    assert update.reason.startswith("the objective returned nan, not a finite number")


def test_an_exception_is_reported_by_type_and_text() -> None:
    update = _worker(Breaks(0, _offline, _N)).work(_PLAIN)
    _assert_refused(update, "failed")
    assert (update.cause, update.step) == ("raised", 0)
    reason = r"the objective raised TimeoutError: the plant is offline \(test_worker\.py, line \d+, in "
    assert re.match(reason, update.reason)


@pytest.mark.parametrize("batch_size", [0, 1])  # the projected steps, and the plain ones
def test_divergence_is_answered_without_a_warning(batch_size: int) -> None:
    broadcast = changed(_PLAIN, step_size=1e200, batch_size=batch_size)
    update = _worker(model("svm-squared-hinge")).work(broadcast)
    _assert_refused(update, "failed")
    assert update.cause == "not-finite"
    assert "the slope is" in update.reason


@pytest.mark.parametrize(
    "error", [DataError("no rows"), ConfigError(("x", "unknown key 'x'"))], ids=["shard", "task of another version"]
)
def test_a_bad_shard_is_answered_with_the_reason(error: Exception) -> None:
    def objective_of(broadcast: Broadcast) -> Objective:
        raise error

    update = Worker(objective_of).work(_PLAIN)
    _assert_refused(update, "failed")
    assert (update.cause, update.step, update.reason) == ("unusable", None, str(error))


def test_work_does_not_change_the_broadcast() -> None:
    x, q = _PLAIN.x.copy(), _Q.copy()
    _worker().work(_WITH_BASIS)
    np.testing.assert_array_equal(_PLAIN.x, x)
    np.testing.assert_array_equal(_Q, q)


def test_an_update_ignores_earlier_work() -> None:
    worker = _worker()
    first = worker.work(_WITH_BASIS)
    worker.work(_PLAIN)
    np.testing.assert_array_equal(worker.work(_WITH_BASIS).move, first.move)  # type: ignore[arg-type]
    other_slot = worker.work(changed(_WITH_BASIS, slot=4))
    assert np.all(other_slot.move != first.move)


_POINTS = changed(_PLAIN, points=np.eye(3, _N), repeats=2, local_steps=6)


def test_values_are_told_on_the_same_samples() -> None:
    told = _worker().work(_POINTS)
    samples = Address(1, 12, 3).stream("minibatch").choice(len(_OBJECTIVE), size=8, replace=False)
    assert told.values is not None
    np.testing.assert_array_equal(told.values[:3], _OBJECTIVE.values(_POINTS.points, samples))
    assert not np.array_equal(told.values[:3], told.values[3:])
    assert (told.status, told.evaluations, told.examples, told.skipped) == ("ok", 48, len(_OBJECTIVE), 0)
    whole = _worker().work(changed(_POINTS, batch_size=0))
    assert whole.values is not None
    np.testing.assert_array_equal(whole.values[:3], whole.values[3:])


def test_a_value_that_fails_is_lost_alone_or_stops() -> None:
    def hot() -> float:
        raise TimeoutError("the plant is offline")

    asked = changed(_POINTS, x=np.zeros(3), points=np.eye(3))
    told = _worker(Breaks(4, hot)).work(asked)
    assert told.values is not None
    assert np.isnan(told.values).tolist() == [False] * 4 + [True] * 2
    assert (told.status, told.skipped, told.cause) == ("ok", 2, "raised")
    stopped = _worker(Breaks(4, hot)).work(changed(asked, on_error="stop"))
    assert (stopped.status, stopped.cause, stopped.values) == ("stopped", "raised", None)
    assert "the plant is offline" in stopped.reason


def test_the_owner_bounds_the_values_of_a_slot() -> None:
    seen: list[int] = []
    Worker(lambda broadcast: _OBJECTIVE, permit=lambda asked, shard: seen.append(asked.slopes)).work(_POINTS)
    assert seen == [6]


class _Ready(Objective):
    """Counts from where it was prepared."""

    def __init__(self, bounds: Any = None) -> None:
        self.dim, self.bounds = _N, bounds
        self.seen: list[tuple[str, Vector]] = []

    def prepare(self, x: Vector) -> None:
        self.seen.append(("prepare", x.copy()))

    def value(self, x: Vector, batch: Any) -> float:
        self.seen.append(("value", x))
        return float(x @ x)


def test_an_objective_is_prepared_once_at_the_beginning_of_a_slot() -> None:
    ready = _Ready()
    worker = _worker(ready)
    for _ in range(2):
        ready.seen.clear()
        assert worker.work(_PLAIN).status == "ok"
        assert [what for what, _ in ready.seen] == ["prepare", *["value"] * 20]
        np.testing.assert_array_equal(ready.seen[0][1], _PLAIN.x)


def test_an_objective_with_bounds_is_prepared_in_its_own_units() -> None:
    ready = _Ready(bounds=[(10.0, 20.0)] * _N)
    units = units_of(ready)
    assert units is not None
    in_search_units(ready).prepare(units.to_search(np.full(_N, 12.0)))
    np.testing.assert_allclose(ready.seen[0][1], 12.0)


def test_a_preparation_that_fails_costs_its_slot() -> None:
    ready = _Ready()
    ready.prepare = lambda x: 1 / 0  # type: ignore[method-assign]
    update = _worker(ready).work(_PLAIN)
    assert (update.status, update.cause) == ("failed", "raised")
    assert update.reason.startswith("prepare(x) raised")
