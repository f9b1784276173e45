"""The rules for step sizes and the subspace weight together: what a round is asked with, and what it teaches. Pure.

A key with a number has a fixed rule, a key with ``auto`` a rule that learns from the replies.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from zofedht.common.config.run_config import RunConfig
from zofedht.common.typing import Matrix, Vector
from zofedht.common.wire.messages import Broadcast, Update
from zofedht.server.auto import step_size, subspace_weight
from zofedht.server.auto.interventions import Intervention
from zofedht.server.auto.state import StepState
from zofedht.server.auto.subspace_weight import Pull, WeightState
from zofedht.server.auto.trials import Trial

__all__ = ["AutoState", "Learnt", "Now", "Replies", "begin", "drawn_as", "learn", "renew", "steps", "weight"]


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
    def tries_steps(self) -> bool:
        """Whether the step sizes of the next round are on trial."""
        return self.step is not None and self.step.searching != "done"

    @property
    def needs_moves(self) -> bool:
        """Whether the rules look at the move of each slot."""
        return self.step is not None or self.weight is not None

    def step_found(self, rounds: int) -> float | None:
        """Return the step size that was found; None where none of the ``rounds`` so far was run with it."""
        if self.step is None or self.step.searching != "done" or self.step.began >= rounds:
            return None
        return self.step.step


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
        return [Pull(u.client, u.move / self.asked[u.slot].spec.step_size) for u in self.updates if u.move is not None]


@dataclass(frozen=True)
class Learnt:
    """What a round taught."""

    state: AutoState
    counts: frozenset[int]  # slots whose moves are averaged
    x: Vector | None = None  # where x goes, if not to the mean: (n,)
    travels: bool = True  # whether the move belongs to the trajectory
    interventions: tuple[Intervention, ...] = ()


def begin(config: RunConfig) -> AutoState:
    """Return what the rules know before round 0."""
    return AutoState(
        step=StepState() if config.step_is_auto else None, weight=WeightState() if config.weight_is_auto else None
    )


def drawn_as(state: AutoState, round_: int) -> int:
    """Return the round that names the draw of clients: step sizes that are compared meet the same clients."""
    return round_ if state.step is None else step_size.drawn_as(state.step, round_)


def weight(state: AutoState, now: Now) -> float:
    """Return alpha of the round: 0 without a basis, and while step sizes are raced."""
    if now.rank == 0 or _races(state):
        return 0.0
    if state.weight is None:
        return now.config.weight
    return subspace_weight.weight_of_stretch(state.weight, now.x.shape[0], now.rank)


def steps(state: AutoState, now: Now, slots: int) -> list[float]:
    """Return the step size of each slot of the round."""
    if state.step is None:
        return [now.config.step(now.round, now.evaluations)] * slots
    return step_size.steps(state.step, now.config, now.round, slots, _at_full_weight(state, now), now.progress)


def learn(state: AutoState, now: Now, replies: Replies) -> Learnt:
    """Return what the replies of the round teach: the next state, which slots count, and where x goes."""
    found = _learn_step(state, now, replies)
    # A restored x is not a move, and neither is a move made while step sizes race.
    travels = not _races(state) and (found is None or found.restored is None)
    return Learnt(
        AutoState(None if found is None else found.state, _learn_weight(state, now, replies, travels)),
        frozenset(
            update.slot
            for update in replies.updates
            if found is None or replies.asked[update.slot].spec.step_size <= found.longest
        ),
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


def _races(state: AutoState) -> bool:
    return state.step is not None and state.step.racing


def _at_full_weight(state: AutoState, now: Now) -> bool:
    """Whether directions follow a basis as much as they may; where the weight is auto that can come in small steps."""
    return weight(state, now) > 0.99 * now.config.weight > 0.0  # auto finds its weight up to rounding


def _learn_step(state: AutoState, now: Now, replies: Replies) -> step_size.Findings | None:
    if state.step is None:
        return None
    trials = {update.slot: _trial(update, replies.asked[update.slot]) for update in replies.updates}
    for slot in replies.diverged:
        trials[slot] = Trial(replies.asked[slot].spec.step_size, math.inf, client=replies.asked[slot].client)
    in_order = [trials[slot] for slot in sorted(trials)]
    fully = _at_full_weight(state, now)
    return step_size.learn(state.step, now.config, now.round, now.x, in_order, fully, now.progress)


def _trial(update: Update, asked: Broadcast) -> Trial:
    assert update.move is not None  # screened
    start_loss = update.start_loss if math.isfinite(update.start_loss) else math.inf
    if not (math.isfinite(update.loss) and math.isfinite(start_loss)):
        return Trial(asked.spec.step_size, math.inf, client=update.client, start_loss=start_loss)
    # |move|^2 = eta^2 sum_k c_k^2 |v_k|^2, up to products of different directions, and |v|^2 is about n.
    with np.errstate(over="ignore"):
        squares = float(update.move @ update.move) / (asked.spec.step_size**2 * update.move.shape[0])
    explained = asked.spec.step_size * squares * (1.0 - 1.0 / asked.spec.local_steps) / 2.0
    return Trial(asked.spec.step_size, update.loss, explained, update.client, start_loss)


def _learn_weight(state: AutoState, now: Now, replies: Replies, travels: bool) -> WeightState | None:
    if state.weight is None:
        return None
    losses = [update.start_loss for update in replies.updates]
    weighing = subspace_weight.hear(state.weight, float(np.mean(losses)) if losses and travels else math.nan)
    return weighing if now.basis is None else subspace_weight.observe(weighing, now.basis, replies.pulls)
