"""The rules for step sizes and the subspace weight together: what a round is asked with, and what it teaches. Pure.

A key with a number has a fixed rule, a key with ``auto`` a rule that learns from the replies.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import astuple, dataclass, replace

import numpy as np

from zofedht.common.config.run_config import RunConfig
from zofedht.common.config.step_spec import StepSpec
from zofedht.common.typing import Matrix, Vector
from zofedht.common.wire.messages import Broadcast, Update
from zofedht.server.auto import step_size, subspace_weight
from zofedht.server.auto.interventions import Intervention
from zofedht.server.auto.step_size import Look, StepState
from zofedht.server.auto.subspace_weight import Pull, WeightState

__all__ = ["AutoState", "Learnt", "Now", "Replies", "begin", "learn", "renew", "spec", "weight"]

_FIRST = 5  # slopes of a slot before there is a step size
_LARGEST = 1e150  # of a number that a slot measures
_MEASURED = 10  # every so-manieth local step tells how far the loss falls


@dataclass(frozen=True)
class AutoState:
    """What the rules remember from round to round; None for a key that is a number."""

    step: StepState | None = None
    weight: WeightState | None = None

    @property
    def measures_steps(self) -> bool:
        """Whether step sizes are found by the run: then a slot that diverged is a reply that teaches."""
        return self.step is not None

    @property
    def needs_moves(self) -> bool:
        """Whether the rules look at the move of each slot."""
        return self.weight is not None

    @property
    def searching(self) -> bool:
        """Whether the step sizes are not yet what the curvature allows."""
        return self.step is not None and self.step.ramping

    @property
    def step_found(self) -> float | None:
        """The base of the step sizes, where the run has found one."""
        return self.step.base or None if self.step is not None else None


@dataclass(frozen=True)
class Now:
    """Where a run stands before a round."""

    config: RunConfig
    round: int  # r, 0-based
    evaluations: int  # spent until then
    x: Vector  # x_r: (n,)
    basis: Matrix | None  # Q: (n, tau')

    @property
    def progress(self) -> float:
        """The part of the run that is over."""
        return self.config.progress(self.round, self.evaluations)

    @property
    def rank(self) -> int:
        """tau', the number of columns of Q."""
        return 0 if self.basis is None else int(self.basis.shape[1])


@dataclass(frozen=True)
class Replies:
    """What the slots of a round gave."""

    updates: Sequence[Update]  # usable, in the order of slots; with moves where the rules need them
    asked: Mapping[int, Broadcast]  # by slot
    diverged: Collection[int] = ()  # slots whose numbers were not finite

    @property
    def pulls(self) -> list[Pull]:
        """Where each slot went, divided by its step size."""
        return [
            Pull(u.client, u.move / self.asked[u.slot].spec.step_size)
            for u in self.updates
            if u.move is not None and self.asked[u.slot].spec.step_size > 0.0
        ]


@dataclass(frozen=True)
class Learnt:
    """What a round taught."""

    state: AutoState
    x: Vector | None = None  # where x goes, if not to the mean: (n,)
    travels: bool = True  # whether the move belongs to the trajectory
    interventions: tuple[Intervention, ...] = ()


def begin(config: RunConfig) -> AutoState:
    """Return what the rules know before round 0."""
    return AutoState(
        step=StepState() if config.step_is_auto else None, weight=WeightState() if config.weight_is_auto else None
    )


def weight(state: AutoState, now: Now) -> float:
    """Return alpha of the round: 0 without a basis."""
    if now.rank == 0:
        return 0.0
    if state.weight is None:
        return now.config.weight
    return subspace_weight.weight_of_stretch(state.weight, now.x.shape[0], now.rank)


def spec(state: AutoState, now: Now) -> dict[str, float | int]:
    """Return how the steps of a round are asked for, as far as it is for the rules to say."""
    if state.step is None:
        return {"step_size": now.config.step(now.round, now.evaluations)}
    if state.step.base == 0.0:
        return {"step_size": 0.0, "measured": 1, "local_steps": min(_FIRST, now.config.local_steps)}
    step = step_size.planned(state.step, now.config.step_schedule, now.round, now.progress)
    return {"step_size": step, "measured": _MEASURED}


def learn(state: AutoState, now: Now, replies: Replies) -> Learnt:
    """Return what the replies of the round teach: the next state, and where x goes."""
    found = _learn_step(state, now, replies)
    moved = any(replies.asked[update.slot].spec.step_size for update in replies.updates)
    travels = found is None or (moved and found.restored is None)
    return Learnt(
        AutoState(None if found is None else found.state, _learn_weight(state, now, replies, travels)),
        None if found is None else found.restored,
        travels,
        () if found is None else found.interventions,
    )


def renew(
    state: AutoState, old: Matrix | None, new: Matrix, replies: Replies
) -> tuple[AutoState, tuple[Intervention, ...]]:
    """Return the state for a Q that was made anew, (n, tau'), and what changes with it; ``old`` is the Q before."""
    if state.weight is None:
        return state, ()
    weighing = state.weight
    if old is None:  # nothing was seen along Q yet but this round, of which Q is made
        weighing = subspace_weight.observe(weighing, new, replies.pulls)
    rank = 0 if old is None else int(old.shape[1])
    weighing, changes = subspace_weight.refreshed(weighing, new.shape[0], rank, int(new.shape[1]))
    return replace(state, weight=weighing), changes


def _learn_step(state: AutoState, now: Now, replies: Replies) -> step_size.Findings | None:
    if state.step is None:
        return None
    looks = [look for update in replies.updates if (look := _look(update, replies.asked[update.slot].spec))]
    lost = len(replies.diverged) + len(replies.updates) - len(looks)
    after = now.config.progress(now.round + 1, now.evaluations + sum(u.evaluations for u in replies.updates))
    part = after - now.progress
    return step_size.learn(state.step, now.x, looks, lost, now.config.radius, part, after)


def _look(update: Update, asked: StepSpec) -> Look | None:
    """Return what a slot measured, None where its numbers are none."""
    squares = update.squares / -(-asked.local_steps // asked.measured)
    look = Look(asked.local_steps, asked.step_size, squares, update.bent, update.lengths, update.gap)
    return look if all(abs(number) < _LARGEST for number in (*astuple(look), look.promised)) else None


def _learn_weight(state: AutoState, now: Now, replies: Replies, travels: bool) -> WeightState | None:
    if state.weight is None:
        return None
    losses = [update.start_loss for update in replies.updates]
    weighing = subspace_weight.hear(state.weight, float(np.mean(losses)) if losses and travels else math.nan)
    return weighing if now.basis is None else subspace_weight.observe(weighing, now.basis, replies.pulls)
