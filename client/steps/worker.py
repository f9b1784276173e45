"""(Broadcast, Objective) -> Update, and the bases a client process was given. Pure but for that memory."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict

import numpy as np

from zofedht.client.not_done import NotDoneError, failed_steps, not_held, unusable
from zofedht.client.plan import Plan
from zofedht.client.privacy.identity import Identity
from zofedht.client.privacy.masks import Masks
from zofedht.client.steps.local_steps import local_steps
from zofedht.client.steps.memory import check_room
from zofedht.client.steps.point_values import point_values
from zofedht.client.steps.private_steps import private_steps
from zofedht.client.steps.replica import Replica
from zofedht.client.steps.slot_result import SlotResult
from zofedht.client.steps.surrogate_steps import surrogate_steps
from zofedht.common.config.step_spec import StepSpec
from zofedht.common.directions.law import law_of
from zofedht.common.errors import DataError, ObjectiveError, ZofedhtError
from zofedht.common.machine.blas import one_thread
from zofedht.common.objective.agreement import check_fits
from zofedht.common.objective.base import Objective
from zofedht.common.objective.scaling import units_of
from zofedht.common.objective.stiff import stiff_directions
from zofedht.common.objective.user_traceback import USER_ERRORS, raised_by_objective
from zofedht.common.privacy.private_draws import PrivateDraws
from zofedht.common.random.kernels import runs_compiled
from zofedht.common.replay import draw_digest, sketch
from zofedht.common.typing import Matrix, Vector
from zofedht.common.wire.arrays import basis_digest, rounded
from zofedht.common.wire.messages import Broadcast, Update

__all__ = ["BasisStore", "Worker", "no_secret"]


def no_secret(broadcast: Broadcast) -> bytes:
    """Raise DataError: noise from what the server knows would be none."""
    raise DataError.public(
        "this client has no secret to draw noise from; join with --privacy-key FILE, or set"
        " ZOFEDHT_PRIVACY_KEY=FILE for a SuperNode"
    )


class BasisStore:
    """The newest bases by digest; older ones are dropped."""

    def __init__(self, keep: int = 2) -> None:
        self._keep = keep
        self._bases: dict[str, Matrix] = {}

    def add(self, digest: str, basis: Matrix) -> None:
        """Keep a basis as the newest."""
        self._bases.pop(digest, None)
        self._bases[digest] = basis
        while len(self._bases) > self._keep:
            del self._bases[next(iter(self._bases))]

    def get(self, digest: str) -> Matrix | None:
        """Return the basis, or None if it was never given or was dropped."""
        return self._bases.get(digest)


class Worker:
    """Does slots of work for one or many logical clients of a process."""

    def __init__(
        self,
        objective_of: Callable[[Broadcast], Objective],
        bases: BasisStore | None = None,
        replica: Replica | None = None,
        error_text: Callable[[ZofedhtError], str] = str,
        permit: Callable[[StepSpec, int], None] = lambda spec, shard: None,
        secret_of: Callable[[Broadcast], bytes] = no_secret,
        spend: Callable[[StepSpec, Objective], None] = lambda spec, objective: None,
        identity: Identity | None = None,
    ) -> None:
        """``error_text`` says what of an error goes into the answer: all of it, unless the server is somebody else's.

        ``permit(spec, samples of the shard)`` raises ZofedhtError where this device's owner does not allow a slot.
        ``secret_of`` returns what the noise of a client is drawn from under local privacy. ``spend`` counts a slot that
        is about to be answered, and raises ZofedhtError where too much was spent. ``identity`` signs the keys of
        secure aggregation.
        """
        self._error_text, self._permit, self._secret_of, self._spend = error_text, permit, secret_of, spend
        self._objective_of = objective_of
        self._masks = Masks(identity)
        self._bases = bases or BasisStore()
        self._replica = replica or Replica()

    def work(self, broadcast: Broadcast) -> Update:
        """Rebuild C_r, take the K steps and return the Update.

        What goes wrong is answered, not raised: a basis or an x that is not held as ``basis-missing`` or
        ``x-missing``, a task, a shard or an objective that fails as ``failed`` with its cause, and an evaluation
        that fails where the run is then to stop as ``stopped``.
        """
        try:
            if broadcast.spec.secure_aggregation != bool(broadcast.stage):
                reason = "the stage of secure aggregation does not fit the config"
                raise NotDoneError(broadcast, "failed", "unusable", reason)
            if broadcast.asks_steps:
                return self._slot(self._followed(broadcast))
            with unusable(broadcast, self._error_text):
                return self._masks.answer(broadcast)
        except NotDoneError as ended:
            return ended.answer

    def _followed(self, broadcast: Broadcast) -> Broadcast:
        """Keep the basis of a broadcast, and return it with its x. Raises NotDoneError."""
        if broadcast.basis is not None:
            digest = basis_digest(broadcast.basis)
            if digest != broadcast.basis_digest:
                reason = "the basis does not have the digest that came with it"
                raise NotDoneError(broadcast, "failed", "unusable", reason)
            self._bases.add(digest, broadcast.basis)
        with unusable(broadcast, self._error_text):
            followed = self._replica.follow(broadcast, lambda past: units_of(self._objective_of(past)))
        if followed is None:
            raise not_held(broadcast)
        return followed

    def _slot(self, broadcast: Broadcast) -> Update:
        """Return F at the points, or where the steps from x lead. Raises NotDoneError."""
        basis = self._basis(broadcast) if broadcast.needs_basis else None
        if broadcast.needs_basis and basis is None:
            reason = f"basis {broadcast.basis_version} is not held"
            raise NotDoneError(broadcast, "basis-missing", "not-held", reason)
        with unusable(broadcast, self._error_text):
            runs_compiled(broadcast.spec.kernel)
            objective = self._objective_of(broadcast)
            check_fits(objective, broadcast.x.shape[0], broadcast.units)
            plan = Plan(broadcast.spec, law_of(broadcast.spec, objective.dim, basis), broadcast.address)
            self._permit(broadcast.spec, len(objective))
            check_room(broadcast, objective)
            draws = self._draws(broadcast, len(objective))
            self._spend(broadcast.spec, objective)
        if broadcast.points is not None:
            return point_values(broadcast, objective, self._error_text)
        # Slopes that are not finite are reported by name.
        with failed_steps(broadcast, self._error_text), one_thread(), np.errstate(over="ignore", invalid="ignore"):
            _prepare(objective, broadcast.x)
            stiff = stiff_directions(objective, broadcast.x) if broadcast.spec.tells_stiff else None
            if broadcast.spec.queries:
                result = surrogate_steps(objective, broadcast.x, plan, broadcast.queries, broadcast.surplus)
            elif draws is None:
                points = broadcast.anchor, broadcast.control, broadcast.shift
                result = local_steps(objective, broadcast.x, plan, *points)
            else:
                result = private_steps(objective, broadcast.x, plan, draws)
        told = None if result.error is None else (result.error, self._error_text(result.error))
        if draws is not None:
            told = None  # in the device's own log alone: that an evaluation failed tells about the rows
        update = _update(broadcast, len(objective), result, stiff, told)
        if not broadcast.stage:
            return update
        with unusable(broadcast, self._error_text):
            return self._masks.masked(broadcast, update)

    def _draws(self, broadcast: Broadcast, shard: int) -> PrivateDraws | None:
        """Return the private draws of a slot, or None where its slopes are sent as they are.

        Raises DataError where the slot cannot be private.
        """
        spec = broadcast.spec
        if spec.privacy == "none":
            return None
        if spec.uplink != "slopes":
            raise DataError.public(f"uplink must be slopes where privacy is {spec.privacy}, got {spec.uplink!r}")
        if spec.tells_stiff:
            raise DataError.public(
                f"stiff directions cannot be told where privacy is {spec.privacy}: they hold no noise"
            )
        if shard < spec.least_samples:
            raise DataError.public(f"the client's shard has {shard} samples, fewer than least-samples")
        secret = self._secret_of(broadcast) if spec.privacy == "local" else b""
        parts = asdict(broadcast.address), asdict(spec), broadcast.client, broadcast.task, broadcast.units
        asked = json.dumps((*parts, broadcast.basis_digest), sort_keys=True).encode()
        return PrivateDraws(secret, asked, np.ascontiguousarray(broadcast.x, dtype="<f8").tobytes())

    def _basis(self, broadcast: Broadcast) -> Matrix | None:
        held = self._bases.get(broadcast.basis_digest)
        if held is None:
            followed = self._replica.basis(broadcast.basis_version)
            if followed is not None and basis_digest(followed) == broadcast.basis_digest:
                self._bases.add(broadcast.basis_digest, followed)
                return followed
        return held


def _prepare(objective: Objective, x: Vector) -> None:
    """Let the objective make ready for steps that begin at x. Raises ObjectiveError where that fails."""
    try:
        objective.prepare(x)
    except USER_ERRORS as error:
        raise raised_by_objective(error, "prepare(x)") from error


def _update(
    broadcast: Broadcast,
    shard: int,
    result: SlotResult,
    stiff: Matrix | None,
    told: tuple[ObjectiveError, str] | None,
) -> Update:
    """Return what is told of a slot's steps; ``told`` is the first error of a step that was skipped, and its text."""
    slopes = broadcast.spec.uplink == "slopes"
    error, reason = told or (None, "")
    return Update(
        round=broadcast.round,
        slot=broadcast.slot,
        client=broadcast.client,
        move=None if slopes else rounded(result.move, broadcast.dtype),
        dtype=broadcast.dtype,
        draw_digest="" if slopes else draw_digest(),
        slopes=result.slopes if slopes else None,
        sketch=sketch(result.move) if slopes else None,
        curvatures=result.curvatures,
        changes=result.changes,
        queries=result.queries,
        examples=shard,
        evaluations=result.evaluations,
        loss=result.loss,
        start_loss=result.start_loss,
        squares=result.falls.squares if result.falls else 0.0,
        bent=result.falls.bent if result.falls else 0.0,
        lengths=result.falls.lengths if result.falls else 0.0,
        gap=result.falls.gap if result.falls else 0.0,
        cause=None if error is None else error.cause,
        step=None if error is None else error.step,
        reason=reason,
        stiff=stiff,
        stiff_rank=0 if stiff is None else stiff.shape[1],
        skipped=result.skipped,
    )
