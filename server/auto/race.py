"""The third part of the search: steps, raced against each other over rounds. Pure.

What single slots lose in a round tells neither how far the mean over slots may go nor what long steps are good for
later: they stir x up at first, and lead it farther. So steps are tried in turns of whole rounds: twice the measured
one, then 4, 8... times; if the first of them is the best, also the measured one, half of it... All turns begin at the
same x and meet the clients of the same rounds. After rounds of its own step a turn has rounds of a quarter of it, in
which what was stirred up settles, and ends with a look: rounds of steps so short that their slots tell the loss at the
x that they began from. The least mean of these wins, and the run goes on from where its turn had led x.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean, stdev

from zofedht.common.config.run_config import RunConfig
from zofedht.common.typing import Vector
from zofedht.server.auto.interventions import Intervention
from zofedht.server.auto.state import Findings, Judged, Race, StepState, thrown
from zofedht.server.auto.trials import Trial

__all__ = ["FIRST", "after_race", "begin_race", "race_length", "raced_step"]

FIRST = 2.0  # times the measured step is where a race begins, and a run without one where it falls linearly
_BETWEEN = 2.0  # ratio of neighbouring steps
_LEAST_RUN = 100  # rounds of a run that has the time for a race
_SHARE = 20  # a turn has this part of the run's rounds,
_LEAST, _MOST = 6, 30  # within these
_SPENT = 0.32  # no turn begins that would end after this part of the run
_OWN = 0.44  # of a turn's rounds have its own step,
_LOOKS = 0.15  # and the last ones steps that are
_LOOK = 1e-3  # times as long; those between settle with steps that are
_SETTLING = 0.25  # times as long
_CLEARLY = 2.0  # errors that a shorter step must be better by
_SADDLE = 0.05  # of the loss is what steps may raise it by before they count as too long


def race_length(config: RunConfig, total: int = 0) -> int:
    """Return the rounds of a turn, 0 where there is no race: in short runs, and where steps are constant.

    ``total``: how many rounds the run will have, as far as known where a budget ends it; 0: as the config says.
    """
    rounds = total or config.rounds
    if rounds < _LEAST_RUN or config.step_schedule == "constant":
        return 0
    return min(_MOST, max(_LEAST, rounds // _SHARE))


def begin_race(state: StepState, round_: int, total: int = 0) -> StepState:
    """Return the state in which a race starts in the round ``round_`` of ``total``."""
    return replace(state, searching="race", race=Race(round_, total))


def raced_step(state: StepState, config: RunConfig) -> float:
    """Return the step of all slots in the present round of the race."""
    assert state.race is not None
    step, rounds, length = _step(state, state.race.runner), state.race.rounds, race_length(config, state.race.total)
    if _looks(rounds, length):
        return _LOOK * step
    return step if rounds < round(_OWN * length) else _SETTLING * step


def _looks(rounds: int, length: int) -> bool:
    return rounds >= length - max(1, round(_LOOKS * length))


def after_race(state: StepState, config: RunConfig, x: Vector, trials: Sequence[Trial]) -> Findings:
    """Return what a round of the race, from ``x``, (n,), teaches: at the end of a turn x goes elsewhere."""
    assert state.race is not None
    race, length = state.race, race_length(config, state.race.total)
    race = replace(race, start=x if race.start is None else race.start, rounds=race.rounds + 1)
    diverged = not trials or any(not math.isfinite(trial.loss) for trial in trials)
    if _looks(race.rounds - 1, length):
        race = replace(race, seen=(*race.seen, *((race.rounds, trial.client, trial.loss) for trial in trials)))
    if race.rounds < length and not diverged:
        return Findings(replace(state, race=race), math.inf)
    seen = () if diverged else race.seen
    worse, error = _difference(seen, race.least) if seen else (math.inf, 0.0)
    hurt = diverged or _hurts(seen, state.level)
    # What a turn sees is the beginning of a run, and longer steps are for what comes later: shorter ones must be clear.
    if worse < (0.0 if race.runner >= 0 else -_CLEARLY * error):
        race = replace(race, best=race.runner, best_x=x, least=seen)
    # Where nothing has fallen yet, as at a saddle, steps are not long enough.
    good = worse <= error or _mean(race.least) >= state.level
    following = _following(race, good, hurt)
    # There is no length where a run was resumed with rounds too few for a race.
    if following is not None and 0 < (race.turns + 1) * length <= _SPENT * (race.total or config.rounds):
        note = Intervention("x", None, None, f"back to the start of the race, for {_step(state, following):.3g}")
        race = replace(race, runner=following, turns=race.turns + 1, rounds=0, seen=())
        return Findings(replace(state, race=race), 0.0, race.start, interventions=(note,))
    return _over(state, race)


def _over(state: StepState, race: Race) -> Findings:
    if race.best is None or thrown(state, _mean(race.least)):
        step, x = _step(state, min(race.runner, 0) - 2), race.start  # a quarter of the shortest that was raced
        why = "every step raced diverged" if race.best is None else "every step raced threw x about"
        where = "back to the start of the race"
    else:
        step, x = _step(state, race.best), race.best_x
        why, where = f"the best of the {race.turns} raced", "to where the best step of the race had led it"
    notes = (Intervention("step-size", state.step, step, why), Intervention("x", None, None, where))
    return Findings(replace(state, searching="done", race=None, step=step), 0.0, x, interventions=notes)


def _following(race: Race, good: bool, hurt: bool) -> int | None:
    """Return whose turn is next, None at the end: upwards while steps are ``good``, else downwards from the first."""
    if race.runner >= 0:
        if good and not hurt:
            return race.runner + 1
        return -1 if race.best in (None, 0) else None
    return race.runner - 1 if hurt or race.best == race.runner else None


def _hurts(seen: Sequence[Judged], level: float) -> bool:
    """Whether a turn has led x to where the loss is higher than before the first move, by more than its error and by
    more than a saddle does."""
    error = _error([loss for *_, loss in seen]) if len(seen) > 1 else 0.0
    return _mean(seen) - level > max(error, _SADDLE * abs(level))


def _error(values: Sequence[float]) -> float:
    """Return the standard error of the mean of two values or more."""
    return stdev(values) / math.sqrt(len(values))


def _mean(seen: Sequence[Judged]) -> float:
    return fmean(loss for *_, loss in seen) if seen else math.inf


def _step(state: StepState, index: int) -> float:
    return state.step * FIRST * _BETWEEN**index


def _difference(ours: Sequence[Judged], theirs: Sequence[Judged]) -> tuple[float, float]:
    """Return how much higher our losses are in the mean, and the standard error of that: by round and client, where
    two or more are common."""
    if not theirs:
        return -math.inf, 0.0
    one, other = _by_place(ours), _by_place(theirs)
    both = [one[place] - other[place] for place in one if place in other]
    if len(both) < 2:
        return fmean(one.values()) - fmean(other.values()), 0.0
    return fmean(both), _error(both)


def _by_place(losses: Sequence[Judged]) -> Mapping[tuple[int, str], float]:
    places: dict[tuple[int, str], list[float]] = {}
    for round_, client, loss in losses:
        places.setdefault((round_, client), []).append(loss)
    return {place: fmean(all_of_it) for place, all_of_it in places.items()}
