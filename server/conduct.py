"""One run from its config to its summary, over any engine."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from common.config import RunConfig
from common.errors import DataError
from common.search_units import Units
from common.typing import Vector
from server.checkpoint import check_dimension, check_units
from server.coordinator import Coordinator, Metrics, Observer
from server.interventions import Intervention
from server.progress import progress
from server.rounds import ServerState, initial_state, initial_vector
from server.run_folder import RunFolder

__all__ = ["Engine", "Result", "Start", "conduct"]


class Start(NamedTuple):
    """n, and where it has them the objective's own starting point and the units that it is searched in."""

    dimension: int
    own: Vector | None = None
    units: Units | None = None


class Engine(Protocol):
    """What carries messages and can evaluate: in process, or Flower."""

    def start(self) -> Start:
        """Return what the objective says before the first round."""

    def attach(self, coordinator: Coordinator) -> None:
        """Take the coordinator whose messages are to be carried."""

    def carry_round(self) -> None:
        """Ask, carry, re-send and tell once; the coordinator decides whether that was the round."""

    def evaluate(self, x: Vector) -> Metrics:
        """Return train_loss and what else the objective tells of x."""

    def test(self, x: Vector) -> Metrics:
        """Return test_accuracy and the like, empty where there is no test set."""


@dataclass(frozen=True)
class Result:
    """The state after the last round, the first and the last evaluation, and the summary if there is a folder."""

    state: ServerState
    initial: Metrics
    final: Metrics
    summary: dict[str, Any]

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
    """Run to the end, from ``state`` if there is one, and write what the folder is to receive.

    Whatever stops the run, the state is checkpointed first. Raises ZofedhtError.
    """
    dimension, own, units = engine.start()
    fitted = config.fitted(dimension)  # the folder keeps the config as it was given
    if state is None:
        state = initial_state(fitted, initial_vector(fitted, dimension, own), units)
    check_dimension(state, dimension)
    check_units(state, units)
    changes = _changes(config, fitted, dimension) if state.round == 0 else []
    with closing(Coordinator(fitted, state, evaluate=engine.evaluate, changes=changes)) as coordinator:
        engine.attach(coordinator)
        initial = engine.evaluate(state.x) if state.round == 0 else {}
        if folder:
            coordinator.observers.extend(folder.start(config, state, initial))
        coordinator.observers.extend(observers)
        notes = [f"{change.what} = {change.before} becomes {change.after}: {change.why}" for change in changes]
        with progress(config, state, notes=notes) if show_progress else nullcontext() as shown:
            if shown is not None:
                coordinator.observers.append(shown)
            try:
                while not coordinator.finished:
                    engine.carry_round()
            except BaseException:
                if folder:
                    _save_anyway(folder, config, coordinator.state)
                raise
    state = coordinator.state
    final = (coordinator.figures or engine.evaluate(state.x)) | engine.test(state.x)
    summary = folder.finish(config, state, final) if folder else {}
    return Result(state, initial, final, summary)


def _changes(config: RunConfig, fitted: RunConfig, dimension: int) -> list[Intervention]:
    if fitted.memory == config.memory:
        return []
    why = f"there are {dimension} parameters, and no more moves can be independent"
    return [Intervention("memory", config.memory, fitted.memory, why)]


def _save_anyway(folder: RunFolder, config: RunConfig, state: ServerState) -> None:
    try:
        folder.save(config, state)
    except DataError as error:  # a full disk must not hide what stopped the run
        warnings.warn(f"{error}; the run can be resumed from an older checkpoint", stacklevel=2)
