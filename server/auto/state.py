"""What step-size = auto remembers, and what a round teaches it. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

from zofedht.common.typing import Vector
from zofedht.server.auto.interventions import Intervention
from zofedht.server.auto.trials import Trial

__all__ = ["Findings", "Judged", "Race", "StepState", "shortened", "thrown"]

_THROWN = 1000.0  # times what the search saw losses change and scatter by

Judged = tuple[int, str, float]
"""Round of a turn, client, loss at the x that the round began from."""


@dataclass(frozen=True)
class Race:
    """Steps that are tried one after the other from the same x, with the clients of the same rounds."""

    began: int  # round of the run in which the first turn began,
    total: int = 0  # and the rounds of the run, where a budget ends it as far as known; 0: as the config says
    start: Vector | None = None  # x where all begin: (n,)
    runner: int = 0  # the step whose turn it is: a power of the ratio, times the first
    turns: int = 1  # with it
    rounds: int = 0  # that it has had
    seen: tuple[Judged, ...] = ()  # at its end
    best: int | None = None  # the best step of a finished turn,
    least: tuple[Judged, ...] = ()  # what was seen at its end
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
    began: int = 0  # round that the schedule counts from,
    begun: float = 0.0  # and the part of the run that was over then
    followed: bool = False  # the step has been looked at under a basis
    recent: tuple[float, ...] = ()  # losses of the latest rounds, the newest last
    spread: float = 0.0  # running mean of a window's standard deviation, at first that of the slots' starts
    reach: float = 0.0  # what steps up to the one found changed a slot's loss by at most
    level: float = math.inf  # the loss before the first move
    best_loss: float = math.inf  # lowest median of a window, the level until there is one
    best_x: Vector | None = None  # x of a round at the end of that window, no worse than it: (n,)
    race: Race | None = None  # while it is on
    rises: tuple[tuple[float, ...], ...] = ()  # of the slots of the latest rounds with this step, the newest last

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
    shorter = replace(state, step=state.step * factor, recent=(), rises=(), best_loss=state.level)
    return Findings(shorter, 0.0, interventions=(Intervention("step-size", state.step, shorter.step, why),))


def thrown(state: StepState, loss: float) -> bool:
    """Whether a loss at x is of another magnitude than before the first move: then steps were far too long."""
    # No share of the loss itself: it may be told from zero, as what is gained over today's settings.
    seen = state.reach + state.spread
    return seen > 0.0 and loss > state.level + _THROWN * seen
