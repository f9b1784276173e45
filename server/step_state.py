"""What step-size = auto remembers, and what a round teaches it. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

from common.typing import Vector
from server.interventions import Intervention
from server.step_trials import Trial

__all__ = ["HOLD", "Findings", "Judged", "Race", "StepState", "shortened"]

HOLD = 3.0  # the measured step is held for HOLD^2 rounds, then falls as HOLD/sqrt(rounds)
_MOST_LONGER = 4.0  # times the measured step: clients of few kinds of rows would have it longer without end

Judged = tuple[int, str, float]
"""Round of the race, client, mean loss of a slot's probes."""


@dataclass(frozen=True)
class Race:
    """Schedules that are tried one after the other from the same x, with the clients of the same rounds."""

    began: int  # round of the run in which the first candidate began
    start: Vector | None = None  # x where all begin: (n,)
    runner: int = 0  # the schedule whose turn it is
    turns: int = 1  # with it
    judge: int = 0  # the schedule of the steps in the rounds that all are judged by
    rounds: int = 0  # that it has had
    losses: tuple[Judged, ...] = ()  # of its last rounds
    best: int = 0  # the best candidate that has finished,
    best_losses: tuple[Judged, ...] = ()
    best_x: Vector | None = None  # and where it ended: (n,)


@dataclass(frozen=True)
class StepState:
    """All that the rule remembers."""

    searching: Literal["coarse", "fine", "race", "done"] = "coarse"
    rounds: int = 0  # of the coarse search so far
    lowest: int | None = None  # exponent of the ladder's next rung; None: not begun
    raised: bool = False  # the ladder in use extends an earlier one upwards
    tried: tuple[Trial, ...] = ()  # at the x where the search goes on
    step: float = 0.0  # as measured, and shortened since
    began: int = 0  # round that the schedule counts from
    followed: bool = False  # the step has been looked at under a basis
    recent: tuple[float, ...] = ()  # losses of the latest rounds, the newest last
    spread: float = 0.0  # running mean of a window's standard deviation
    level: float = math.inf  # the loss before the first move
    best_loss: float = math.inf  # lowest median of a window, the level until there is one
    best_x: Vector | None = None  # x in the last round of that window: (n,)
    measured: float = 0.0  # the step as measured
    hold: float = HOLD  # the step is held for hold^2 rounds
    most: float = _MOST_LONGER  # times the measured step
    race: Race | None = None  # while it is on
    raced: bool = False  # the step has won a race

    @property
    def racing(self) -> bool:
        """Whether the round is one of a race: its directions are isotropic, and its moves make no trajectory."""
        return self.race is not None


@dataclass(frozen=True)
class Findings:
    """What a round taught."""

    state: StepState
    longest: float  # moves of slots with longer steps are left out
    restored: Vector | None = None  # where x goes back to
    interventions: tuple[Intervention, ...] = ()


def shortened(state: StepState, factor: float, why: str) -> Findings:
    """Return that the step is multiplied by ``factor`` < 1."""
    # The losses of shorter steps have to find their own lowest again.
    shorter = replace(state, step=state.step * factor, recent=(), best_loss=state.level)
    return Findings(shorter, 0.0, interventions=(Intervention("step-size", state.step, shorter.step, why),))
