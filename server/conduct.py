"""One run from its config to its summary, on any engine."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass, replace
from typing import Any, Protocol

from zofedht.common.config.run_config import RunConfig
from zofedht.common.errors import DataError, ObjectiveError
from zofedht.common.machine.files import undisturbed
from zofedht.common.typing import Vector
from zofedht.server.auto import Intervention
from zofedht.server.core.coordinator import Coordinator
from zofedht.server.core.round_record import Observer
from zofedht.server.core.state import ServerState, check_room, first_state
from zofedht.server.evaluation.full_evaluation import FullEvaluation, Metrics, who_is_missing
from zofedht.server.evaluation.incumbent import EvaluatedX
from zofedht.server.evaluation.start import Start
from zofedht.server.evaluation.verdict import Verdict, judge
from zofedht.server.privacy import new_secret
from zofedht.server.records.checkpoint import check_dimension, check_tensors, check_units
from zofedht.server.records.run_folder import RunFolder
from zofedht.server.report.write import write_report, write_settings
from zofedht.server.terminal.progress import progress

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
    """The state after the last round, the verdict on its x, and the summary of a run with a folder.

    ``first`` is the full evaluation of x_0, empty for a resumed run; ``last`` that of the last x.
    """

    state: ServerState
    summary: dict[str, Any]
    verdict: Verdict
    first: FullEvaluation = _NOTHING
    last: FullEvaluation = _NOTHING

    @property
    def initial(self) -> Metrics:
        """The metrics of the first evaluation."""
        return self.first.metrics

    @property
    def final(self) -> Metrics:
        """The metrics of the returned x, with those on the test set."""
        return self.verdict.evaluation.metrics

    @property
    def x(self) -> Vector:
        """The returned x in the user's units, (n,): the best that was evaluated in full."""
        return self.state.in_user_units(self.verdict.chosen.x)


def conduct(
    config: RunConfig,
    engine: Engine,
    *,
    folder: RunFolder | None = None,
    state: ServerState | None = None,
    observers: Sequence[Observer] = (),
    show_progress: bool = False,
    enough: Callable[[], bool] = lambda: False,
    sign: float = 1.0,
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
    enough : callable
        Asked after each round; True ends the run as if its rounds were done.
    sign : float
        What turns a loss into the value that the progress shows: -1 where the run maximises.

    Raises
    ------
    ZofedhtError
        When the start cannot be evaluated, or the rounds fail.
    """
    start = engine.start()
    dimension = start.dimension
    fitted = config.fitted(dimension, start.space)  # the folder keeps the given config
    check_room(fitted, dimension)
    if state is None:
        state = first_state(fitted, start)
    state = state if state.secret else replace(state, secret=new_secret(config))
    check_dimension(state, dimension)
    check_units(state, start.units, start.space)
    check_tensors(state, start.tensors)
    changes = _changes(config, fitted, dimension) if state.round == 0 else []
    with closing(Coordinator(fitted, state, evaluate=engine.evaluate, changes=changes)) as coordinator:
        engine.attach(coordinator)
        initial = _evaluated_start(engine, state) if state.round == 0 else _NOTHING
        if state.round == 0:
            state = coordinator.state = state.after_evaluation(initial, keeps_best=config.keeps_best)
        if folder:
            coordinator.observers.extend(folder.start(config, state, initial))
        coordinator.observers.extend(observers)
        notes = [(logging.INFO, line) for line in start.about]
        notes += [
            (logging.INFO, f"{change.what} = {change.before} becomes {change.after}: {change.why}")
            for change in changes
        ]
        if initial.missing:
            who = who_is_missing(initial.missing)
            text = f"the start could not be evaluated by all clients, its loss is that of the others; {who}"
            notes.append((logging.WARNING, text))
        with progress(fitted, state, notes=notes) if show_progress else nullcontext() as shown:
            if shown is not None:
                show = shown
                coordinator.observers.append(lambda state, record: show(state, record.signed(sign)))
            try:
                while not (coordinator.finished or enough()):
                    engine.carry_round()
                last, verdict = _ending(engine, coordinator)
            except BaseException:
                if folder:
                    with undisturbed():
                        _save_anyway(folder, config, coordinator.state)
                raise
        state = coordinator.state
    summary = {}
    if folder:
        summary = folder.finish(config, state, last, verdict)
        try:
            write_settings(folder, state, verdict, summary)
            write_report(folder)
        except DataError as error:  # x and its summary are kept: a full disk fails no run that is done
            warnings.warn(str(error), stacklevel=2)
    return Result(state, summary, verdict, initial, last)


def _ending(engine: Engine, coordinator: Coordinator) -> tuple[FullEvaluation, Verdict]:
    """Return the evaluation of the last x and the verdict on the run, both with the metrics on the test set."""
    state, keeps_best = coordinator.state, coordinator.config.keeps_best
    last = coordinator.evaluation
    if last is None:  # all rounds were done before this process began, or it is enough
        last = engine.evaluate(state.x)
        state = state.after_evaluation(last, keeps_best=keeps_best)
    ending = EvaluatedX.of(state.x, state.round, last)
    verdict = judge(engine.evaluate, state.start, state.best, ending, last)
    totals = replace(state.totals, full_evaluations=state.totals.full_evaluations + verdict.samples)
    coordinator.state = replace(state, totals=totals)
    last = replace(last, metrics=last.metrics | engine.test(state.x))
    tested = replace(verdict.evaluation, metrics=verdict.evaluation.metrics | engine.test(verdict.chosen.x))
    return last, replace(verdict, evaluation=tested)


def _evaluated_start(engine: Engine, state: ServerState) -> FullEvaluation:
    evaluation = engine.evaluate(state.x)
    if not evaluation.metrics:
        raise ObjectiveError(f"no client could evaluate the start: {who_is_missing(evaluation.missing)}")
    return evaluation


def _changes(config: RunConfig, fitted: RunConfig, dimension: int) -> list[Intervention]:
    why = {
        "algorithm": f"there are {dimension} parameters, and no key of local steps is set (zofedht takes steps)",
        "memory": f"there are {dimension} parameters, and no more moves can be independent",
        "radius": "slopes within a step of an integer or a choice are 0",
    }
    pairs = [(name, getattr(config, name), getattr(fitted, name)) for name in why]
    return [Intervention(name, before, after, why[name]) for name, before, after in pairs if before != after]


def _save_anyway(folder: RunFolder, config: RunConfig, state: ServerState) -> None:
    try:
        folder.save(config, state)
    except DataError as error:  # a full disk must not hide the reason of the end
        warnings.warn(f"{error}; the run can be resumed from an older checkpoint", stacklevel=2)
