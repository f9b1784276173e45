"""The guide of the next round: what the laws of directions are made from. Pure.

A basis is given by the trajectory, stiff directions are told by clients, and the cone and the diagonal are learnt:

cone:      m <- b^K m + (1 - b^K) d, with d the mean move of the round and K its local steps; the guide is m / |m|.
           The source smooths c v in every step with b = .99; K steps are one move here (ConMeZO, Behric et al. 2025).
subset:    the ``subset-share`` of the parameters that moved farthest in the first ``refresh`` rounds; then it is fixed.
           The source takes those of the largest gradients before the run (Meerkat, Ran et al. 2026).
diagonal:  h <- b h + (1 - b) g^2, with g = -d / (eta K q) the mean of c v, and h = 1 at first; the guide is h, at
           least the floor. The source takes g from the last step and has no floor (HiSo, Li et al. 2026).
           Or h <- b h + (1 - b) D, where the curvatures v'Hv of a round tell the Hessian's diagonal D. With
           v = u / sqrt(h), D is the mean of v'Hv (u^2 - 1) h / 2 (ZOHA, Ye et al. 2018) or of |v'Hv| u^2 h / 2
           (HiZOO, Zhao et al. 2025).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from zofedht.common.config.run_config import RunConfig
from zofedht.common.config.step_spec import StepSpec
from zofedht.common.objective.stiff import stiff_guide
from zofedht.common.typing import Matrix, Vector
from zofedht.common.wire.arrays import rounded
from zofedht.common.wire.messages import NO_BASIS, Broadcast, Update
from zofedht.server.aggregation.replays import draws_alike
from zofedht.server.core.state import ServerState
from zofedht.server.rows.learnt_shrink import learns_in, learnt_direction, told_changes
from zofedht.server.rows.pool import learnt_chances
from zofedht.server.rows.second_order import directions_of
from zofedht.server.rows.stiff import StiffDirections, pulled, window

__all__ = [
    "asks_stiff",
    "guide_of",
    "learn",
    "mean_diagonal",
    "with_curved_guide",
    "with_guide",
    "with_learnt_guide",
    "with_next_guide",
    "with_shrunk",
    "with_stiff_guide",
]


def with_guide(state: ServerState, guide: Matrix, config: RunConfig) -> ServerState:
    """Return the next round's state with this guide, (n, any number), as it arrives at clients."""
    return replace(state, basis=rounded(guide, config.wire_dtype), basis_version=state.round)


def with_next_guide(
    following: ServerState,
    state: ServerState,
    mean: Vector | None,
    counted: Sequence[Update],
    usable: Sequence[Update],
    asked: Mapping[int, Broadcast],
    config: RunConfig,
) -> ServerState:
    """Return the next round's state with the guide that the row learns from a round, if it learns one.

    ``state`` is that of the round, and ``mean`` the move that x made, None where it made none. ``counted`` are the
    updates with steps of some length, ``usable`` all of them.
    """
    spec = next(iter(asked.values())).spec  # all slots of a round take the same steps
    if mean is not None:
        following = with_learnt_guide(following, mean, spec, config)
        following = with_curved_guide(following, counted, asked, state.basis, config)
    if following.pool is not None and config.row.learns == "chances":
        known, chances = learnt_chances(following.pool, counted, asked, state.basis)
        following = with_guide(replace(following, pool=known), chances, config)
    if state.learning is not None and learns_in(state.learning, state.round, config):
        learning = told_changes(state.learning, usable, asked, state.basis, state.round, config)
        following = replace(following, learning=learning)
    if asks_stiff(state, config):
        return with_stiff_guide(following, usable, config)
    if state.stiff is None or mean is None:
        return following
    return with_shrunk(following, pulled(state.stiff, mean, spec.step_size, window(config)), config)


def asks_stiff(state: ServerState, config: RunConfig) -> bool:
    """Whether the round ends the warm-up of a run that shrinks, or is a later one and no client knew a direction yet.

    What is shrunk is hardly travelled, so the way along stiff directions is made before. A run that would learn a
    direction asks in its first round as well.
    """
    unknown = config.row.shrinks and state.stiff is None and not config.in_place  # there all clients know the same
    return unknown and (state.round + 1 >= config.warm_up_rounds or (state.round == 0 and state.learning is not None))


def with_stiff_guide(state: ServerState, usable: Sequence[Update], config: RunConfig) -> ServerState:
    """Return the next round's state with the stiff directions that clients told, or that were learnt, as guide."""
    told = [update.stiff for update in usable if update.stiff is not None]
    if state.round < config.warm_up_rounds:  # the first round: whoever names directions need not learn one
        return replace(state, learning=None) if told else state
    guide = stiff_guide(told) if told else None if state.learning is None else learnt_direction(state.learning)
    return state if guide is None or guide.shape[1] == 0 else with_shrunk(state, StiffDirections.of(guide), config)


def with_shrunk(state: ServerState, stiff: StiffDirections, config: RunConfig) -> ServerState:
    """Return the next round's state with these stiff directions; the guide holds those that are shrunk along."""
    following = replace(state, stiff=stiff)
    if state.stiff is not None and stiff.shrunk == state.stiff.shrunk:
        return following
    if not any(stiff.shrunk):
        return replace(following, basis=None, basis_version=NO_BASIS)
    return with_guide(following, stiff.guide, config)


def with_learnt_guide(state: ServerState, mean: Vector, spec: StepSpec, config: RunConfig) -> ServerState:
    """Return the next round's state with a guide learnt from the mean move, where the law learns one.

    ``spec`` is how the round's steps were taken; where they had no length the state is as it was.
    """
    if config.row.learns == "subset" and state.round > config.refresh:
        return state  # it is fixed
    if config.row.learns not in ("moves", "squares", "subset") or spec.step_size == 0.0:
        return state
    following = replace(state, learnt=learn(state.learnt, mean, spec, config))
    if config.row.learns == "subset" and state.round < config.refresh:
        return following
    guide = guide_of(following.learnt, config)
    return following if guide is None else with_guide(following, guide, config)


def with_curved_guide(
    state: ServerState,
    updates: Sequence[Update],
    asked: Mapping[int, Broadcast],
    used: Matrix | None,
    config: RunConfig,
) -> ServerState:
    """Return the next round's state with a diagonal learnt from the round's v'Hv, where the law learns one.

    ``used`` is the guide of the round.
    """
    if not config.row.learns.startswith("curvature"):
        return state
    mean = mean_diagonal(updates, asked, used, sizes=config.row.learns == "curvature-sizes")
    if mean is None or not np.all(np.isfinite(mean)):
        return state
    before = np.ones_like(mean) if state.learnt is None else state.learnt
    following = replace(state, learnt=config.guide_decay * before + (1.0 - config.guide_decay) * mean)  # HiZOO's eq. 5
    guide = guide_of(following.learnt, config)
    return following if guide is None else with_guide(following, guide, config)


def mean_diagonal(
    updates: Sequence[Update], asked: Mapping[int, Broadcast], used: Matrix | None, *, sizes: bool
) -> Vector | None:
    """Return the mean over all directions of a round of what each tells about the diagonal of the Hessian, (n,).

    With v = u / sqrt(h): v'Hv (u^2 - 1) h / 2, whose mean is the diagonal for normal u; of ``sizes`` |v'Hv| u^2 h / 2.
    """
    total, count = None, 0
    with np.errstate(over="ignore", invalid="ignore"):
        for update in updates:
            if update.curvatures is None or not draws_alike(update):
                continue
            broadcast = asked[update.slot]
            h = np.ones(broadcast.dimension) if used is None else used[:, 0]
            total = np.zeros(broadcast.dimension) if total is None else total
            directions = (v for block in directions_of(broadcast, used) for v in block)
            for v, found in zip(directions, update.curvatures, strict=True):
                total += 0.5 * h * (abs(found) * v * v * h if sizes else found * (v * v * h - 1.0))  # HiZOO's eq. 3
            count += len(update.curvatures)
    return None if total is None else total / count


def learn(learnt: Vector | None, mean_move: Vector, spec: StepSpec, config: RunConfig) -> Vector | None:
    """Return m or h after a round, (n,), or None where the law has none; what overflows is not learnt.

    ``spec`` is how the round's steps were taken.
    """
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        match config.row.learns:
            case "moves":
                kept = config.guide_decay**spec.local_steps
                after = (1.0 - kept) * mean_move
                if learnt is not None:
                    after = kept * learnt + after
            case "subset":
                after = mean_move if learnt is None else learnt + mean_move
            case "squares":
                mean_slope = mean_move / (spec.step_size * spec.slopes)
                before = np.ones_like(mean_move) if learnt is None else learnt
                after = config.guide_decay * before + (1.0 - config.guide_decay) * mean_slope * mean_slope  # eq. 12
            case _:
                return None
    return after if np.all(np.isfinite(after)) else learnt


def guide_of(learnt: Vector | None, config: RunConfig) -> Matrix | None:
    """Return the guide as a column, (n, 1), or None where there is no use in one."""
    if learnt is None:
        return None
    if config.row.law == "diagonal":
        return np.maximum(learnt, config.guide_floor)[:, None]
    if config.row.learns == "subset":
        kept = max(1, round(config.subset_share * len(learnt)))
        subset = np.zeros_like(learnt)
        subset[np.argsort(-np.abs(learnt), kind="stable")[:kept]] = 1.0
        return subset[:, None]
    largest = float(np.max(np.abs(learnt)))
    if largest == 0.0:
        return None
    scaled = learnt / largest  # squares of tiny moves would underflow
    return (scaled / np.linalg.norm(scaled))[:, None]
