"""step-size = auto: measure the first step on the run's own slots, then watch over it. Pure.

Nothing is evaluated beyond the rounds' own probes; all that is known of a slot is the mean loss of its probes, which
falls as it fits its own rows, and the loss of its first one, where x is still the round's.

1. *Coarse* and 2. *fine* (``ladder``): steps of a ladder on single slots, from the same x.
3. *Race* (``race``), in runs that are long enough: steps, each for some rounds from the same x.
4. *Again*, in the first round with a basis at its full weight: directions are then longer inside the subspace, and the
   step is shortened to the longest one whose slots do not end clearly above where they began.
5. *Steady*: the step falls as step-schedule says. If the losses at the rounds' x, by their median over several rounds,
   climb half of the way back to where they began, the step is halved and x goes back to where they were lowest. A
   round that throws x to another magnitude is undone at once, and where slots end far above where they began, round
   after round, the step is quartered and x goes back.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean, median, pstdev, stdev
from typing import Literal

from zofedht.common.config.run_config import RunConfig
from zofedht.common.typing import Vector
from zofedht.server.auto.interventions import Intervention
from zofedht.server.auto.ladder import after_coarse, after_fine, coarse_steps, fine_steps
from zofedht.server.auto.race import after_race, raced_step
from zofedht.server.auto.state import Findings, StepState, shortened, thrown
from zofedht.server.auto.trials import Rung, Trial, risen, rungs_of, spread_within

__all__ = ["Findings", "StepState", "drawn_as", "learn", "steps"]

_AGAIN = (1.0, 0.5, 0.25, 0.125)
_CLEARLY = 2.0  # standard errors that the slots of a step must end above their starts by for it to be too long
_HOLD = 3.0  # under 1/sqrt(round) the step is held for HOLD^2 rounds
_WINDOW = 5  # rounds whose median loss is compared
_RISE = 4.0  # spreads of a window that its median must be above the lowest one,
_BACK = 0.5  # and this share of the way back to the loss before the first move
_DIVERGED = 0.25  # of the step stays where every slot diverged, or x was thrown
_MEMORY = 0.9  # of the running mean of the spread
_THRASHED = 3  # rounds, and
_LEAST_SLOTS = 5  # slots in them, whose mean rise must be
_SURELY = 3.0  # standard errors above nothing,
_FAR = 0.25  # and this share of what the loss has fallen by, for the step to be one that thrashes

Stage = Literal["coarse", "fine", "race", "again", "steady"]


def steps(state: StepState, config: RunConfig, round_: int, slots: int, follows: bool, progress: float) -> list[float]:
    """Return the step of each slot.

    ``follows``: whether the round's directions follow a basis at its full weight; ``progress``: the part of the run
    that is over.
    """
    planned = _planned(state, config, round_, progress)
    match _stage(state, follows):
        case "coarse":
            return coarse_steps(state, slots)
        case "fine":
            return fine_steps(state, slots)
        case "race":
            return [raced_step(state, config)] * slots
        case "again":
            return [planned * _AGAIN[slot % len(_AGAIN)] for slot in range(slots)]
        case "steady":
            return [planned] * slots


def learn(
    state: StepState, config: RunConfig, round_: int, x: Vector, trials: Sequence[Trial], follows: bool, progress: float
) -> Findings:
    """Return what the slots of a round teach; ``x`` is where they began, (n,)."""
    match _stage(state, follows):
        case "again":
            return _after_again(state, trials, _planned(state, config, round_, progress))
        case "steady":
            return _after_steady(state, x, trials)
        case "race":
            findings = after_race(state, config, x, trials)
        case "coarse" | "fine" as stage:
            after = after_coarse if stage == "coarse" else after_fine
            total = _rounds(state, config, round_, progress)
            findings = after(replace(state, best_x=x), config, round_, trials, total)
    if findings.state.searching != "done":
        return findings
    # The schedule counts from the end of the search, and of the race where there is one.
    return replace(findings, state=replace(findings.state, began=round_ + 1, begun=progress))


def _rounds(state: StepState, config: RunConfig, round_: int, progress: float) -> int:
    """Return how many rounds the run will have: where a budget ends it, at the pace of the search; 0: not known yet."""
    if progress <= (round_ / config.rounds if config.rounds else 0.0):
        return config.rounds
    # Slots that diverged were charged with nothing.
    finite = sum(math.isfinite(trial.loss) for trial in state.tried) / max(1, len(state.tried))
    return round(round_ * finite / progress)


def drawn_as(state: StepState, round_: int) -> int:
    """Return the round whose clients are drawn in this one: all candidates of a race meet the same."""
    return round_ if state.race is None else state.race.began + state.race.rounds


def _stage(state: StepState, follows: bool) -> Stage:
    if state.searching != "done":
        return state.searching
    return "again" if follows and not state.followed else "steady"


def _planned(state: StepState, config: RunConfig, round_: int, progress: float) -> float:
    match config.step_schedule:
        case "constant":
            return state.step
        case "linear":
            return state.step * (1.0 - progress) / (1.0 - state.begun)
        case _:
            return state.step * min(1.0, _HOLD / math.sqrt(max(1, round_ - state.began + 1)))


def _after_again(state: StepState, trials: Sequence[Trial], planned: float) -> Findings:
    state = replace(state, followed=True)
    rises = risen(trials)
    rungs = rungs_of(rises)
    best = min(rungs, key=lambda rung: rung.loss) if rungs else Rung(0.0, math.inf, 0.0, 0)
    if not math.isfinite(best.loss):
        return shortened(state, _AGAIN[-1], "every step tried under the first basis diverged")
    most, spread = max(0.0, best.loss), spread_within(rises, best.step)
    found = max(rung.step for rung in rungs if rung.loss <= most + _CLEARLY * spread / math.sqrt(rung.slots))
    if found >= planned:
        return Findings(state, planned * 1.001)
    shorter = shortened(state, found / planned, "longer steps raise the loss under the first basis")
    return replace(shorter, longest=found * 1.001)


def _after_steady(state: StepState, x: Vector, trials: Sequence[Trial]) -> Findings:
    losses = [trial.start_loss for trial in trials if math.isfinite(trial.start_loss)]
    if not losses or not any(math.isfinite(trial.loss) for trial in trials):
        return _back(shortened(state, _DIVERGED, "every slot diverged"), state.best_x)
    recent = (*state.recent, fmean(losses))[-_WINDOW:]
    state = replace(state, recent=recent, best_x=x if state.best_x is None else state.best_x)
    if thrown(state, min(losses)):
        why = f"the loss rose from {state.level:.6g} before the first move to {recent[-1]:.6g}"
        return _back(shortened(state, _DIVERGED, why), state.best_x)
    state = replace(state, rises=(*state.rises, _rises_in(trials))[-_WINDOW:])
    rise = _thrashing(state)
    if rise > 0.0:
        why = f"slots ended {rise:.6g} above where they began, in the mean of {len(state.rises)} rounds"
        return _back(shortened(state, _DIVERGED, why), state.best_x)
    if len(recent) < _WINDOW:
        return Findings(state, math.inf)
    middle = median(recent)
    # Slots that all began at one loss, as at a saddle, tell no scatter; and the first window may already run away.
    spread = state.spread or min(pstdev(recent), abs(state.level) / _RISE)
    # Long steps stir x up before they lead it on: losses must climb back half of what they fell.
    fallen = state.level - state.best_loss if state.best_loss < math.inf else 0.0
    if middle > state.best_loss + max(_RISE * spread, _BACK * fallen):
        why = f"the median loss of {_WINDOW} rounds rose from {state.best_loss:.6g} to {middle:.6g}"
        return _back(shortened(state, 0.5, why), state.best_x)
    # The median hides a round that threw x: only an x that is no worse than the window is one to come back to.
    if recent[-1] <= middle < state.best_loss:
        state = replace(state, best_loss=middle, best_x=x)
    return Findings(replace(state, spread=_MEMORY * spread + (1.0 - _MEMORY) * pstdev(recent)), math.inf)


def _rises_in(trials: Sequence[Trial]) -> tuple[float, ...]:
    return tuple(trial.rise for trial in trials if math.isfinite(trial.rise))


def _thrashing(state: StepState) -> float:
    """Return how far slots end above where they began, in the mean of the latest rounds; 0 where that is no more than
    noise or small, or x gets better all the same.

    Where bounds catch them, losses at x may swing for ever and neither climb nor diverge: the mean of slots that were
    thrown into corners lies between these. What the slots themselves do still tells it.
    """
    rises = [rise for round_ in state.rises for rise in round_]
    lowest = min(state.best_loss, state.level, *state.recent)
    if len(state.rises) < _THRASHED or len(rises) < _LEAST_SLOTS or state.recent[-1] <= lowest:
        return 0.0
    rise, error = fmean(rises), stdev(rises) / math.sqrt(len(rises))
    # The level is not known where a run without a search was resumed.
    fallen = state.level - lowest if state.level < math.inf else 0.0
    return rise if rise > max(_SURELY * error, _FAR * fallen) else 0.0


def _back(findings: Findings, x: Vector | None) -> Findings:
    note = Intervention("x", None, None, "back to where the loss was lowest")
    return replace(findings, restored=x, interventions=(*findings.interventions, note))
