"""From replies to one move: screen what came back, then the mean in slot order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from zofedht.common.replay import PARTS
from zofedht.common.typing import Vector
from zofedht.common.wire.messages import Broadcast, Update

__all__ = ["RAN_AWAY", "Failure", "Skipped", "diverged", "mean_move", "screen", "skipped_steps", "weight_of"]


RAN_AWAY = ("not a finite number", "non-finite: ")
"""In the reasons of a client's local steps, and of the screening here."""


@dataclass(frozen=True)
class Failure:
    """A slot that gave nothing usable, and why."""

    slot: int
    client: str
    reason: str


@dataclass(frozen=True)
class Skipped:
    """A usable slot in which some steps were skipped, and why the first of them was."""

    slot: int
    client: str
    steps: int
    reason: str


def screen(updates: Sequence[Update], asked: Mapping[int, Broadcast]) -> tuple[list[Update], list[Failure]]:
    """Return the usable updates in slot order, and a Failure for each of the others.

    ``asked`` maps each slot of the round to its broadcast. Float sums depend on their order, so the
    order of arrival must not survive.
    """
    usable: dict[int, Update] = {}
    failures = []
    for update in sorted(updates, key=lambda u: (u.slot, u.client)):
        reason = _complaint(update, asked)
        if reason is None and update.slot in usable:
            reason = "a second reply for the same slot"
        if reason is None:
            usable[update.slot] = update
        else:
            failures.append(Failure(update.slot, update.client, reason))
    return list(usable.values()), failures


def _complaint(update: Update, asked: Mapping[int, Broadcast]) -> str | None:
    if update.slot not in asked:
        return f"stale: slot {update.slot} was not asked in this round"
    broadcast = asked[update.slot]
    if update.round != broadcast.round:
        return f"stale: answered round {update.round}, asked was round {broadcast.round}"
    if update.client != broadcast.client:
        return f"answered by client {update.client}, asked was client {broadcast.client}"
    if update.status != "ok":
        return update.reason or update.status
    if (update.slopes is not None) != (broadcast.uplink == "slopes"):
        return f"asked for its {broadcast.uplink}, it sent {'slopes' if update.slopes is not None else 'a move'}"
    if update.dtype != broadcast.dtype:
        return f"asked for {broadcast.dtype}, it sent {update.dtype}"
    if update.slopes is not None:
        complaint = _not_finite("the slopes", update.slopes, (broadcast.local_steps,))
        complaint = complaint or _not_finite("the sketch", update.sketch, (PARTS,))
    else:
        complaint = _not_finite("the move", update.move, broadcast.x.shape)
    if complaint is not None:
        return complaint
    if update.examples < 1:
        return f"examples must be at least 1, got {update.examples}"
    if update.skipped >= broadcast.local_steps or (update.skipped and broadcast.on_error != "skip-step"):
        return f"skipped {update.skipped} of {broadcast.local_steps} steps with on-error = {broadcast.on_error}"
    return None


def skipped_steps(updates: Sequence[Update]) -> tuple[Skipped, ...]:
    """Return a Skipped for each usable update with steps whose evaluation failed."""
    return tuple(Skipped(u.slot, u.client, u.skipped, u.reason) for u in updates if u.skipped)


def diverged(failures: Sequence[Failure], asked: Mapping[int, Broadcast]) -> list[Failure]:
    """Return the failures, one a slot, of clients that were asked and whose numbers ran away."""
    found = {
        failure.slot: failure
        for failure in failures
        if failure.slot in asked
        and asked[failure.slot].client == failure.client
        and any(words in failure.reason for words in RAN_AWAY)
    }
    return list(found.values())


def _not_finite(what: str, array: Vector | None, shape: tuple[int, ...]) -> str | None:
    got = "nothing" if array is None else array.shape
    if array is None or array.shape != shape:
        return f"wrong shape: {what} must be {shape}, got {got}"
    if not np.all(np.isfinite(array)):
        return f"non-finite: {what} must not hold NaN or inf; a smaller step-size or radius usually cures this"
    return None


def weight_of(update: Update, weighting: str) -> float:
    """Return a slot's weight: 1 where they weigh equally, as in the paper; for ``examples`` the client's rows."""
    return float(update.examples) if weighting == "examples" else 1.0


def mean_move(parts: Sequence[tuple[float, Vector]]) -> Vector:
    """Return the weighted mean of moves, (weight, move) each, in the order given (Algorithm 1, line 20)."""
    if len(parts) == 1:  # as it is: w m / w would round
        return parts[0][1]
    total = None
    with np.errstate(over="ignore", invalid="ignore"):  # ``tell`` looks for the inf of an overflow
        for weight, move in parts:
            part = weight * move
            total = part if total is None else total + part
        assert total is not None
        return total / sum(weight for weight, _ in parts)
