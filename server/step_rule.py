"""step-size = auto: measure the first step on the run's own slots, then watch over it. Pure.

Nothing is evaluated beyond the rounds' own probes; all that is known of a slot is the mean loss of its probes.

1. *Coarse*: the slots of a round take steps of a geometric ladder (ratio 4) from the same x, which stays. A slot's
   mean loss falls below that of the shortest steps as its own steps get somewhere, and rises when they overshoot.
2. *Fine*: several slots each take a quarter, half, once and twice the step found. Taken is the shortest step that has
   most of the best fall: short, since a client of few kinds of rows fits them however long its steps are. x moves by
   the mean over the slots that took no longer ones.
3. *Again*, in the first round with a basis: directions are then longer inside the subspace, and the step is shortened
   to the longest one that is not clearly worse than the best.
4. *Steady*: the measured step is held, then falls as HOLD/sqrt(rounds since). If the rounds' losses, by their median
   over several rounds, climb half of the way back to where they began, the step is halved and x goes back to where
   they were lowest.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median, pstdev
from typing import Literal

from common.config import RunConfig
from common.typing import Vector
from server.interventions import Intervention
from server.step_trials import (
    Rung,
    Trial,
    clearly_better,
    level_of,
    rungs_of,
    shortest_good,
    spread_within,
    without_diverged,
)

__all__ = ["Findings", "StepState", "learn", "steps"]

_RATIO = 4.0  # between neighbours of the coarse ladder
_RUNGS = 10  # of the coarse ladder, at most in a round
_LEAST_RUNGS = 5  # before the ladder is judged
_HIGHER = 3  # rungs that a ladder is extended upwards by
_MOST_ROUNDS = 20  # of the coarse search; then the best step so far must do
_FINE = (0.25, 0.5, 1.0, 2.0)
_AGAIN = (1.0, 0.5, 0.25, 0.125)
_LONGER = (1.0, 2.0, 4.0, 0.5)
_FIRST_LONGER = 8  # rounds after the search; then twice as many, and so on
_MOST_STRETCHED = 2.0  # where directions are stretched along a basis
_MOST_LONGER = 4.0  # times the measured step: clients of few kinds of rows would have it longer without end
_HOLD_STRETCHED = 2.0  # where directions are stretched along a basis
_HOLD = 3.0  # the measured step is held for HOLD^2 rounds
_WINDOW = 5  # rounds whose median loss is compared
_RISE = 4.0  # spreads of a window that its median must be above the lowest one,
_BACK = 0.5  # and this share of the way back to the loss before the first move
_MEMORY = 0.9  # of the running mean of the spread

Stage = Literal["coarse", "fine", "again", "longer", "steady"]


@dataclass(frozen=True)
class StepState:
    """All that the rule remembers."""

    searching: Literal["coarse", "fine", "done"] = "coarse"
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


@dataclass(frozen=True)
class Findings:
    """What a round taught."""

    state: StepState
    longest: float  # moves of slots with longer steps are left out
    restored: Vector | None = None  # where x goes back to
    interventions: tuple[Intervention, ...] = ()


def steps(state: StepState, config: RunConfig, round_: int, slots: int, follows: bool) -> list[float]:
    """Return the step of each slot; ``follows``: whether the round's directions follow a basis."""
    stage = _stage(state, config, round_, follows)
    if stage == "coarse":
        rungs = _HIGHER if state.raised else min(slots, _RUNGS)
        lowest = _first_rung(slots) if state.lowest is None else state.lowest
        return [_RATIO ** (lowest + slot % rungs) for slot in range(slots)]
    if stage == "fine":
        return [state.step * _FINE[slot % len(_FINE)] for slot in range(slots)]
    planned = _planned(state, config, round_, follows)
    if stage == "again":
        return [planned * _AGAIN[slot % len(_AGAIN)] for slot in range(slots)]
    if stage == "longer":
        return [planned * _LONGER[slot % len(_LONGER)] for slot in range(slots)]
    return [planned] * slots


def learn(
    state: StepState, config: RunConfig, round_: int, x: Vector, trials: Sequence[Trial], follows: bool
) -> Findings:
    """Return what the slots of a round teach; ``x`` is where they began, (n,)."""
    match _stage(state, config, round_, follows):
        case "coarse":
            return _after_coarse(state, trials, config.clients_per_round, round_)
        case "fine":
            return _after_fine(state, trials, round_)
        case "again":
            return _after_again(state, trials, _planned(state, config, round_, follows))
        case "longer":
            return _after_longer(state, trials, _planned(state, config, round_, follows))
        case "steady":
            return _after_steady(state, trials, x)


def _stage(state: StepState, config: RunConfig, round_: int, follows: bool) -> Stage:
    if state.searching != "done":
        return state.searching
    if follows and not state.followed:
        return "again"
    since = round_ - state.began
    looks = since >= _FIRST_LONGER and since.bit_count() == 1  # at powers of two
    return "longer" if looks and config.clients_per_round >= 2 * len(_LONGER) else "steady"


def _first_rung(slots: int) -> int:
    return -(2 * min(max(slots, _LEAST_RUNGS), _RUNGS)) // 3


def _planned(state: StepState, config: RunConfig, round_: int, follows: bool) -> float:
    if config.step_schedule == "constant":
        return state.step
    hold = _HOLD_STRETCHED if follows else _HOLD
    return state.step * min(1.0, hold / math.sqrt(round_ - state.began + 1))


def _after_coarse(state: StepState, trials: Sequence[Trial], slots: int, round_: int) -> Findings:
    tried = (*state.tried, *trials)
    state = replace(state, tried=tried, rounds=state.rounds + 1)
    ladder = rungs_of(tried)
    usable = [rung for rung in ladder if math.isfinite(rung.loss)]
    found = shortest_good(ladder, level_of(usable)) if usable else 0.0
    if state.rounds < _MOST_ROUNDS:
        top, bottom = _exponent(ladder[-1].step), _exponent(ladder[0].step)
        if len(ladder) < _LEAST_RUNGS and len(usable) == len(ladder):
            return Findings(replace(state, lowest=top + 1), 0.0)
        if not usable or min(usable, key=lambda rung: rung.loss).step == ladder[0].step:  # all are too long
            return Findings(replace(state, lowest=bottom - min(slots, _RUNGS), raised=False), 0.0)
        level, least = level_of(usable), min(rung.loss for rung in usable)
        # Noise apart, the longest step must be seen to hurt; a client of one label may never show it.
        ends = ladder[-1].loss <= level + (level - least) and not state.raised
        if found == 0.0 or ends or (len(ladder) > 1 and found > ladder[-2].step * 1.001):
            return Findings(replace(state, lowest=top + 1, raised=True), 0.0)
    found = found or (usable or ladder)[0].step
    if slots < len(_FINE):  # one slot each would be no better
        return _found(state, found, tried, round_)
    return Findings(replace(state, searching="fine", step=found), 0.0)


def _after_fine(state: StepState, trials: Sequence[Trial], round_: int) -> Findings:
    coarse = [rung for rung in rungs_of(state.tried) if math.isfinite(rung.loss)]
    found = shortest_good(rungs_of(trials), level_of(coarse)) if coarse else 0.0
    return _found(state, found or state.step * _FINE[0], (*state.tried, *trials), round_)


def _found(state: StepState, step: float, tried: Sequence[Trial], round_: int) -> Findings:
    shown = ", ".join(f"{rung.step:.3g}: {rung.loss:.4g}" for rung in rungs_of(tried))
    note = Intervention("step-size", None, step, f"measured; mean loss by step: {shown}")
    level = level_of([rung for rung in rungs_of(tried) if math.isfinite(rung.loss)] or [Rung(0.0, math.inf, 0.0)])
    state = replace(
        state, searching="done", step=step, measured=step, began=round_ + 1, tried=(), level=level, best_loss=level
    )
    return Findings(state, step * 1.001, interventions=(note,))


def _after_again(state: StepState, trials: Sequence[Trial], planned: float) -> Findings:
    rungs = rungs_of(trials)
    state = replace(state, followed=True)
    best = min(rungs, key=lambda rung: rung.loss) if rungs else Rung(0.0, math.inf, 0.0)
    if not math.isfinite(best.loss):
        return _shortened(state, _AGAIN[-1], "every step tried under the first basis diverged")
    short = {rung.step for rung in rungs if rung.step <= best.step}
    slots = sum(trial.step in short for trial in trials)
    error = spread_within(trials, best.step) * math.sqrt(2.0 * len(short) / slots)  # of a difference between two steps
    found = max(rung.step for rung in rungs if rung.loss <= best.loss + error)
    if found >= planned:
        return Findings(state, planned * 1.001)
    shortened = _shortened(state, found / planned, "longer steps are worse under the first basis")
    return replace(shortened, longest=found * 1.001)


def _after_longer(state: StepState, trials: Sequence[Trial], planned: float) -> Findings:
    found = 1.0
    most = _MOST_STRETCHED if state.followed else _MOST_LONGER
    for factor in sorted(_LONGER):
        fits = state.step * factor <= most * state.measured
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


def _after_steady(state: StepState, trials: Sequence[Trial], x: Vector) -> Findings:
    losses = without_diverged(trials)
    if not losses:
        return replace(_shortened(state, 1.0 / _RATIO, "every slot diverged"), restored=state.best_x)
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
        return replace(_shortened(state, 0.5, why), restored=state.best_x)
    spread = _MEMORY * state.spread + (1.0 - _MEMORY) * pstdev(recent)
    if middle < state.best_loss:
        state = replace(state, best_loss=middle, best_x=x)
    return Findings(replace(state, spread=spread), math.inf)


def _shortened(state: StepState, factor: float, why: str) -> Findings:
    # The losses of shorter steps have to find their own lowest again.
    shorter = replace(state, step=state.step * factor, recent=(), best_loss=state.level)
    return Findings(shorter, 0.0, interventions=(Intervention("step-size", state.step, shorter.step, why),))


def _exponent(step: float) -> int:
    return round(math.log(step, _RATIO))
