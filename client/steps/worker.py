"""(Broadcast, Objective) -> Update, and the bases a client process was given. Pure but for that memory."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import asdict

import numpy as np

from zofedht.client.plan import Plan
from zofedht.client.privacy.identity import Identity
from zofedht.client.privacy.masks import Masks
from zofedht.client.steps.local_steps import local_steps
from zofedht.client.steps.memory import check_room
from zofedht.client.steps.private_steps import private_steps
from zofedht.client.steps.replica import Replica
from zofedht.client.steps.surrogate_steps import surrogate_steps
from zofedht.common.config.step_spec import StepSpec
from zofedht.common.directions.law import law_of
from zofedht.common.errors import Cause, DataError, ObjectiveError, ZofedhtError
from zofedht.common.machine.blas import one_thread
from zofedht.common.objective.agreement import check_fits
from zofedht.common.objective.base import Objective
from zofedht.common.objective.points import Answer, evaluate_points
from zofedht.common.objective.scaling import units_of
from zofedht.common.objective.stiff import stiff_directions
from zofedht.common.objective.user_traceback import USER_ERRORS, raised_by_objective
from zofedht.common.privacy.private_draws import PrivateDraws
from zofedht.common.random.kernels import runs_compiled
from zofedht.common.replay import draw_digest, sketch
from zofedht.common.typing import Matrix, Vector
from zofedht.common.wire.messages import Broadcast, Status, Update, basis_digest, rounded

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
        if broadcast.spec.secure_aggregation != bool(broadcast.stage):
            return _answer(broadcast, "failed", "unusable", "the stage of secure aggregation does not fit the config")
        if not broadcast.asks_steps:
            try:
                return self._masks.answer(broadcast)
            except ZofedhtError as error:
                return _answer(broadcast, "failed", error.cause, self._error_text(error))
        if broadcast.basis is not None:
            digest = basis_digest(broadcast.basis)
            if digest != broadcast.basis_digest:
                return _answer(broadcast, "failed", "unusable", "the basis does not have the digest that came with it")
            self._bases.add(digest, broadcast.basis)
        try:
            followed = self._replica.follow(broadcast, lambda past: units_of(self._objective_of(past)))
        except ZofedhtError as error:
            return _answer(broadcast, "failed", "unusable", self._error_text(error))
        if followed is None:
            reason = f"x of round {broadcast.round + 1} does not follow from what is held"
            return _answer(broadcast, "x-missing", "not-held", reason)
        broadcast = followed
        basis = self._basis(broadcast) if broadcast.needs_basis else None
        if broadcast.needs_basis and basis is None:
            return _answer(broadcast, "basis-missing", "not-held", f"basis {broadcast.basis_version} is not held")
        try:
            runs_compiled(broadcast.spec.kernel)
            objective = self._objective_of(broadcast)
            check_fits(objective, broadcast.x.shape[0], broadcast.units)
            plan = Plan(broadcast.spec, law_of(broadcast.spec, objective.dim, basis), broadcast.address)
            self._permit(broadcast.spec, len(objective))
            check_room(broadcast, objective)
            draws = self._draws(broadcast, len(objective))
            self._spend(broadcast.spec, objective)
        except ZofedhtError as error:
            return _answer(broadcast, "failed", "unusable", self._error_text(error))
        if broadcast.points is not None:
            return self._values(broadcast, objective)
        try:
            # Slopes that are not finite are reported by name.
            with one_thread(), np.errstate(over="ignore", invalid="ignore"):
                _prepare(objective, broadcast.x)
                stiff = stiff_directions(objective, broadcast.x) if broadcast.spec.tells_stiff else None
                if broadcast.spec.queries:
                    result = surrogate_steps(objective, broadcast.x, plan, broadcast.queries, broadcast.surplus)
                elif draws is None:
                    points = broadcast.anchor, broadcast.control, broadcast.shift
                    result = local_steps(objective, broadcast.x, plan, *points)
                else:
                    result = private_steps(objective, broadcast.x, plan, draws)
        except ObjectiveError as error:
            status: Status = "stopped" if broadcast.spec.on_error == "stop" else "failed"
            return _answer(broadcast, status, error.cause, self._error_text(error), error.step)
        told = result.error
        if told is not None and draws is not None:
            self._error_text(told)  # to the device's own log: that an evaluation failed tells about the rows
            told = None
        slopes = broadcast.spec.uplink == "slopes"
        update = Update(
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
            examples=len(objective),
            evaluations=result.evaluations,
            loss=result.loss,
            start_loss=result.start_loss,
            squares=result.falls.squares if result.falls else 0.0,
            bent=result.falls.bent if result.falls else 0.0,
            lengths=result.falls.lengths if result.falls else 0.0,
            gap=result.falls.gap if result.falls else 0.0,
            cause=None if told is None else told.cause,
            step=None if told is None else told.step,
            reason="" if told is None else self._error_text(told),
            stiff=stiff,
            stiff_rank=0 if stiff is None else stiff.shape[1],
            skipped=result.skipped,
        )
        if not broadcast.stage:
            return update
        try:
            return self._masks.masked(broadcast, update)
        except ZofedhtError as error:
            return _answer(broadcast, "failed", error.cause, self._error_text(error))

    def _values(self, broadcast: Broadcast, objective: Objective) -> Update:
        """Return F at the points, each time on all samples of a batch: candidates are compared on the same samples."""
        assert broadcast.points is not None
        units = units_of(objective)
        points = broadcast.points if units is None else units.to_user(broadcast.points)
        shard, batch = len(objective), broadcast.spec.samples_of_points(len(objective))
        rng = broadcast.address.stream("minibatch")
        answers: list[Answer] = []
        for _ in range(broadcast.repeats):
            samples = slice(None) if batch == shard else rng.choice(shard, size=batch, replace=False)
            answers += evaluate_points(objective, points, samples, error_text=self._error_text)
        lost = [place for place, answer in enumerate(answers) if answer.cause]
        first = answers[lost[0]] if lost else None
        if first is not None and broadcast.spec.on_error == "stop":
            return _answer(broadcast, "stopped", first.cause or "raised", first.reason)
        values = np.array([answer.value for answer in answers])
        with np.errstate(over="ignore"):
            loss = float(np.mean(values[~np.isnan(values)])) if len(lost) < len(values) else math.nan
        return Update(
            round=broadcast.round,
            slot=broadcast.slot,
            client=broadcast.client,
            values=values,
            examples=shard,
            evaluations=broadcast.evaluations(shard),
            loss=loss,
            cause=None if first is None else first.cause,
            reason="" if first is None else first.reason,
            skipped=len(lost),
        )

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


def _answer(broadcast: Broadcast, status: Status, cause: Cause, reason: str, step: int | None = None) -> Update:
    return Update(broadcast.round, broadcast.slot, broadcast.client, status, cause, step, reason)
