"""All clients in this process: the same ask and tell, without Flower.

Only this module of the server, and the simulation, import the client.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from functools import partial

from zofedht.client.steps.replica import Replica
from zofedht.client.steps.worker import Worker
from zofedht.client.tensors.worker import PlaceWorker
from zofedht.common.checks.finding import Case
from zofedht.common.config.run_config import RunConfig
from zofedht.common.errors import ZofedhtError
from zofedht.common.objective.base import Objective
from zofedht.common.objective.loading import starting_point
from zofedht.common.objective.named import space_of
from zofedht.common.objective.points import full_evaluation
from zofedht.common.objective.scaling import in_search_units, units_of
from zofedht.common.privacy.private_draws import simulated_secret
from zofedht.common.shards import about_data, in_place_maker, members_of, objective_of
from zofedht.common.tensors.loading import checked_in_place
from zofedht.common.tensors.objective import InPlaceObjective
from zofedht.common.typing import Vector
from zofedht.common.wire.clients import Member, Question
from zofedht.common.wire.messages import Broadcast, Update
from zofedht.server.conduct import Result, conduct
from zofedht.server.core.coordinator import Coordinator
from zofedht.server.core.round_record import Observer
from zofedht.server.core.state import ServerState
from zofedht.server.evaluation.evaluate import Answer, Answered, CentralEvaluator, central_evaluator, evaluate_clients
from zofedht.server.evaluation.full_evaluation import FullEvaluation, Metrics
from zofedht.server.evaluation.start import Start, agreed
from zofedht.server.overdue import told_when_overdue
from zofedht.server.records.run_folder import RunFolder

__all__ = ["InProcessEngine", "run_in_process"]


class InProcessEngine:
    """Carries messages by function calls. Each client keeps its own basis, as a device does."""

    def __init__(self, config: RunConfig, objectives: Sequence[Objective | InPlaceObjective] | None = None) -> None:
        """``objectives``, one for each client, replace those of the config."""
        self._config = config
        self._members = members_of(config)
        self._central: CentralEvaluator | None = None
        self._workers: dict[str, Worker | PlaceWorker]
        self._place: PlaceWorker | None = None
        if config.in_place:
            self._place = PlaceWorker(_in_place(config, objectives))
            self._workers = dict.fromkeys((member.name for member in self._members), self._place)
            return
        vectors = None if objectives is None else [one for one in objectives if isinstance(one, Objective)]
        self._objective = objective = _by_partition(config, vectors)
        replica = Replica()  # one x serves all clients of this process
        # Workers do not refer to the engine, so that it is freed at once.
        self._workers = {
            member.name: Worker(lambda broadcast: objective(broadcast.shard_index), replica=replica, secret_of=_secret)
            for member in self._members
        }
        self._central = central_evaluator(config) if objectives is None else None
        self._clients_differ = bool(config.objective) or objectives is not None  # else one model is built for all

    def start(self) -> Start:
        """Return the first client's start. Raises ObjectiveError when another client has another n or other units."""
        if self._place is not None:
            held = {member.name: self._place.held(self._question(member)).tensors for member in self._members}
            return agreed({name: Start(tensors.dimension, tensors=tensors) for name, tensors in held.items()})
        own = starting_point(self._objective(0), self._config.seed)
        several = self._members if self._clients_differ else self._members[:1]
        made = {member.name: self._objective(member.shard_index) for member in several}
        starts = {name: Start(one.dim, units=units_of(one), space=space_of(one)) for name, one in made.items()}
        return agreed(starts)._replace(own=own, about=about_data(self._config) if self._central else ())

    def case_at(self, x: Vector, radius: float) -> Case:
        """Return the first client's objective at x as the checks take it."""
        config = self._config
        return Case.at(self._objective(0), x, radius, config.batch, config.seed)

    def attach(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator

    def carry_round(self) -> None:
        with told_when_overdue(self._config.round_timeout, f"round {self._coordinator.state.round + 1}"):
            updates = self._carry(self._coordinator.ask(self._members))
            while again := self._coordinator.resend(updates) or self._coordinator.recheck(updates):
                updates += self._carry(again)
        self._coordinator.tell(updates)

    def _carry(self, broadcasts: Sequence[Broadcast]) -> list[Update]:
        updates = []
        for broadcast in broadcasts:
            began = time.perf_counter()
            updates.append(self._workers[broadcast.client].work(broadcast))
            self._coordinator.timed(broadcast.slot, time.perf_counter() - began)
        return updates

    def evaluate(self, x: Vector) -> FullEvaluation:
        if self._central:
            return self._central.evaluation(x)

        def ask(done: Collection[str]) -> dict[str, Answer]:
            return {one.name: self._evaluate_one(one, x) for one in self._members if one.name not in done}

        config = self._config
        with told_when_overdue(config.round_timeout, "the evaluation of x by all clients"):
            return evaluate_clients(ask, max_retries=config.max_retries, on_error=config.on_error)

    def _evaluate_one(self, member: Member, x: Vector) -> Answer:
        try:
            if self._place is not None:
                return Answered(*self._place.evaluate(self._question(member), x))
            objective = self._objective(member.shard_index)
            return Answered(full_evaluation(objective, x), len(objective))
        except ZofedhtError as error:
            return error

    def lead_to(self, x: Vector) -> None:
        """Lead the parameters of all clients to an x of the run, where they hold them in place."""
        if self._place is not None:
            for member in self._members:
                self._place.lead(self._question(member), x)

    def _question(self, member: Member) -> Question:
        return Question(member.name, member.shard_index, self._config.seed, self._config.task)

    def test(self, x: Vector) -> Metrics:
        return self._central.test(x) if self._central else {}


def _secret(broadcast: Broadcast) -> bytes:
    return simulated_secret(broadcast.address.seed, broadcast.client)


def _by_partition(config: RunConfig, objectives: Sequence[Objective] | None) -> Callable[[int], Objective]:
    """Return the function from the number of a shard to its objective."""
    if objectives is None:
        return partial(objective_of, config.task)
    return [in_search_units(objective) for objective in objectives].__getitem__


def _in_place(
    config: RunConfig, objectives: Sequence[Objective | InPlaceObjective] | None
) -> Callable[[Question], InPlaceObjective]:
    """Return the function from a question to the objective of the client that it names."""
    if objectives is None:
        make = in_place_maker(config)
        return lambda question: make(question.shard_index)
    made = [checked_in_place(one, f"objective {index}") for index, one in enumerate(objectives)]
    return lambda question: made[question.shard_index]


def run_in_process(
    config: RunConfig,
    objectives: Sequence[Objective | InPlaceObjective] | None = None,
    *,
    folder: RunFolder | None = None,
    state: ServerState | None = None,
    observers: Sequence[Observer] = (),
    show_progress: bool = False,
) -> Result:
    """Run in this process and return the result.

    ``objectives``, one for each client, replace those of the config. The other arguments and errors are those of
    ``conduct``.
    """
    engine = InProcessEngine(config, objectives)
    return conduct(config, engine, folder=folder, state=state, observers=observers, show_progress=show_progress)
