"""Screening: which replies are usable, and what went wrong in the others; the rules by which a failure counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from zofedht.common.errors import EVALUATION_FAILED, Cause
from zofedht.common.replay import SKETCH_SUMS
from zofedht.common.rules import bounded_loss
from zofedht.common.typing import Matrix, Vector
from zofedht.common.wire.fields import changed
from zofedht.common.wire.messages import Broadcast, Update

__all__ = ["Failure", "Skipped", "diverged", "screen", "skipped_steps"]


@dataclass(frozen=True)
class Failure:
    """A slot that gave nothing usable, and why."""

    round: int
    slot: int
    client: str
    cause: Cause
    reason: str  # a sentence for people
    step: int | None = None  # local step that failed, where one did

    @property
    def sentence(self) -> str:
        """The sentence with its place."""
        return self.reason if self.step is None else f"round {self.round + 1}, step {self.step + 1}: {self.reason}"


@dataclass(frozen=True)
class Skipped:
    """A usable slot in which some steps were skipped; cause, step and reason are those of the first of them."""

    slot: int
    client: str
    steps: int
    cause: Cause | None
    step: int | None
    reason: str


def screen(updates: Sequence[Update], asked: Mapping[int, Broadcast]) -> tuple[list[Update], list[Failure]]:
    """Return the usable updates in slot order, and a Failure for each of the others.

    ``asked`` maps each slot of the round to its broadcast. Float sums depend on their order, so the
    order of arrival must not survive.
    """
    usable: dict[int, Update] = {}
    failures = []
    for update in sorted(updates, key=lambda u: (u.slot, u.client)):
        complaint = _complaint(update, asked)
        if complaint is None and update.slot in usable:
            complaint = "stale", "a second reply for the same slot"
        if complaint is None:
            usable[update.slot] = changed(
                update, loss=bounded_loss(update.loss), start_loss=bounded_loss(update.start_loss)
            )
        else:
            step = update.step if complaint[0] == update.cause else None
            failures.append(Failure(update.round, update.slot, update.client, *complaint, step))
    return list(usable.values()), failures


def _complaint(update: Update, asked: Mapping[int, Broadcast]) -> tuple[Cause, str] | None:
    if update.slot not in asked:
        return "stale", f"slot {update.slot} was not asked in this round"
    broadcast = asked[update.slot]
    if update.round != broadcast.round:
        return "stale", f"answered round {update.round + 1}, asked was round {broadcast.round + 1}"
    if update.client != broadcast.client:
        return "stale", f"answered by client {update.client}, asked was client {broadcast.client}"
    if update.status != "ok":
        return update.cause or "refused", update.reason or update.status
    if (update.values is not None) != (broadcast.points is not None):
        sent = "values" if update.values is not None else "none"
        return "malformed", f"asked for {broadcast.answers} values of F, it sent {sent}"
    if update.values is not None:
        return _values_complaint(update, update.values, broadcast)
    if (update.slopes is not None) != (broadcast.spec.uplink == "slopes"):
        sent = "slopes" if update.slopes is not None else "a move"
        return "malformed", f"asked for its {broadcast.spec.uplink}, it sent {sent}"
    if update.dtype != broadcast.dtype:
        return "malformed", f"asked for {broadcast.dtype}, it sent {update.dtype}"
    if update.slopes is not None:
        complaint = _not_finite("the slopes", update.slopes, (broadcast.spec.slopes,))
        if not (broadcast.spec.in_place and update.in_place):  # there a sketch would cost as much as the steps
            complaint = complaint or _not_finite("the sketch", update.sketch, (SKETCH_SUMS,))
    else:
        complaint = _not_finite("the move", update.move, broadcast.x.shape)
    if complaint is None and broadcast.spec.slope == "three-point":
        complaint = _not_finite("the curvatures", update.curvatures, (broadcast.spec.slopes,))
    if complaint is None and broadcast.spec.shifted:
        complaint = _not_finite("the changes", update.changes, (broadcast.spec.slopes,))
    if complaint is None and broadcast.spec.queries:
        complaint = _not_finite("the queries", update.queries, (broadcast.spec.queries, broadcast.dimension + 1))
    if complaint is None and update.stiff is not None:
        complaint = _stiff_complaint(update.stiff, broadcast)
    if complaint is not None:
        return complaint
    if update.examples < 1:
        return "malformed", f"examples must be at least 1, got {update.examples}"
    spec = broadcast.spec
    if update.skipped >= spec.local_steps or (update.skipped and not spec.skips_steps):
        return "malformed", f"skipped {update.skipped} of {spec.local_steps} steps with on-error = {spec.on_error}"
    return _count_complaint(update, broadcast)


def _count_complaint(update: Update, broadcast: Broadcast) -> tuple[Cause, str] | None:
    if update.evaluations != (expected := broadcast.evaluations(update.examples)):
        return "malformed", f"evaluations must be {expected}, as many as were asked for, got {update.evaluations}"
    return None


def _values_complaint(update: Update, values: Vector, broadcast: Broadcast) -> tuple[Cause, str] | None:
    lost = int(np.sum(np.isnan(values)))
    if values.shape != (broadcast.answers,) or np.any(np.isinf(values)):
        return "malformed", f"values must be {broadcast.answers} numbers, finite or NaN, got shape {values.shape}"
    if update.examples < 1 or update.skipped != lost:
        return "malformed", f"{lost} values are lost of {update.examples} samples, it says {update.skipped}"
    return _count_complaint(update, broadcast)


def _stiff_complaint(stiff: Matrix, broadcast: Broadcast) -> tuple[Cause, str] | None:
    if not broadcast.spec.tells_stiff:
        return "malformed", "it told stiff directions, which were not asked for"
    complaint = _not_finite("the stiff directions", stiff, (broadcast.dimension, stiff.shape[1]))
    if complaint is None and not np.allclose(np.linalg.norm(stiff, axis=0), 1.0, atol=1e-3):
        return "malformed", "its stiff directions are not of unit length"
    return complaint


def skipped_steps(updates: Sequence[Update]) -> tuple[Skipped, ...]:
    """Return a Skipped for each usable update with steps whose evaluation failed."""
    return tuple(Skipped(u.slot, u.client, u.skipped, u.cause, u.step, u.reason) for u in updates if u.skipped)


def diverged(
    failures: Sequence[Failure], usable: Sequence[Update], asked: Mapping[int, Broadcast], *, tries: bool
) -> list[Failure]:
    """Return the failures, one a slot, that the step size of the slot is to blame for, of clients that were asked.

    A number that is not finite is always one. While step sizes are on trial (``tries``), an exception is one too:
    beyond the range that it was made for, one simulation returns inf and another raises. Two exceptions are not: that
    of the first local step, which is taken at the server's x, and one where a step as long or longer went through.
    """
    longest = max((asked[update.slot].spec.step_size for update in usable), default=0.0)

    def is_one(failure: Failure) -> bool:
        if failure.slot not in asked or asked[failure.slot].client != failure.client:
            return False
        too_long = tries and bool(failure.step) and asked[failure.slot].spec.step_size > longest
        return failure.cause == "not-finite" or (failure.cause in EVALUATION_FAILED and too_long)

    return list({failure.slot: failure for failure in failures if is_one(failure)}.values())


def _not_finite(what: str, array: Vector | None, shape: tuple[int, ...]) -> tuple[Cause, str] | None:
    if array is None or array.shape != shape:
        got = "nothing" if array is None else array.shape
        return "malformed", f"wrong shape: {what} must be {shape}, got {got}"
    if not np.all(np.isfinite(array)):
        return "not-finite", f"{what} must not hold NaN or inf; a smaller step-size or radius usually cures this"
    return None
