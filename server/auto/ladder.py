"""The first two parts of the search for a step: a ladder of steps, and a finer look. Pure.

1. *Coarse*: the slots of a round take steps of a geometric ladder (ratio 4) from the same x, which stays. A slot's
   mean loss falls below that of the shortest steps as its own steps get somewhere, and rises when they overshoot.
   Where the first probes tell how clients differ at x, each slot is judged by its own fall.
2. *Fine*: several slots each take a quarter, half, once and twice the step found. Taken is the shortest step that has
   most of the best fall: short, since a client of few kinds of rows fits them however long its steps are. Where the
   fall is no more than noise, as at a saddle, it is the longest step that is not seen to hurt, less the factor that a
   race starts at.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean, pstdev

from zofedht.common.config.run_config import RunConfig
from zofedht.server.auto.interventions import Intervention
from zofedht.server.auto.race import FIRST, begin_race, race_length
from zofedht.server.auto.state import Findings, StepState
from zofedht.server.auto.trials import (
    Rung,
    Trial,
    evened,
    hurting,
    level_of,
    rungs_of,
    shortest_good,
    spread_within,
    throws_about,
)

__all__ = ["after_coarse", "after_fine", "coarse_steps", "fine_steps"]

_RATIO = 4.0  # between neighbours of the coarse ladder
_RUNGS = 10  # of the coarse ladder, at most in a round
_LEAST_RUNGS = 5  # before the ladder is judged
_HIGHER = 3  # rungs that a ladder is extended upwards by
_HURTS = 4.0  # times the best fall that the longest step must raise the loss by to be seen to hurt
_KEPT = 0.25  # of what the slopes explain is gained by steps that are not too long
_SHORTEST = 3  # rungs, whose losses differ by noise
_MOST_ROUNDS = 20  # of the coarse search; then the best step so far must do
_WILD_ROUNDS = 15  # in which a ladder whose shortest steps throw x about goes on below,
_WILD = 3  # rungs lower at least
_FINE = (0.25, 0.5, 1.0, 2.0)
_SEEN = 3.0  # standard errors that a fall must have
_HURT = 3.0  # standard deviations of a slot that a loss is above the level where a step hurts


def coarse_steps(state: StepState, slots: int) -> list[float]:
    """Return the step of each slot."""
    rungs = _HIGHER if state.raised else min(slots, _RUNGS)
    lowest = _lowest(slots) if state.lowest is None else state.lowest
    return [_RATIO ** (lowest + slot % rungs) for slot in range(slots)]


def fine_steps(state: StepState, slots: int) -> list[float]:
    """Return the step of each slot."""
    return [state.step * _FINE[slot % len(_FINE)] for slot in range(slots)]


def after_coarse(state: StepState, config: RunConfig, round_: int, trials: Sequence[Trial], total: int = 0) -> Findings:
    """Return what a round on the ladder teaches; x stays."""
    slots = config.clients_per_round
    tried = (*state.tried, *trials)
    state = replace(state, tried=tried, rounds=state.rounds + 1)
    ladder = rungs_of(evened(tried))
    usable = [rung for rung in ladder if math.isfinite(rung.loss)]
    found = shortest_good(ladder, level_of(usable)) if usable else 0.0
    hurts = hurting(tried)
    few = sum(rung.step < hurts for rung in ladder) < _SHORTEST
    # What a step seems to gain that is longer than one that hurts.
    lucky = found >= hurts and (few or _went_below(tried, slots))
    if lucky:
        usable = [rung for rung in usable if rung.step < hurts]
        found = shortest_good(usable, level_of(usable)) if usable else 0.0
    if state.rounds < _MOST_ROUNDS:
        top, bottom = _exponent(ladder[-1].step), _exponent(ladder[0].step)
        if len(ladder) < _LEAST_RUNGS and len(usable) == len(ladder):
            return Findings(replace(state, lowest=top + 1), 0.0)
        if state.rounds < _WILD_ROUNDS and (throws_about(tried) or (lucky and few)):
            return Findings(replace(state, lowest=bottom - max(_WILD, min(slots, _RUNGS)), raised=False), 0.0)
        if all(rung.explained == 0.0 for rung in ladder):  # no slope anywhere: no step leads anywhere
            return Findings(state, 0.0)
        if not usable or min(usable, key=lambda rung: rung.loss).step == ladder[0].step:  # all are too long
            return Findings(replace(state, lowest=bottom - min(slots, _RUNGS), raised=False), 0.0)
        if lucky:  # and neither are steps any longer worth a look
            return _finer(state, config, round_, found or usable[0].step, tried, total)
        last_is_best = len(ladder) > 1 and found > ladder[-2].step * 1.001
        if found == 0.0 or last_is_best or _ends_too_low(usable, ladder[-1], state, config):
            return Findings(replace(state, lowest=top + 1, raised=True), 0.0)
    return _finer(state, config, round_, found or (usable or ladder)[0].step, tried, total)


def _finer(
    state: StepState, config: RunConfig, round_: int, found: float, tried: Sequence[Trial], total: int
) -> Findings:
    if config.clients_per_round < len(_FINE):  # one slot each would be no better
        return _found(state, config, round_, found, tried, total)
    return Findings(replace(state, searching="fine", step=found), 0.0)


def _lowest(slots: int) -> int:
    """Return the exponent of the first ladder's shortest step."""
    return -(2 * min(max(slots, _LEAST_RUNGS), _RUNGS)) // 3


def _went_below(tried: Sequence[Trial], slots: int) -> bool:
    """Whether the first ladder's shortest steps were not short: then what its longer ones gained was luck. Otherwise it
    may be that clients differ, of whom some bear steps that hurt others, and the finer look tells."""
    return _exponent(min(trial.step for trial in tried)) < _lowest(slots)


def _ends_too_low(usable: Sequence[Rung], last: Rung, state: StepState, config: RunConfig) -> bool:
    """Whether the longest step, ``last``, was not seen to be too long, noise apart; ``usable`` did not diverge."""
    level, losses = level_of(usable), [rung.loss for rung in usable]
    if not state.raised:
        return last.loss <= level + _HURTS * (level - min(losses))
    # A client of one label may never show that long steps hurt; but what they gain falls behind their slopes.
    noise = max(losses[:_SHORTEST]) - min(losses[:_SHORTEST])
    # What slopes explain is told by the length of the move. In few dimensions that is longer than K steps on their own
    # are: all K lie along much the same slope, which makes it 1 + (K + 1)/n times as much.
    assert state.best_x is not None  # the x of the search
    kept = _KEPT / (1.0 + (config.steps_of_slot + 1) / state.best_x.shape[0])
    return last.explained < noise or level - last.loss > kept * last.explained


def after_fine(state: StepState, config: RunConfig, round_: int, trials: Sequence[Trial], total: int = 0) -> Findings:
    """Return what the finer look teaches; before a race x stays."""
    tried = (*state.tried, *trials)
    alike = evened(tried)
    before, now = alike[: len(state.tried)], alike[len(state.tried) :]
    coarse = [rung for rung in rungs_of(before) if math.isfinite(rung.loss)]
    found, hurts = shortest_good(rungs_of(now), level_of(coarse)) if coarse else 0.0, hurting(tried)
    if found >= hurts and _went_below(state.tried, config.clients_per_round):  # luck
        coarse = [rung for rung in coarse if rung.step < hurts]
        now = [trial for trial in now if trial.step < hurts]
        found = shortest_good(rungs_of(now), level_of(coarse)) if coarse and now else 0.0
    if coarse and not found and state.rounds < _MOST_ROUNDS:  # what one slot seemed to gain is nothing: look below
        state = replace(state, tried=tried, rounds=state.rounds + 1, step=state.step * _FINE[0] / 2.0)
        return Findings(state, 0.0)
    if coarse and found:
        found = _longer_in_noise(found, level_of(coarse), now, alike, race_length(config, total) > 0)
    return _found(state, config, round_, found or state.step * _FINE[0], tried, total)


def _longer_in_noise(found: float, level: float, trials: Sequence[Trial], tried: Sequence[Trial], raced: bool) -> float:
    """Return ``found`` where the best fall is more than noise; else, before a race, a step near the longest that does
    not hurt: longer ones are tried soon."""
    best = min((rung for rung in rungs_of(trials) if math.isfinite(rung.loss)), key=lambda rung: rung.loss)
    spread = spread_within(trials, max(best.step, found))
    if not raced or level - best.loss > _SEEN * spread / math.sqrt(best.slots):
        return found
    longest = found
    for rung in rungs_of(tried):
        if rung.loss > level + _HURT * spread:
            break
        longest = rung.step
    return max(found, longest / (2.0 * FIRST))


def _found(
    state: StepState, config: RunConfig, round_: int, step: float, tried: Sequence[Trial], total: int
) -> Findings:
    shown = ", ".join(f"{rung.step:.3g}: {rung.loss:.4g}" for rung in rungs_of(evened(tried)))
    # The losses where all slots began: no step has changed them, and they scatter by which clients and rows these were.
    starts = [trial.start_loss for trial in tried if math.isfinite(trial.start_loss)]
    level, spread = (fmean(starts), pstdev(starts)) if starts else (math.inf, 0.0)
    changes = [abs(trial.rise) for trial in tried if trial.step <= step * 1.001]
    reach = max((change for change in changes if math.isfinite(change)), default=0.0)
    raced = race_length(config, total) > 0
    longer = not raced and config.step_schedule == "linear" and FIRST * step < hurting(tried)
    step *= FIRST if longer else 1.0
    why = f"{FIRST:g} times what was measured, since it falls to nothing" if longer else "measured"
    note = Intervention("step-size", None, step, f"{why}; mean loss by step: {shown}")
    state = replace(state, step=step, tried=(), level=level, best_loss=level, spread=spread, reach=reach)
    if raced:
        return Findings(begin_race(state, round_ + 1, total), 0.0, interventions=(note,))
    return Findings(replace(state, searching="done"), step * 1.001, interventions=(note,))


def _exponent(step: float) -> int:
    return round(math.log(step, _RATIO))
