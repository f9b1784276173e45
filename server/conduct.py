"""One run from its config to its summary, on any engine."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass, replace
from typing import Any, Protocol

from zofedht.common.config.run_config import RunConfig
from zofedht.common.errors import ConfigError, DataError, ObjectiveError
from zofedht.common.machine.memory import lacking
from zofedht.common.typing import Vector
from zofedht.server.auto import Intervention
from zofedht.server.core.coordinator import Coordinator
from zofedht.server.core.round_record import Observer
from zofedht.server.core.state import ServerState, initial_state, initial_vector
from zofedht.server.evaluation.full_evaluation import FullEvaluation, Metrics, who_is_missing
from zofedht.server.evaluation.start import Start
from zofedht.server.privacy import new_secret
from zofedht.server.records.checkpoint import check_dimension, check_units
from zofedht.server.records.files import undisturbed
from zofedht.server.records.progress import progress
from zofedht.server.records.run_folder import RunFolder

__all__ = ["Engine", "Result", "Start", "conduct"]

_NOTHING = FullEvaluation({})


class Engine(Protocol):
    """Carries the messages of a run and evaluates x: in process, or through Flower."""

    def start(self) -> Start:
        """Return n, the starting point and the units of the objective."""

    def attach(self, coordinator: Coordinator) -> None:
        """Take the coordinator of the messages."""

    def carry_round(self) -> None:
        """Ask, carry, send again and tell once; the coordinator decides whether that was the round."""

    def evaluate(self, x: Vector) -> FullEvaluation:
        """Return train_loss and the other metrics of x, and the clients whose mean they are.

        Raises ObjectiveError when a client's evaluation fails and on-error is stop.
        """

    def test(self, x: Vector) -> Metrics:
        """Return the metrics on the test rows; empty without a test set."""


@dataclass(frozen=True)
class Result:
    """The state after the last round, the first and the last evaluation, and the summary of a run with a folder."""

    state: ServerState
    summary: dict[str, Any]
    first: FullEvaluation = _NOTHING  # of x_0; empty for a resumed run
    last: FullEvaluation = _NOTHING  # of the last x

    @property
    def initial(self) -> Metrics:
        """The metrics of the first evaluation."""
        return self.first.metrics

    @property
    def final(self) -> Metrics:
        """The metrics of the last evaluation, with those on the test set."""
        return self.last.metrics

    @property
    def x(self) -> Vector:
        """The final x in the user's units, (n,)."""
        return self.state.user_x


def conduct(
    config: RunConfig,
    engine: Engine,
    *,
    folder: RunFolder | None = None,
    state: ServerState | None = None,
    observers: Sequence[Observer] = (),
    show_progress: bool = False,
) -> Result:
    """Run to the end and write the files of the run. An interrupted run is checkpointed first.

    Parameters
    ----------
    config : RunConfig
    engine : Engine
    folder : RunFolder, optional
        Gets the files of the run; begun or reopened.
    state : ServerState, optional
        The state to continue from.
    observers : callables of (state, record)
        Called after each round.
    show_progress : bool
        Whether to show the progress on standard error.

    Raises
    ------
    ZofedhtError
        When the start cannot be evaluated, or the rounds fail.
    """
    dimension, own, units, space, about = engine.start()
    fitted = config.fitted(dimension)  # the folder keeps the given config
    _check_room(fitted, dimension)
    if state is None:
        state = initial_state(fitted, initial_vector(fitted, dimension, own), units, space)
    state = state if state.secret else replace(state, secret=new_secret(config))
    check_dimension(state, dimension)
    check_units(state, units)
    changes = _changes(config, fitted, dimension) if state.round == 0 else []
    with closing(Coordinator(fitted, state, evaluate=engine.evaluate, changes=changes)) as coordinator:
        engine.attach(coordinator)
        initial = _evaluated_start(engine, state) if state.round == 0 else _NOTHING
        if folder:
            coordinator.observers.extend(folder.start(config, state, initial))
        coordinator.observers.extend(observers)
        notes = list(about)
        notes += [f"{change.what} = {change.before} becomes {change.after}: {change.why}" for change in changes]
        if initial.missing:
            who = who_is_missing(initial.missing)
            notes.append(
                f"warning: the start could not be evaluated by all clients, its loss is that of the others; {who}"
            )
        with progress(config, state, notes=notes) if show_progress else nullcontext() as shown:
            if shown is not None:
                coordinator.observers.append(shown)
            try:
                while not coordinator.finished:
                    engine.carry_round()
            except BaseException:
                if folder:
                    with undisturbed():
                        _save_anyway(folder, config, coordinator.state)
                raise
    state = coordinator.state
    final = coordinator.evaluation or engine.evaluate(state.x)
    final = replace(final, metrics=final.metrics | engine.test(state.x))
    summary = folder.finish(config, state, final) if folder else {}
    return Result(state, summary, initial, final)


def _check_room(config: RunConfig, dimension: int) -> None:
    """Raise ConfigError where the moves of a round and the trajectory do not fit into memory."""
    moves = config.clients_per_round if config.uplink == "move" and not config.asks_points else 0
    kept = 2 * config.memory if config.row.follows_trajectory else 0  # with Q
    what = f"n = {dimension:,} parameters with clients-per-round = {config.clients_per_round:,}"
    if kept:
        what += f" and memory = {config.memory:,}"
    if text := lacking(8 * dimension * (moves + kept + 2), what):
        raise ConfigError([f"{text}; lower one of them"])


def _evaluated_start(engine: Engine, state: ServerState) -> FullEvaluation:
    evaluation = engine.evaluate(state.x)
    if not evaluation.metrics:
        raise ObjectiveError(f"no client could evaluate the start: {who_is_missing(evaluation.missing)}")
    return evaluation


def _changes(config: RunConfig, fitted: RunConfig, dimension: int) -> list[Intervention]:
    if fitted.memory == config.memory:
        return []
    why = f"there are {dimension} parameters, and no more moves can be independent"
    return [Intervention("memory", config.memory, fitted.memory, why)]


def _save_anyway(folder: RunFolder, config: RunConfig, state: ServerState) -> None:
    try:
        folder.save(config, state)
    except DataError as error:  # a full disk must not hide the reason of the end
        warnings.warn(f"{error}; the run can be resumed from an older checkpoint", stacklevel=2)
