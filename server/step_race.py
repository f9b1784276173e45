"""The third part of the search: whole schedules of the step, raced against each other. Pure.

What single slots lose in a round tells neither how far the mean over slots may go nor what long first steps are good
for: a network begun at zero, a saddle, ends far lower when they throw it far. So schedules are tried: the measured
step, held and then lowered, and schedules that begin 3, 9, 27... times as long and fall as 1/sqrt(round) at once. All
begin at the same x and meet the clients of the same rounds. In its last third a candidate takes the measured step, and
is judged by the losses there: by where its moves have led x, not by what its own steps fit or stir up. The next longer
one is tried until one is worse than the best by more than the standard error of their difference.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean, stdev

from common.config import RunConfig
from common.typing import Vector
from server.interventions import Intervention
from server.step_state import HOLD, Findings, Judged, Race, StepState
from server.step_trials import Trial

__all__ = ["after_race", "begin_race", "falling", "race_length", "raced_step"]

_BETWEEN = 3.0  # ratio of neighbouring schedules
_LEAST_RUN = 100  # rounds of a run that has the time for a race
_SHARE = 25  # a candidate has this part of the run's rounds,
_LEAST, _MOST = 6, 30  # within these
_SPENT = 4  # no candidate begins that would end after this part of the run


def race_length(config: RunConfig) -> int:
    """Return the rounds of a candidate, 0 where there is no race: in short runs, and where steps are constant."""
    if config.rounds < _LEAST_RUN or config.step_schedule == "constant":
        return 0
    return min(_MOST, max(_LEAST, config.rounds // _SHARE))


def begin_race(state: StepState, round_: int) -> StepState:
    """Return the state in which a race starts in the round ``round_``."""
    return replace(state, searching="race", race=Race(round_))


def raced_step(state: StepState, config: RunConfig) -> float:
    """Return the step of all slots in the present round of the race."""
    assert state.race is not None
    race = state.race
    index = race.judge if _is_judged(race, race_length(config)) else race.runner
    return falling(*_schedule(state.step, index), race.rounds)


def after_race(state: StepState, config: RunConfig, round_: int, x: Vector, trials: Sequence[Trial]) -> Findings:
    """Return what a round of the race, from ``x``, (n,), teaches: at the end of a schedule's turn x goes elsewhere."""
    assert state.race is not None
    race, length = state.race, race_length(config)
    race = replace(race, start=x) if race.start is None else race
    diverged = not trials or any(not math.isfinite(trial.loss) for trial in trials)
    if _is_judged(race, length):
        race = replace(race, losses=(*race.losses, *((race.rounds, trial.client, trial.loss) for trial in trials)))
    race = replace(race, rounds=race.rounds + 1)
    if race.rounds < length and not diverged:
        return Findings(replace(state, race=race), math.inf)
    worse, error = (math.inf, 0.0) if diverged else _difference(race.losses, race.best_losses)
    if race.best_x is None or worse < 0.0:
        end, losses = (race.start, ()) if diverged else (x, race.losses)
        race = replace(race, best=race.runner, best_losses=losses, best_x=end)
    if diverged and race.runner == race.judge:
        race = replace(race, judge=race.judge - 1)
    following = _following(race, worse, error)
    if following is not None and (race.turns + 1) * length <= config.rounds // _SPENT:
        note = Intervention("x", None, None, f"back to the start of the race, for schedule {_shown(following)}")
        race = replace(race, runner=following, turns=race.turns + 1, rounds=0, losses=())
        return Findings(replace(state, race=race), 0.0, race.start, interventions=(note,))
    step, hold = _schedule(state.step, race.best)
    why = f"schedule {_shown(race.best)} is the best of the {race.turns} raced"
    notes = (
        Intervention("step-size", state.step, step, why),
        Intervention("x", None, None, "to where the best schedule of the race had led it"),
    )
    began = round_ + 2 - length
    state = replace(
        state,
        searching="done",
        race=None,
        step=step,
        hold=hold,
        began=began,
        raced=True,
    )
    return Findings(state, 0.0, race.best_x, interventions=notes)


def _following(race: Race, worse: float, error: float) -> int | None:
    """Return the schedule that is next after one that was this much ``worse`` than the best before it; None at the end.

    Upwards ties count as better: at a saddle nothing falls before steps are long enough.
    """
    if race.runner >= 0 and worse <= error:
        return race.runner + 1
    if race.best == 0 and race.runner >= 0:
        return -1
    return race.runner - 1 if race.runner < 0 and worse < 0.0 else None


def falling(step: float, hold: float, since: int) -> float:
    """Return the step after ``since`` rounds of a schedule."""
    return step * min(1.0, hold / math.sqrt(since + 1))


def _schedule(measured: float, index: int) -> tuple[float, float]:
    """Return a schedule's first step, and the root of the rounds that it is held for."""
    if index > 0:
        return measured * HOLD * _BETWEEN ** (index - 1), 1.0
    return measured * _BETWEEN**index, HOLD


def _shown(index: int) -> str:
    first, _ = _schedule(1.0, index)
    return f"{first:.3g} x {'held' if index <= 0 else 'falling'}"


def _is_judged(race: Race, length: int) -> bool:
    return race.rounds >= length - length // 3


def _difference(ours: Sequence[Judged], theirs: Sequence[Judged]) -> tuple[float, float]:
    """Return how much higher our losses are in the mean, and the standard error of that: by round and client, where
    two or more are common."""
    if not theirs:
        return -math.inf, 0.0
    one, other = _by_place(ours), _by_place(theirs)
    both = [one[place] - other[place] for place in one if place in other]
    if len(both) < 2:
        return fmean(one.values()) - fmean(other.values()), 0.0
    return fmean(both), stdev(both) / math.sqrt(len(both))


def _by_place(losses: Sequence[Judged]) -> Mapping[tuple[int, str], float]:
    places: dict[tuple[int, str], list[float]] = {}
    for round_, client, loss in losses:
        places.setdefault((round_, client), []).append(loss)
    return {place: fmean(all_of_it) for place, all_of_it in places.items()}
