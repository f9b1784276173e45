"""step-size = auto: measure the first step on the run's own slots, then watch over it. Pure.

Nothing is evaluated beyond the rounds' own probes; all that is known of a slot is the mean loss of its probes.

1. *Coarse* and 2. *fine* (``step_search``): steps of a ladder on single slots, from the same x.
3. *Race* (``step_race``), in runs that are long enough: schedules of the step, each for some rounds from the same x.
4. *Again*, in the first round with a basis: directions are then longer inside the subspace, and the step is shortened
   to the longest one that is not clearly worse than the best.
5. *Steady*: the step is held, then falls as 1/sqrt(rounds since). If the rounds' losses, by their median over several
   rounds, climb half of the way back to where they began, the step is halved and x goes back to where they were lowest.
6. *Longer*, where there was no race, at rounds that double: some slots take longer steps, and one stays if they lose
   clearly less.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean, median, pstdev
from typing import Literal

from common.config import RunConfig
from common.typing import Vector
from server.interventions import Intervention
from server.step_race import after_race, falling, raced_step
from server.step_search import after_coarse, after_fine, coarse_steps, fine_steps
from server.step_state import Findings, StepState, shortened
from server.step_trials import Rung, Trial, clearly_better, rungs_of, spread_within, without_diverged

__all__ = ["Findings", "StepState", "drawn_as", "learn", "steps"]

_AGAIN = (1.0, 0.5, 0.25, 0.125)
_LONGER = (1.0, 2.0, 4.0, 0.5)
_FIRST_LONGER = 8  # rounds after the search; then twice as many, and so on
_MOST_STRETCHED = 2.0  # times the measured step, where directions are stretched along a basis,
_HOLD_STRETCHED = 2.0 / 3.0  # and of the hold
_WINDOW = 5  # rounds whose median loss is compared
_RISE = 4.0  # spreads of a window that its median must be above the lowest one,
_BACK = 0.5  # and this share of the way back to the loss before the first move
_DIVERGED = 0.25  # of the step stays where every slot diverged
_MEMORY = 0.9  # of the running mean of the spread

Stage = Literal["coarse", "fine", "race", "again", "longer", "steady"]


def steps(state: StepState, config: RunConfig, round_: int, slots: int, follows: bool) -> list[float]:
    """Return the step of each slot; ``follows``: whether the round's directions follow a basis."""
    planned = _planned(state, config, round_)
    match _stage(state, config, round_, follows):
        case "coarse":
            return coarse_steps(state, slots)
        case "fine":
            return fine_steps(state, slots)
        case "race":
            return [raced_step(state, config)] * slots
        case "again":
            return [planned * _AGAIN[slot % len(_AGAIN)] for slot in range(slots)]
        case "longer":
            return [planned * _LONGER[slot % len(_LONGER)] for slot in range(slots)]
        case "steady":
            return [planned] * slots


def learn(
    state: StepState, config: RunConfig, round_: int, x: Vector, trials: Sequence[Trial], follows: bool
) -> Findings:
    """Return what the slots of a round teach; ``x`` is where they began, (n,)."""
    match _stage(state, config, round_, follows):
        case "coarse":
            return after_coarse(state, config, round_, trials)
        case "fine":
            return after_fine(state, config, round_, trials)
        case "race":
            return after_race(state, config, round_, x, trials)
        case "again":
            return _after_again(state, trials, _planned(state, config, round_))
        case "longer":
            return _after_longer(state, trials, _planned(state, config, round_))
        case "steady":
            return _after_steady(state, x, trials)


def drawn_as(state: StepState, round_: int) -> int:
    """Return the round whose clients are drawn in this one: all candidates of a race meet the same."""
    return round_ if state.race is None else state.race.began + state.race.rounds


def _stage(state: StepState, config: RunConfig, round_: int, follows: bool) -> Stage:
    if state.searching != "done":
        return state.searching
    if follows and not state.followed:
        return "again"
    since = round_ - state.began
    looks = since >= _FIRST_LONGER and since.bit_count() == 1  # at powers of two
    enough = config.clients_per_round >= 2 * len(_LONGER)
    return "longer" if looks and enough and not state.raced else "steady"


def _planned(state: StepState, config: RunConfig, round_: int) -> float:
    if config.step_schedule == "constant":
        return state.step
    return falling(state.step, state.hold, max(0, round_ - state.began))


def _after_again(state: StepState, trials: Sequence[Trial], planned: float) -> Findings:
    rungs = rungs_of(trials)
    hold = state.hold if state.raced else state.hold * _HOLD_STRETCHED  # a schedule that has won a race stays
    state = replace(state, followed=True, hold=hold, most=_MOST_STRETCHED)
    best = min(rungs, key=lambda rung: rung.loss) if rungs else Rung(0.0, math.inf, 0.0)
    if not math.isfinite(best.loss):
        return shortened(state, _AGAIN[-1], "every step tried under the first basis diverged")
    short = {rung.step for rung in rungs if rung.step <= best.step}
    slots = sum(trial.step in short for trial in trials)
    error = spread_within(trials, best.step) * math.sqrt(2.0 * len(short) / slots)  # of a difference between two steps
    found = max(rung.step for rung in rungs if rung.loss <= best.loss + error)
    if found >= planned:
        return Findings(state, planned * 1.001)
    shorter = shortened(state, found / planned, "longer steps are worse under the first basis")
    return replace(shorter, longest=found * 1.001)


def _after_longer(state: StepState, trials: Sequence[Trial], planned: float) -> Findings:
    found = 1.0
    for factor in sorted(_LONGER):
        fits = state.step * factor <= state.most * state.measured
        if factor > found and fits and clearly_better(trials, planned * factor, planned * found):
            found = factor
    # Moves of shorter steps stay: they are as good, only slower.
    findings = Findings(state, planned * found * 1.001)
    if found == 1.0:
        return findings
    longer = replace(state, step=state.step * found)
    shown = ", ".join(f"{rung.step:.3g}: {rung.loss:.4g}" for rung in rungs_of(trials))
    note = Intervention("step-size", state.step, longer.step, f"longer steps are better; mean loss by step: {shown}")
    return replace(findings, state=longer, interventions=(note,))


def _after_steady(state: StepState, x: Vector, trials: Sequence[Trial]) -> Findings:
    losses = without_diverged(trials)
    if not losses:
        return _back(shortened(state, _DIVERGED, "every slot diverged"), state.best_x)
    recent = (*state.recent, fmean(losses))[-_WINDOW:]
    state = replace(state, recent=recent, best_x=x if state.best_x is None else state.best_x)
    if len(recent) < _WINDOW:
        return Findings(state, math.inf)
    middle = median(recent)
    # Clients of their own kind of rows fall by themselves, the further the longer their steps: as steps get shorter
    # their losses rise though x gets better. Losses must climb back half of what they fell.
    allowed = max(_RISE * state.spread, _BACK * (state.level - state.best_loss)) if state.best_loss < math.inf else 0.0
    if middle > state.best_loss + allowed:
        why = f"the median loss of {_WINDOW} rounds rose from {state.best_loss:.6g} to {middle:.6g}"
        return _back(shortened(state, 0.5, why), state.best_x)
    spread = _MEMORY * state.spread + (1.0 - _MEMORY) * pstdev(recent)
    if middle < state.best_loss:
        state = replace(state, best_loss=middle, best_x=x)
    return Findings(replace(state, spread=spread), math.inf)


def _back(findings: Findings, x: Vector | None) -> Findings:
    note = Intervention("x", None, None, "back to where the loss was lowest")
    return replace(findings, restored=x, interventions=(*findings.interventions, note))
