"""The server's state and its two verbs, ask and tell. Pure functions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from common.config import RunConfig
from common.directions import gain
from common.messages import NO_BASIS, OWN_ROWS, Broadcast, Member, Update, basis_digest
from common.search_units import Units
from common.streams import stream
from common.typing import Matrix, Vector
from server.aggregation import Failure, Skipped, mean_move, screen, skipped_steps
from server.selection import select
from server.trajectory import basis_of

__all__ = ["Outcome", "ServerState", "Totals", "ask", "initial_state", "initial_vector", "tell"]


@dataclass(frozen=True)
class Totals:
    """What the run has cost so far; no number of a round depends on it but the budget's."""

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
    """What a round gave: usable slots, failures, the probes' mean loss, and the slots with skipped steps."""

    usable: int
    failures: tuple[Failure, ...]
    loss: float = math.nan
    skipped: tuple[Skipped, ...] = ()


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
    return ServerState(round=0, x=x if units is None else units.project(x), units=units)


def ask(state: ServerState, config: RunConfig, members: Sequence[Member], attempt: int = 0) -> list[Broadcast]:
    """Return the round's broadcasts, one a slot, without the basis itself (Algorithm 1, lines 2-5)."""
    chosen = select(
        members,
        config.clients_per_round,
        config.sampling,
        seed=config.seed,
        round_=state.round,
        attempt=attempt,
    )
    # tau' = 0 means isotropic, as before the first refresh.
    follows = state.basis is not None and state.rank > 0 and config.weight > 0.0
    common = Broadcast(
        round=state.round,
        slot=0,
        client="",
        partition=OWN_ROWS,
        x=state.x,
        seed=config.seed,
        step_size=config.step(state.round),
        radius=config.radius,
        local_steps=config.local_steps,
        batch_size=config.batch,
        slope=config.slope,
        probe=config.probe,
        generator=config.generator,
        kernel=config.kernel,
        weight=config.weight if follows else 0.0,
        gain=gain(config.covariance, state.x.shape[0], state.rank) if follows else 1.0,
        version=state.version if follows else NO_BASIS,
        digest=basis_digest(state.basis) if follows else "",
        rank=state.rank if follows else 0,
        task=config.task,
        on_error=config.on_error,
        units="" if state.units is None else state.units.digest,
    )
    return [
        replace(common, slot=slot, client=member.name, partition=member.partition) for slot, member in enumerate(chosen)
    ]


def tell(
    state: ServerState, updates: Sequence[Update], asked: Mapping[int, Broadcast], config: RunConfig
) -> tuple[ServerState | None, Outcome]:
    """Average the usable updates and move on (Algorithm 1, lines 19-22).

    Returns (next state, outcome), or (None, outcome) when there are fewer usable replies than
    min-replies: then the state given is still the state, since a failed round is not a move.
    """
    usable, failures = screen(updates, asked)
    if len(usable) < config.min_replies:
        return None, Outcome(len(usable), tuple(failures))
    move = mean_move(usable, config.weighting)
    with np.errstate(over="ignore", invalid="ignore"):
        x = state.x + move  # line 21
    if state.units is not None and np.all(np.isfinite(x)):
        x = state.units.project(x)
        move = x - state.x  # what was really travelled
    if not np.all(np.isfinite(x)):
        failures += [Failure(u.slot, u.client, "the mean of the moves overflows; lower step-size") for u in usable]
        return None, Outcome(0, tuple(failures))
    loss = float(np.mean([u.loss for u in usable]))
    outcome = Outcome(len(usable), tuple(failures), loss, skipped_steps(usable))
    totals = replace(state.totals, evaluations=state.totals.evaluations + sum(u.evaluations for u in usable))
    following = state.round + 1
    if config.weight == 0.0:
        return replace(state, round=following, x=x, totals=totals), outcome
    window = (*state.window, move)[-config.memory :]
    if following % config.memory:
        return replace(state, round=following, x=x, window=window, totals=totals), outcome
    basis = basis_of(window)  # line 3: r in {tau, 2 tau, ...}
    state = replace(state, round=following, x=x, window=window, basis=basis, version=following, totals=totals)
    return state, outcome
