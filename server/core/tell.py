"""The server's second verb: tell (Algorithm 1, lines 19-22). A pure function."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from zofedht.common.config.run_config import RunConfig
from zofedht.common.directions.trajectory import basis_of
from zofedht.common.errors import ZofedhtError
from zofedht.common.replay import landed
from zofedht.common.typing import Vector
from zofedht.common.wire.messages import Broadcast, Update
from zofedht.server import auto
from zofedht.server.aggregation.combine import combine
from zofedht.server.aggregation.means import mean_move
from zofedht.server.aggregation.replays import Replays
from zofedht.server.aggregation.screening import Failure, diverged, screen
from zofedht.server.auto import Intervention
from zofedht.server.core.ask import now
from zofedht.server.core.guide import with_guide, with_next_guide
from zofedht.server.core.in_place import tell_lengths
from zofedht.server.core.mean_of_rows import mean_of_row
from zofedht.server.core.outcome import Outcome
from zofedht.server.core.points import tell_points
from zofedht.server.core.state import ServerState
from zofedht.server.rows.pool import Pool, advanced, x_of
from zofedht.server.rows.server_step import Moments, server_step

__all__ = ["tell"]


def tell(
    state: ServerState,
    updates: Sequence[Update],
    asked: Mapping[int, Broadcast],
    config: RunConfig,
    replays: Replays | None = None,
) -> tuple[ServerState | None, Outcome]:
    """Average the usable updates and move on (Algorithm 1, lines 19-22).

    Returns (next state, outcome), or (None, outcome) when there are fewer usable replies than
    min-replies: then the state given is still the state, since a failed round is not a move. Where step-size is
    auto, slots that diverged are replies, from which it learns. ``replays`` are those of this attempt, where its
    slopes were checked before.
    """
    if config.asks_points:
        return tell_points(state, updates, asked, config)
    replays = replays or Replays()
    usable, failures = _screened(state, updates, asked, config, replays)  # line 19: the slots in their order
    while True:
        try:
            with np.errstate(all="ignore"):  # what overflows is looked for
                if config.in_place:
                    following, outcome = tell_lengths(state, config, usable, failures, asked)
                else:
                    following, outcome = _told(state, usable, failures, asked, config, replays)
                if following is not None:
                    _check_next(following, config)
                return following, outcome
        except ZofedhtError:
            raise
        except Exception as error:  # whatever numbers a client sends, they cost its slot and not the run
            if not usable:
                raise
            worst = max(usable, key=_largest)
            text = f"its numbers cannot be used ({type(error).__name__}: {error}); a smaller step-size may cure this"
            failures = [*failures, Failure(worst.round, worst.slot, worst.client, "unusable", text)]
            usable = [update for update in usable if update is not worst]


def _told(
    state: ServerState,
    usable: list[Update],
    failures: list[Failure],
    asked: Mapping[int, Broadcast],
    config: RunConfig,
    replays: Replays,
) -> tuple[ServerState | None, Outcome]:
    lost = {f.slot for f in diverged(failures, usable, asked, tries=True)} if state.auto.measures_steps else set()
    if len(usable) + len(lost) < config.min_replies:
        return None, Outcome(len(usable), tuple(failures))
    if state.auto.needs_moves:
        usable = replays.with_moves(usable, asked, state.basis)
    replies = auto.Replies(usable, asked, lost)
    learnt = auto.learn(state.auto, now(state, config), replies)
    counted = [update for update in usable if asked[update.slot].spec.step_size > 0.0]
    combined = combine(counted, asked, config, replays, state.basis, state.lengths, secret=state.secret)  # line 20
    contributions = combined.contributions
    mean = mean_move([(one.weight, one.move) for one in contributions]) if contributions else None
    kept: dict[str, Any] = {}
    if mean is not None:
        mean, kept = mean_of_row(state, mean, counted, asked, config, replays)
    x, move, moments = _moved(state, mean, config)  # line 21: x_{r+1} and Delta_r
    pool = state.pool
    if pool is not None and mean is not None:
        pool = advanced(pool, contributions, asked, state.basis)
        x = x_of(pool, config, state.units)
    if not (np.all(np.isfinite(x)) and moments.finite):
        return None, Outcome.of_overflow(usable, failures, "moves")
    following = replace(
        state,
        round=state.round + 1,
        x=x if learnt.x is None else learnt.x,
        totals=replace(state.totals, evaluations=state.totals.evaluations + sum(u.evaluations for u in usable)),
        auto=learnt.state,
        lengths=combined.medians,
        moments=moments,
        pool=pool if learnt.x is None or pool is None else Pool.at(learnt.x, config.pool_size),
        **kept,
    )
    following, changes = _remember(following, move if learnt.travels else None, config, replies)
    travelled = mean if learnt.travels else None
    following = with_next_guide(following, state, travelled, counted, usable, asked, config)
    lengths = contributions[0].lengths if len(contributions) == 1 and learnt.travels else None
    interventions = learnt.interventions + changes
    return following, Outcome.of_steps(usable, failures, combined, interventions=interventions, lengths=lengths)


def _check_next(following: ServerState, config: RunConfig) -> None:
    """Raise an error now where the rules could not say how the next round steps: then it is this round's."""
    known = now(following, config)
    if config.is_over(following.round, known.evaluations):
        return
    weight = auto.weight(following.auto, known)
    step_size = auto.spec(following.auto, known)["step_size"]
    if not (math.isfinite(step_size) and 0.0 <= weight <= 1.0):
        raise ArithmeticError(f"the next step size would be {step_size}, and the weight {weight}")


def _largest(update: Update) -> float:
    """Return the largest number of an update; that of a NaN is infinite."""
    arrays = [array for array in (update.move, update.slopes) if array is not None and array.size]
    sizes = [abs(update.loss), abs(update.start_loss), *(float(np.max(np.abs(array))) for array in arrays)]
    return max(math.inf if math.isnan(size) else size for size in sizes)


def _screened(
    state: ServerState,
    updates: Sequence[Update],
    asked: Mapping[int, Broadcast],
    config: RunConfig,
    replays: Replays,
) -> tuple[list[Update], list[Failure]]:
    """Return the usable updates in the order of slots, and a failure for each of the others."""
    usable, failures = screen(updates, asked)
    if config.in_place:
        return usable, failures  # whose draws differ was refused at the door
    if config.secure_aggregation:
        return usable, failures  # each has the mean of all: whose directions differ was asked before
    wrong = replays.mismatches(usable, asked, state.basis, config.weighting)
    slots = {failure.slot for failure in wrong}
    return [update for update in usable if update.slot not in slots], failures + wrong


def _moved(state: ServerState, mean: Vector | None, config: RunConfig) -> tuple[Vector, Vector | None, Moments]:
    """Return where the server step leads from the mean move, the move that this was, and what is remembered.

    Where nothing moved these are x itself, None, and what was remembered before.
    """
    if mean is None:
        return state.x, None, state.moments
    step, moments = server_step(mean, state.moments, config)
    return *landed(state.x, step, state.units), moments


def _remember(
    state: ServerState, move: Vector | None, config: RunConfig, replies: auto.Replies
) -> tuple[ServerState, tuple[Intervention, ...]]:
    """Add the move to the trajectory, and make Q anew in every refresh; ``state`` is the next round's."""
    if config.weight == 0.0:
        return state, ()
    trajectory = state.trajectory if move is None else (*state.trajectory, move)[-config.memory :]
    if state.round % config.refresh or not trajectory:
        return replace(state, trajectory=trajectory), ()
    following = with_guide(state, basis_of(trajectory), config)  # lines 5 and 6: r in {tau, 2 tau, ...}
    assert following.basis is not None  # it was just made
    rules, changes = auto.renew(state.auto, state.basis, following.basis, replies)
    return replace(following, trajectory=trajectory, auto=rules), changes
