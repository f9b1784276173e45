"""(Broadcast, InPlaceObjective) -> Update, and full evaluations at any place of the trail."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from zofedht.client.not_done import NotDoneError, failed_steps, not_held, unusable
from zofedht.client.plan import Plan
from zofedht.client.tensors.held import Held, Households
from zofedht.client.tensors.place_steps import place_steps
from zofedht.common.config.run_config import RunConfig
from zofedht.common.config.step_spec import StepSpec
from zofedht.common.directions.law import law_of
from zofedht.common.errors import DataError, ZofedhtError
from zofedht.common.tensors.blocks import total_bytes
from zofedht.common.tensors.loading import metrics_in_place
from zofedht.common.tensors.objective import InPlaceObjective
from zofedht.common.tensors.trail import TrailLaw
from zofedht.common.typing import Vector
from zofedht.common.wire.arrays import vector_digest
from zofedht.common.wire.clients import Question
from zofedht.common.wire.codec import STATE_DIGEST, Config
from zofedht.common.wire.messages import Broadcast, Update
from zofedht.common.wire.snapshots import PART_BYTES, encode_held, encode_part, part_of, trail_of

__all__ = ["Looked", "PlaceWorker"]


class Looked(NamedTuple):
    """A full evaluation: the metrics, the samples that they are of, and the digest of the parameters."""

    metrics: dict[str, float]
    samples: int
    digest: str


class PlaceWorker:
    """Does slots of work for one or many logical clients of a process, whose objectives hold their parameters."""

    def __init__(
        self,
        objective_of: Callable[[Question], InPlaceObjective],
        homes: Households | None = None,
        error_text: Callable[[ZofedhtError], str] = str,
        permit: Callable[[StepSpec, int], None] = lambda spec, shard: None,
        permit_snapshot: Callable[[int], None] = lambda size: None,
    ) -> None:
        """``error_text`` and ``permit`` are those of ``Worker``; ``permit_snapshot`` is asked about so many bytes."""
        self._permit_snapshot = permit_snapshot
        self._objective_of, self._homes = objective_of, homes or Households()
        self._error_text, self._permit = error_text, permit

    def held(self, question: Question) -> Held:
        """Return the parameters of a client.

        Raises ZofedhtError where it cannot have an objective, or the run's guide does not fit into memory.
        """
        objective = self._objective_of(question)
        held = self._homes.of(objective)
        self._homes.prepare(held, TrailLaw.of_config(RunConfig.of_task(question.task)), objective.dim)
        return held

    def work(self, broadcast: Broadcast) -> Update:
        """Lead the parameters to x_r, take the K steps, put x_r back and return the Update.

        What goes wrong is answered, not raised, as ``Worker.work`` does.
        """
        try:
            return self._slot(broadcast)
        except NotDoneError as ended:
            return ended.answer

    def _slot(self, broadcast: Broadcast) -> Update:
        question = Question(
            broadcast.client, broadcast.shard_index, broadcast.address.seed, broadcast.task, broadcast.size
        )
        with unusable(broadcast, self._error_text):
            objective = self._objective_of(question)
            held = self._homes.of(objective)
            self._permit(broadcast.spec, len(objective))
        trail = _trail(broadcast, held.known)
        if trail is None:
            raise not_held(broadcast)
        law = TrailLaw.of(broadcast.spec, RunConfig.of_task(broadcast.task))
        plan = Plan(broadcast.spec, law_of(broadcast.spec, 0), broadcast.address)
        # Slopes that are not finite are reported by name.
        with failed_steps(broadcast, self._error_text), np.errstate(over="ignore", invalid="ignore"):
            held.go_to(trail, law)
            with unusable(broadcast, self._error_text):
                directions = held.directions(broadcast.round, plan.address.directions.slot, trail, law)
            with held.changed():
                result = place_steps(objective, plan, directions)
        told = result.error
        return Update(
            round=broadcast.round,
            slot=broadcast.slot,
            client=broadcast.client,
            slopes=result.slopes,
            in_place=True,
            examples=len(objective),
            evaluations=result.evaluations,
            loss=result.loss,
            start_loss=result.start_loss,
            cause=None if told is None else told.cause,
            step=None if told is None else told.step,
            reason="" if told is None else self._error_text(told),
            skipped=result.skipped,
        )

    def save(self, objective: InPlaceObjective, path: Path) -> None:
        """Write the parameters at the end of the longest trail that was followed. Raises DataError."""
        self._homes.of(objective).go_to_end()
        try:
            objective.save(path)
        except OSError as error:
            raise DataError(f"{path} cannot be written ({error.strerror})") from error

    def lead(self, question: Question, trail: Vector) -> InPlaceObjective:
        """Lead a client's parameters to where a trail ends, and return its objective. Raises ZofedhtError."""
        objective = self._objective_of(question)
        law = TrailLaw.of_config(RunConfig.of_task(question.task))
        with np.errstate(over="ignore", invalid="ignore"):  # a diverged x gives inf or NaN
            self._homes.of(objective).go_to(trail, law)
        return objective

    def evaluate(self, question: Question, trail: Vector) -> Looked:
        """Evaluate the x to which a trail leads on the whole shard. Raises ZofedhtError."""
        objective = self.lead(question, trail)
        with np.errstate(over="ignore", invalid="ignore"):
            return Looked(metrics_in_place(objective), objective.evaluated, objective.state_digest())

    def snapshot(self, question: Question, arrays: Sequence[NDArray[Any]]) -> Config:
        """Tell, give or take parameters at the end of a trail, as ``snapshots`` says. Raises ZofedhtError."""
        objective = self._objective_of(question)
        held, law = self._homes.of(objective), TrailLaw.of_config(RunConfig.of_task(question.task))
        if question.snapshot != "held":
            self._permit_snapshot(total_bytes(objective.blocks))
        with np.errstate(over="ignore", invalid="ignore"):
            match question.snapshot:
                case "held":
                    return encode_held(held.length_held(trail_of(arrays), law))
                case "copy":
                    held.copy_at(trail_of(arrays), law)
                    return {STATE_DIGEST: objective.state_digest()}
                case "take":
                    copy = held.copied_at(question.digest)
                    if copy is None:
                        raise DataError.public("the copy of the parameters is not there any more")
                    return encode_part(copy.read(question.start, PART_BYTES))
            if question.start == 0:
                held.begin_arrival(trail_of(arrays), law)
            held.arrive(question.start, part_of(arrays), question.digest)
        return {}


def _trail(broadcast: Broadcast, known: Vector) -> Vector | None:
    """Return the whole trail to x_r, from the one that is known; None where the message does not go on from there."""
    if broadcast.trail is None:
        return broadcast.x
    kept = broadcast.size - sum(len(step.lengths) for step in broadcast.trail)
    if kept > len(known):
        return None
    trail = np.concatenate([known[:kept], *(step.lengths for step in broadcast.trail)])
    return trail if vector_digest(trail) == broadcast.x_digest else None
