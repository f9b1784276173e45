"""From replies to one move: screen what came back, then the mean in slot order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from common.messages import Broadcast, Update
from common.typing import Vector

__all__ = ["Failure", "Skipped", "diverged", "mean_move", "screen", "skipped_steps"]


_RAN_AWAY = ("not a finite number", "non-finite: ")
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
    if update.status != "ok" or update.move is None:
        return update.reason or update.status
    if update.move.shape != broadcast.x.shape:
        return f"wrong shape: the move is {update.move.shape}, x is {broadcast.x.shape}"
    if not np.all(np.isfinite(update.move)):
        return "non-finite: the move holds NaN or inf; a smaller step-size or radius usually cures this"
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
        and any(words in failure.reason for words in _RAN_AWAY)
    }
    return list(found.values())


def mean_move(updates: Sequence[Update], weighting: str) -> Vector:
    """Return the mean of the moves in the order given (Algorithm 1, line 20).

    ``uniform`` weighs slots equally, as the paper does; ``examples`` by the rows of the client's shard.
    """
    weights = [float(update.examples) if weighting == "examples" else 1.0 for update in updates]
    total = None
    with np.errstate(over="ignore", invalid="ignore"):  # ``tell`` looks for the inf of an overflow
        for weight, update in zip(weights, updates, strict=True):
            assert update.move is not None  # screened
            part = weight * update.move
            total = part if total is None else total + part
        assert total is not None
        return total / sum(weights)
