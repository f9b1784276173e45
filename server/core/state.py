"""The server's state: all that the next round depends on, and what it is before round 0."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np

from zofedht.common.config.run_config import RunConfig
from zofedht.common.errors import ConfigError
from zofedht.common.machine.memory import lacking
from zofedht.common.objective.agreement import units_digest
from zofedht.common.objective.units import Units
from zofedht.common.random.streams import stream
from zofedht.common.space.kinds import Settings
from zofedht.common.space.space import Space
from zofedht.common.tensors.agreement import Tensors
from zofedht.common.typing import Matrix, Vector
from zofedht.common.wire.messages import NO_BASIS
from zofedht.server.auto import AutoState, begin
from zofedht.server.evaluation.full_evaluation import FullEvaluation
from zofedht.server.evaluation.incumbent import EvaluatedX, better_of
from zofedht.server.evaluation.start import Start
from zofedht.server.minimizers.search import Left, Search, begin_search, problem_of
from zofedht.server.privacy import Exposure
from zofedht.server.rows.controls import Control
from zofedht.server.rows.learnt_shrink import Learning, begun
from zofedht.server.rows.pool import Pool
from zofedht.server.rows.second_order import Curvature
from zofedht.server.rows.server_step import Moments
from zofedht.server.rows.stiff import StiffDirections
from zofedht.server.rows.surrogates import Seen

__all__ = ["ServerState", "Totals", "check_room", "first_state", "initial_state", "initial_vector"]


@dataclass(frozen=True)
class Totals:
    """What the run has cost so far; a round depends on nothing of it but the evaluations, by budget and schedule."""

    evaluations: int = 0  # single-sample evaluations that the algorithm asked for
    bytes_up: int = 0
    bytes_down: int = 0
    seconds: float = 0.0
    full_evaluations: int = 0  # single-sample evaluations of full evaluations, which the algorithm did not ask for


@dataclass(frozen=True)
class ServerState:
    """All that the next round depends on. It is the checkpoint; nothing random is in it."""

    round: int  # r, the next round, 0-based
    x: Vector  # x_r: (n,)
    trajectory: tuple[Vector, ...] = ()  # Delta_{r-tau}..Delta_{r-1}, the newest last
    basis: Matrix | None = None  # Q: (n, tau')
    basis_version: int = NO_BASIS  # round in which Q was made
    totals: Totals = field(default_factory=Totals)
    lengths: tuple[float, ...] = ()  # of late rounds: median lengths of moves over the step size, or of spreads
    learnt: Vector | None = None  # what a guide is made from, by the laws that learn one: (n,)
    learning: Learning | None = None  # of the stiffest direction, where rounds are to learn it
    stiff: StiffDirections | None = None  # where directions shrink: what the warm-up told of them
    curvature: Curvature = field(default_factory=Curvature)  # what server steps of second order know
    batch: int = 0  # samples of a step, where batches have grown; 0: as the config says
    controls: tuple[Control, ...] = ()  # estimates of clients' gradients, where the run makes any
    surrogates: tuple[Seen, ...] = ()  # what clients have seen of F, where their steps follow surrogates
    pool: Pool | None = None  # what x is made from, where directions are candidates of a pool
    search: Search | None = None  # of points, where the algorithm asks for evaluations
    moments: Moments = field(default_factory=Moments)  # what the server step remembers
    units: Units | None = None  # of a black box that has a scale or bounds: x, moves and Q are in these
    named: str = ""  # the text of its space, where its parameters have names
    exposure: Exposure = field(default_factory=Exposure)  # what the accountant of privacy counts
    secret: str = ""  # what the server's own noise is drawn from, under central privacy; hexadecimal digits
    auto: AutoState = field(default_factory=AutoState)  # what the rules for step sizes and the weight remember
    tensors: Tensors | None = None  # of clients that hold the parameters in place: then x is the trail that leads there
    start: EvaluatedX | None = None  # x_0 and its losses
    best: EvaluatedX | None = None  # the x with the lowest loss of all that were evaluated in full

    @property
    def user_x(self) -> Vector:
        """x in the user's units, (n,)."""
        return self.in_user_units(self.x)

    def in_user_units(self, x: Vector) -> Vector:
        """Return another x of this run in the user's units, (n,)."""
        return x if self.units is None else self.units.to_user(x)

    def after_evaluation(self, evaluation: FullEvaluation, *, keeps_best: bool) -> ServerState:
        """Return the state that remembers a full evaluation of its x: what it cost, and the best x, where one is kept.

        In round 0 x is the start.
        """
        found = EvaluatedX.of(self.x, self.round, evaluation)
        tensors = self.tensors
        if tensors is not None and evaluation.digest:
            tensors = replace(tensors, present=evaluation.digest, present_round=self.round)
        spent = self.totals.full_evaluations + evaluation.samples
        return replace(
            self,
            tensors=tensors,
            start=self.start if self.round else found,
            best=better_of(self.best, found) if keeps_best else None,
            totals=replace(self.totals, full_evaluations=spent),
        )

    @property
    def space(self) -> Space | None:
        """The named parameters that x stands for."""
        return Space.of_text(self.named) if self.named else None

    @property
    def units_digest(self) -> str:
        """What says which values x stands for; clients compare it with their own."""
        return units_digest(self.units, self.space)

    @property
    def settings(self) -> Settings:
        """The user's values of the parameters by name; empty where they have no names."""
        return self.settings_at(self.x)

    def settings_at(self, x: Vector) -> Settings:
        """Return the user's values at another x of this run."""
        return {} if (space := self.space) is None else space.settings(self.in_user_units(x))

    @property
    def rank(self) -> int:
        """tau', the number of columns of Q."""
        return 0 if self.basis is None else int(self.basis.shape[1])


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


def initial_state(config: RunConfig, x: Vector, units: Units | None = None, space: Space | None = None) -> ServerState:
    """Return the state before round 0; x is projected onto the bounds where there are some.

    Raises ConfigError when the trajectory is longer than x, or parameters are to be in place.
    """
    if config.in_place:
        raise ConfigError(["in-place must be false where x is a vector; it is for runs of InPlaceObjectives"])
    config.check_dimension(x.shape[0])
    named = "" if space is None else space.text
    x = x if units is None else units.project(x)
    pool = Pool.at(x, config.pool_size) if config.row.pools else None
    search = None
    if config.asks_points:
        problem = problem_of(x, units, space, config.num_clients, config.seed, all_sites=config.aggregates_robustly)
        if config.algorithm == "lbfgs" and problem.cells is not None:
            text = "algorithm must not be lbfgs where parameters are integers or choices, which have no slopes"
            raise ConfigError([f"{text}; take cma-es or auto"])
        left = Left(config.budget or math.inf, config.rounds or math.inf)  # an answer takes one evaluation at least
        search = begin_search(problem, config.algorithm, left)
    learning = None if config.asks_points else begun(config, x.shape[0])
    return ServerState(
        round=0, x=x, units=units, named=named, auto=begin(config), pool=pool, search=search, learning=learning
    )


def first_state(config: RunConfig, start: Start) -> ServerState:
    """Return the state before round 0 from what the clients' objectives say; ``config`` is fitted to it."""
    if start.tensors is not None:
        return ServerState(round=0, x=np.empty(0), tensors=start.tensors, auto=begin(config))
    x = initial_vector(config, start.dimension, start.own)
    return initial_state(config, x, start.units, start.space)


def check_room(config: RunConfig, dimension: int) -> None:
    """Raise ConfigError where the moves of a round and the trajectory do not fit into memory."""
    if config.in_place:
        return  # nothing here is as long as x
    moves = config.clients_per_round if config.uplink == "move" and not config.asks_points else 0
    kept = 2 * config.memory if config.row.follows_trajectory else 0  # with Q
    what = f"n = {dimension:,} parameters with clients-per-round = {config.clients_per_round:,}"
    if kept:
        what += f" and memory = {config.memory:,}"
    if text := lacking(8 * dimension * (moves + kept + 2), what):
        raise ConfigError([f"{text}; lower one of them"])
