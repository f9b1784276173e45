"""step-size = auto: measure the first step on the run's own slots, then watch over it. Pure.

Nothing is evaluated beyond the rounds' own probes; all that is known of a slot is the mean loss of its probes.

1. *Coarse*: the slots of a round take steps of a geometric ladder (ratio 4) from the same x, which stays. A slot's
   mean loss falls below that of the shortest steps as its own steps get somewhere, and rises when they overshoot.
2. *Fine*: several slots each take a quarter, half, once and twice the step found. Taken is the shortest step that has
   most of the best fall: short, since a client of few kinds of rows fits them however long its steps are. x moves by
   the mean over the slots that took no longer ones.
3. *Again*, in the first round with a basis: directions are then longer inside the subspace, and the step is shortened
   to the longest one that is not clearly worse than the best.
4. *Steady*: the measured step is held, then falls as HOLD/sqrt(rounds since). If the rounds' losses rise, by their
   median over several rounds, the step is halved and x goes back to where they were lowest.
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

__all__ = ["Findings", "StepState", "Trial", "learn", "steps"]

_RATIO = 4.0  # between neighbours of the coarse ladder
_RUNGS = 10  # of the coarse ladder, at most in a round
_LEAST_RUNGS = 5  # before the ladder is judged
_HIGHER = 3  # rungs that a ladder is extended upwards by
_MOST_ROUNDS = 12  # of the coarse search; then the best step so far must do
_FINE = (0.25, 0.5, 1.0, 2.0)
_AGAIN = (1.0, 0.5, 0.25, 0.125)
_SHARE = 0.9  # of the best fall that the step must have
_HOLD = 3.0  # the measured step is held for HOLD^2 rounds
_WINDOW = 5  # rounds whose median loss is compared
_RISE = 3.0  # spreads of a window that its median must be above the lowest one
_MEMORY = 0.9  # of the running mean of the spread

Stage = Literal["coarse", "fine", "again", "steady"]


@dataclass(frozen=True)
class Trial:
    """What one slot says: the step it took, and the mean loss of its probes (inf where it diverged)."""

    step: float
    loss: float


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
    best_loss: float = math.inf  # lowest median of a window
    best_x: Vector | None = None  # x in the last round of that window: (n,)


@dataclass(frozen=True)
class Findings:
    """What a round taught."""

    state: StepState
    longest: float  # moves of slots with longer steps are left out
    restored: Vector | None = None  # where x goes back to
    interventions: tuple[Intervention, ...] = ()


def steps(state: StepState, config: RunConfig, round_: int, slots: int, follows: bool) -> list[float]:
    """Return the step of each slot; ``follows``: whether the round's directions follow a basis."""
    stage = _stage(state, follows)
    if stage == "coarse":
        rungs = _HIGHER if state.raised else min(slots, _RUNGS)
        lowest = _first_rung(slots) if state.lowest is None else state.lowest
        return [_RATIO ** (lowest + slot % rungs) for slot in range(slots)]
    if stage == "fine":
        return [state.step * _FINE[slot % len(_FINE)] for slot in range(slots)]
    planned = _planned(state, config, round_)
    if stage == "again":
        return [planned * _AGAIN[slot % len(_AGAIN)] for slot in range(slots)]
    return [planned] * slots


def learn(
    state: StepState, config: RunConfig, round_: int, x: Vector, trials: Sequence[Trial], follows: bool
) -> Findings:
    """Return what the slots of a round teach; ``x`` is where they began, (n,)."""
    match _stage(state, follows):
        case "coarse":
            return _after_coarse(state, trials, config.clients_per_round, round_)
        case "fine":
            return _after_fine(state, trials, round_)
        case "again":
            return _after_again(state, trials, _planned(state, config, round_))
        case "steady":
            return _after_steady(state, trials, x)


def _stage(state: StepState, follows: bool) -> Stage:
    if state.searching != "done":
        return state.searching
    return "again" if follows and not state.followed else "steady"


def _first_rung(slots: int) -> int:
    return -(2 * min(max(slots, _LEAST_RUNGS), _RUNGS)) // 3


def _planned(state: StepState, config: RunConfig, round_: int) -> float:
    if config.step_schedule == "constant":
        return state.step
    return state.step * min(1.0, _HOLD / math.sqrt(round_ - state.began + 1))


def _after_coarse(state: StepState, trials: Sequence[Trial], slots: int, round_: int) -> Findings:
    tried = (*state.tried, *trials)
    curve = _curve(tried)
    ladder = sorted(curve)
    state = replace(state, tried=tried, rounds=state.rounds + 1)
    best = min(ladder, key=lambda step: curve[step]) if ladder else 0.0
    found = _shortest_good(curve)
    last = state.rounds >= _MOST_ROUNDS
    if not last and (len(ladder) < _LEAST_RUNGS and math.isfinite(curve.get(best, math.inf))):
        return Findings(replace(state, lowest=_exponent(ladder[-1]) + 1), 0.0)
    if not last and (not ladder or best == ladder[0] or not math.isfinite(curve[best])):
        below = _exponent(ladder[0]) if ladder else _first_rung(slots)
        return Findings(replace(state, lowest=below - min(slots, _RUNGS), raised=False), 0.0)
    if not last and found > ladder[-2] * 1.001:  # it still falls at the end of the ladder
        return Findings(replace(state, lowest=_exponent(ladder[-1]) + 1, raised=True), 0.0)
    if slots < len(_FINE):  # one slot each would be no better
        state = replace(state, searching="done", step=found, began=round_ + 1, tried=())
        return Findings(state, found * 1.001, interventions=(_measured(found, tried),))
    return Findings(replace(state, searching="fine", step=found), 0.0)


def _after_fine(state: StepState, trials: Sequence[Trial], round_: int) -> Findings:
    level = fmean(_without_diverged([trial for trial in state.tried if trial.step <= state.step / _RATIO**2]) or [0.0])
    if not any(trial.step <= state.step / _RATIO**2 for trial in state.tried):
        level = max(_without_diverged(state.tried), default=math.inf)
    found = _shortest_good(_curve(trials), level) or state.step * _FINE[0]
    tried = (*state.tried, *trials)
    state = replace(state, searching="done", step=found, began=round_ + 1, tried=())
    return Findings(state, found * 1.001, interventions=(_measured(found, tried),))


def _after_again(state: StepState, trials: Sequence[Trial], planned: float) -> Findings:
    curve = _curve(trials)
    best = min(curve.values(), default=math.inf)
    state = replace(state, followed=True)
    if not math.isfinite(best):
        return _shortened(state, _AGAIN[-1], "every step tried under the first basis diverged")
    rests = [trial.loss - curve[trial.step] for trial in trials if math.isfinite(curve[trial.step])]
    repeats = max(1.0, len(rests) / len(curve))
    error = math.sqrt(sum(rest**2 for rest in rests) / max(1, len(rests) - len(curve)) / repeats)
    found = max(step for step, loss in curve.items() if loss <= best + 2.0 * math.sqrt(2.0) * error)
    if found >= planned:
        return Findings(state, planned * 1.001)
    return replace(
        _shortened(state, found / planned, "longer steps are worse under the first basis"), longest=found * 1.001
    )


def _after_steady(state: StepState, trials: Sequence[Trial], x: Vector) -> Findings:
    losses = _without_diverged(trials)
    if not losses:
        return replace(_shortened(state, 1.0 / _RATIO, "every slot diverged"), restored=state.best_x)
    recent = (*state.recent, fmean(losses))[-_WINDOW:]
    state = replace(state, recent=recent)
    if len(recent) < _WINDOW:
        return Findings(state, math.inf)
    middle, width = median(recent), pstdev(recent)
    allowed = _RISE * max(state.spread, 1e-3 * abs(state.best_loss))
    if state.best_x is not None and middle > state.best_loss + allowed:
        why = f"the median loss of {_WINDOW} rounds rose from {state.best_loss:.6g} to {middle:.6g}"
        return replace(_shortened(state, 0.5, why), restored=state.best_x)
    spread = width if state.best_x is None else _MEMORY * state.spread + (1.0 - _MEMORY) * width
    if middle < state.best_loss:
        state = replace(state, best_loss=middle, best_x=x)
    return Findings(replace(state, spread=spread), math.inf)


def _shortened(state: StepState, factor: float, why: str) -> Findings:
    shorter = replace(state, step=state.step * factor, recent=())
    return Findings(shorter, 0.0, interventions=(Intervention("step-size", state.step, shorter.step, why),))


def _measured(found: float, tried: Sequence[Trial]) -> Intervention:
    shown = ", ".join(f"{step:.3g}: {loss:.4g}" for step, loss in sorted(_curve(tried).items()))
    return Intervention("step-size", None, found, f"measured; mean loss by step: {shown}")


def _curve(trials: Sequence[Trial]) -> dict[float, float]:
    """The mean loss of each step; one that diverged anywhere is infinitely bad."""
    losses: dict[float, list[float]] = {}
    for trial in trials:
        losses.setdefault(trial.step, []).append(trial.loss)
    return {step: fmean(found) if all(map(math.isfinite, found)) else math.inf for step, found in losses.items()}


def _shortest_good(curve: dict[float, float], level: float | None = None) -> float:
    """Return the shortest step, between those tried, with most of the best fall below ``level``.

    The level is the loss without steps; unless given, that of the shortest step. 0 when nothing falls.
    """
    ladder = sorted(step for step, loss in curve.items() if math.isfinite(loss))
    if not ladder:
        return 0.0
    level = curve[ladder[0]] if level is None else level
    falls = [level - curve[step] for step in ladder]
    wanted = _SHARE * max(falls)
    if wanted <= 0.0:
        return ladder[0] if level == curve[ladder[0]] else 0.0
    after = next(index for index, fall in enumerate(falls) if fall >= wanted)
    if after == 0:
        return ladder[0]
    share = (wanted - falls[after - 1]) / (falls[after] - falls[after - 1])
    return float(ladder[after - 1] * (ladder[after] / ladder[after - 1]) ** share)


def _without_diverged(trials: Sequence[Trial]) -> list[float]:
    return [trial.loss for trial in trials if math.isfinite(trial.loss)]


def _exponent(step: float) -> int:
    return round(math.log(step, _RATIO))
