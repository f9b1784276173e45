"""The server's state and its two verbs, ask and tell. Pure functions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from zofedht.common.config.run_config import RunConfig
from zofedht.common.directions.law import gain
from zofedht.common.directions.trajectory import basis_of
from zofedht.common.objective.scaling import Units
from zofedht.common.random.streams import stream
from zofedht.common.replay import landed
from zofedht.common.typing import Matrix, Vector
from zofedht.common.wire.messages import NO_BASIS, OWN_ROWS, Broadcast, Member, Update, basis_digest, rounded
from zofedht.server.auto import step_size, subspace_weight
from zofedht.server.auto.interventions import Intervention
from zofedht.server.auto.step_size import StepState
from zofedht.server.auto.subspace_weight import Pull, WeightState
from zofedht.server.auto.trials import Trial
from zofedht.server.core.aggregation import Failure, Skipped, diverged, mean_move, screen, skipped_steps
from zofedht.server.core.replays import Replays
from zofedht.server.core.selection import select

__all__ = [
    "Outcome",
    "ServerState",
    "Totals",
    "ask",
    "given_to",
    "initial_state",
    "initial_vector",
    "tell",
    "weight_now",
]


@dataclass(frozen=True)
class Totals:
    """What the run has cost so far; a round depends on nothing of it but the evaluations, by budget and schedule."""

    evaluations: int = 0  # single-sample evaluations that the algorithm asked for
    bytes_up: int = 0
    bytes_down: int = 0
    seconds: float = 0.0


@dataclass(frozen=True)
class ServerState:
    """All that the next round depends on. It is the checkpoint; nothing random is in it."""

    round: int  # r, the next round, 0-based
    x: Vector  # x_r: (n,)
    window: tuple[Vector, ...] = ()  # Delta_{r-tau}..Delta_{r-1}, the newest last
    basis: Matrix | None = None  # Q: (n, tau')
    version: int = NO_BASIS  # round in which Q was made
    totals: Totals = field(default_factory=Totals)
    units: Units | None = None  # of a black box that has a scale or bounds: x, moves and Q are in these
    stepping: StepState | None = None  # where step-size is auto
    weighing: WeightState | None = None  # where subspace-weight is auto

    @property
    def user_x(self) -> Vector:
        """x in the user's units, (n,): what is exported."""
        return self.x if self.units is None else self.units.to_user(self.x)

    @property
    def rank(self) -> int:
        """tau', the number of columns of Q."""
        return 0 if self.basis is None else int(self.basis.shape[1])


@dataclass(frozen=True)
class Outcome:
    """What a round gave: usable slots, failures, the probes' mean loss, skipped steps, and what auto rules changed."""

    usable: int
    failures: tuple[Failure, ...]
    loss: float = math.nan
    skipped: tuple[Skipped, ...] = ()
    interventions: tuple[Intervention, ...] = ()
    lengths: Vector | None = None  # mean of eta c, where x moved along nothing else: (K,)
    start_loss: float = math.nan  # mean over the usable slots of the loss at x_r, that no local step has touched


def initial_vector(config: RunConfig, dimension: int, own: Vector | None) -> Vector:
    """Return x_0, (n,). ``own`` is what the objective's ``initial`` gave, used by init = auto."""
    match config.init:
        case "ones":
            return np.ones(dimension)
        case "random":
            return stream(config.seed, "initial").standard_normal(dimension) / math.sqrt(dimension)
        case "auto" if own is not None:
            return np.array(own, dtype=np.float64)
        case _:
            return np.zeros(dimension)


def initial_state(config: RunConfig, x: Vector, units: Units | None = None) -> ServerState:
    """Return the state before round 0; x is projected onto the bounds where there are some.

    Raises ConfigError when the trajectory is longer than x.
    """
    config.check_dimension(x.shape[0])
    return ServerState(
        round=0,
        x=x if units is None else units.project(x),
        units=units,
        stepping=StepState() if config.step_is_auto else None,
        weighing=WeightState() if config.weight_is_auto else None,
    )


def ask(state: ServerState, config: RunConfig, members: Sequence[Member], attempt: int = 0) -> list[Broadcast]:
    """Return the round's broadcasts, one a slot, without the basis itself (Algorithm 1, lines 2-5)."""
    chosen = select(
        members,
        config.clients_per_round,
        config.sampling,
        seed=config.seed,
        round_=state.round if state.stepping is None else step_size.drawn_as(state.stepping, state.round),
        attempt=attempt,
    )
    weight = weight_now(state, config)
    follows = weight > 0.0
    sizes = _steps(state, config, len(chosen))
    common = Broadcast(
        round=state.round,
        slot=0,
        client="",
        partition=OWN_ROWS,
        x=rounded(state.x, config.wire_dtype),
        seed=config.seed,
        step_size=sizes[0],
        radius=config.radius,
        local_steps=config.local_steps,
        batch_size=config.batch,
        slope=config.slope,
        probe=config.probe,
        kernel=config.kernel,
        weight=weight,
        gain=gain(config.covariance, state.x.shape[0], state.rank) if follows else 1.0,
        version=state.version if follows else NO_BASIS,
        digest=basis_digest(state.basis) if follows else "",
        rank=state.rank if follows else 0,
        task=config.task,
        on_error=config.on_error,
        units="" if state.units is None else state.units.digest,
        dtype=config.wire_dtype,
        direction_slot=0 if config.directions == "shared" else None,
    )
    return [
        given_to(replace(common, slot=slot, step_size=sizes[slot]), member, config)
        for slot, member in enumerate(chosen)
    ]


def weight_now(state: ServerState, config: RunConfig) -> float:
    """Return alpha of the state's round; 0 without a basis, as before the first refresh, and while steps are raced."""
    if state.rank == 0 or _races(state):
        return 0.0
    if state.weighing is None:
        return config.weight
    return subspace_weight.weight_of_stretch(state.weighing, state.x.shape[0], state.rank)


def _races(state: ServerState) -> bool:
    return state.stepping is not None and state.stepping.racing


def _at_full_weight(state: ServerState, config: RunConfig) -> bool:
    """Whether directions follow a basis as much as they may; where the weight is auto that can come in small steps."""
    return weight_now(state, config) > 0.99 * config.weight > 0.0  # auto finds its weight up to rounding


def _steps(state: ServerState, config: RunConfig, slots: int) -> list[float]:
    if state.stepping is None:
        return [config.step(state.round, state.totals.evaluations)] * slots
    fully = _at_full_weight(state, config)
    return step_size.steps(state.stepping, config, state.round, slots, fully, _progress(state, config))


def _progress(state: ServerState, config: RunConfig) -> float:
    return config.progress(state.round, state.totals.evaluations)


def given_to(broadcast: Broadcast, member: Member, config: RunConfig) -> Broadcast:
    """Return a slot's broadcast for this client, without the basis."""
    uplink = "move" if member.moves_only else config.uplink
    return replace(broadcast, client=member.name, partition=member.partition, basis=None, uplink=uplink)


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
    replays = replays or Replays()
    usable, failures = screen(updates, asked)
    wrong = replays.mismatches(usable, asked, state.basis, config.weighting)
    failures += wrong
    slots = {failure.slot for failure in wrong}
    usable = [update for update in usable if update.slot not in slots]
    lost = diverged(failures, asked) if state.stepping else []
    if len(usable) + len(lost) < config.min_replies:
        return None, Outcome(len(usable), tuple(failures))
    if state.stepping is not None or state.weighing is not None:  # their rules look at each client's move
        usable = replays.with_moves(usable, asked, state.basis)
    learnt = _learn(state, usable, lost, asked, config)
    kept = [update for update in usable if asked[update.slot].step_size <= learnt.longest]
    parts = replays.parts(kept, asked, state.basis, config.weighting)
    move: Vector | None = None
    x = state.x
    if parts:
        mean = mean_move([(part.weight, part.move) for part in parts])
        x, move = landed(state.x, mean, state.units)  # line 21
    if not np.all(np.isfinite(x)):
        failures += [Failure(u.slot, u.client, "the mean of the moves overflows; lower step-size") for u in usable]
        return None, Outcome(0, tuple(failures))
    loss, start_loss = _mean([u.loss for u in usable]), _mean([u.start_loss for u in usable])
    # A way back is none that was travelled, and one on trial may not be.
    off_trail = learnt.restored is not None or _races(state)
    lengths = parts[0].lengths if len(parts) == 1 and not off_trail else None
    totals = replace(state.totals, evaluations=state.totals.evaluations + sum(u.evaluations for u in usable))
    following = replace(
        state,
        round=state.round + 1,
        x=x if learnt.restored is None else learnt.restored,
        totals=totals,
        stepping=learnt.state if state.stepping else None,
    )
    interventions = learnt.interventions
    if off_trail:
        move = None
    if config.weight > 0.0:
        following, changes = _remember(following, move, usable, asked, config, math.nan if off_trail else start_loss)
        interventions += changes
    skipped = skipped_steps(usable)
    return following, Outcome(len(usable), tuple(failures), loss, skipped, interventions, lengths, start_loss)


def _mean(losses: Sequence[float]) -> float:
    return float(np.mean(losses)) if losses else math.nan


def _learn(
    state: ServerState,
    usable: Sequence[Update],
    lost: Sequence[Failure],
    asked: Mapping[int, Broadcast],
    config: RunConfig,
) -> step_size.Findings:
    if state.stepping is None:
        return step_size.Findings(StepState(), math.inf)
    trials = {update.slot: _trial(update, asked[update.slot]) for update in usable}
    trials |= {failure.slot: Trial(asked[failure.slot].step_size, math.inf, client=failure.client) for failure in lost}
    in_order = [trials[slot] for slot in sorted(trials)]
    fully = _at_full_weight(state, config)
    return step_size.learn(state.stepping, config, state.round, state.x, in_order, fully, _progress(state, config))


def _trial(update: Update, asked: Broadcast) -> Trial:
    assert update.move is not None  # screened
    start_loss = update.start_loss if math.isfinite(update.start_loss) else math.inf
    if not (math.isfinite(update.loss) and math.isfinite(start_loss)):
        return Trial(asked.step_size, math.inf, client=update.client, start_loss=start_loss)
    # |move|^2 = eta^2 sum_k c_k^2 |v_k|^2, up to products of different directions, and |v|^2 is about n.
    with np.errstate(over="ignore"):
        squares = float(update.move @ update.move) / (asked.step_size**2 * update.move.shape[0])
    explained = asked.step_size * squares * (1.0 - 1.0 / asked.local_steps) / 2.0
    return Trial(asked.step_size, update.loss, explained, update.client, start_loss)


def _remember(
    state: ServerState,
    move: Vector | None,
    usable: Sequence[Update],
    asked: Mapping[int, Broadcast],
    config: RunConfig,
    loss: float,
) -> tuple[ServerState, tuple[Intervention, ...]]:
    """Add the move to the trajectory, and every tau rounds make the basis anew; ``state`` is the next round's."""
    weighing = state.weighing
    pulls = [Pull(u.client, u.move / asked[u.slot].step_size) for u in usable if u.move is not None]
    if weighing is not None:
        weighing = subspace_weight.hear(weighing, loss)
    if weighing is not None and state.basis is not None:
        weighing = subspace_weight.observe(weighing, state.basis, pulls)
    window = state.window if move is None else (*state.window, move)[-config.memory :]
    state = replace(state, window=window, weighing=weighing)
    if state.round % config.memory or not window:
        return state, ()
    basis = rounded(basis_of(window), config.wire_dtype)  # line 3: r in {tau, 2 tau, ...}
    changes: tuple[Intervention, ...] = ()
    if weighing is not None:
        if state.basis is None:  # nothing was seen along it yet but this round, of which it is made
            weighing = subspace_weight.observe(weighing, basis, pulls)
        weighing, changes = subspace_weight.refreshed(weighing, state.x.shape[0], state.rank, int(basis.shape[1]))
    return replace(state, basis=basis, version=state.round, weighing=weighing), changes
