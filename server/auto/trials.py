"""What the slots of a round say about the steps that they tried. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean, pstdev

__all__ = [
    "Rung",
    "Trial",
    "evened",
    "hurting",
    "level_of",
    "risen",
    "rungs_of",
    "shortest_good",
    "spread_within",
    "throws_about",
]

_SHARE = 0.9  # of the best fall that the step must have
_EXPLAINED = 2.0  # times what the slopes explain is the most that a fall counts: the rest is which client it was
_NEAR = 0.05  # of the scatter of starts: what the slopes of a short slot explain at most
_MAGNITUDE = 1000.0  # ratio of changes that steps of a ladder do not make as long as they are short
_SHORTEST = 3  # rungs that must not throw x about
_CLEARLY = 2.0  # standard deviations of the starts that the slots of these rise by,
_ROUNDING = 1e-6  # and this share of them, if they do
_LEAST_SHORT = 3  # slots, to tell whether starts are exact
_HARM = 1.0  # times the best fall is what a step must raise the loss by to be seen to hurt
_NOTHING = 0.05  # of the best fall: a step whose slopes explain less is as good as none


@dataclass(frozen=True)
class Trial:
    """What one slot says: the step it took, the mean loss of its probes (inf where it diverged), and how far that
    may have fallen by its slopes: eta (K - 1)/2 times their mean square, to first order. ``start_loss`` is the loss at
    the x where it began, whatever its step; inf where it told none."""

    step: float
    loss: float
    explained: float = math.inf
    client: str = ""
    start_loss: float = math.inf

    @property
    def rise(self) -> float:
        """How far the slot's mean loss is above the one that it began with: inf where it diverged or told no start."""
        known = math.isfinite(self.loss) and math.isfinite(self.start_loss)
        return self.loss - self.start_loss if known else math.inf


@dataclass(frozen=True)
class Rung:
    """The slots of one step together; a step that diverged anywhere is infinitely bad."""

    step: float
    loss: float
    explained: float
    slots: int


def risen(trials: Sequence[Trial]) -> list[Trial]:
    """Return the trials with the rise of each in the place of its loss."""
    return [replace(trial, loss=trial.rise) for trial in trials]


def evened(trials: Sequence[Trial]) -> list[Trial]:
    """Return the trials, all from the same x, with losses as if all clients' were equal there, where that is known.

    It is where slots too short to change anything have the loss that they began with: then each slot is judged by its
    own fall. With few rows a batch a first probe says less of a client than the mean over a slot does.
    """
    known = [trial for trial in trials if math.isfinite(trial.rise)]
    starts = [trial.start_loss for trial in known]
    near = _NEAR * pstdev(starts) if known else 0.0
    short = [trial for trial in known if trial.explained <= near]
    if len(short) < _LEAST_SHORT or any(abs(trial.rise) > 2.0 * near for trial in short):
        return list(trials)
    middle = fmean(starts)
    return [replace(trial, loss=trial.rise + middle) for trial in trials]


def rungs_of(trials: Sequence[Trial]) -> list[Rung]:
    """The steps tried, the shortest first."""
    by_step: dict[float, list[Trial]] = {}
    for trial in trials:
        by_step.setdefault(trial.step, []).append(trial)
    return [
        Rung(
            step,
            fmean(t.loss for t in same) if _all_finite(same) else math.inf,
            fmean(t.explained for t in same),
            len(same),
        )
        for step, same in sorted(by_step.items())
    ]


def _all_finite(trials: Sequence[Trial]) -> bool:
    return all(math.isfinite(trial.loss) for trial in trials)


def level_of(rungs: Sequence[Rung]) -> float:
    """The loss without steps: of the shortest one, and of those whose slopes explain next to no fall."""
    least = min(rung.loss for rung in rungs)
    small = _NOTHING * (rungs[0].loss - least)
    return fmean([rungs[0].loss, *(rung.loss for rung in rungs[1:] if rung.explained <= small)])


def shortest_good(rungs: Sequence[Rung], level: float) -> float:
    """Return the shortest step, between those tried, with most of the best fall below ``level``; 0 if nothing falls."""
    ladder = [rung for rung in rungs if math.isfinite(rung.loss)]
    falls = [min(level - rung.loss, _EXPLAINED * rung.explained) for rung in ladder]
    wanted = _SHARE * max(falls, default=0.0)
    if wanted <= 0.0:
        return 0.0
    after = next(index for index, fall in enumerate(falls) if fall >= wanted)
    if after == 0:
        return ladder[0].step
    share = (wanted - falls[after - 1]) / (falls[after] - falls[after - 1])
    return float(ladder[after - 1].step * (ladder[after].step / ladder[after - 1].step) ** share)


def throws_about(trials: Sequence[Trial]) -> bool:
    """Whether even the shortest steps lead x anywhere: they change the losses that their slots began with by other
    magnitudes, upwards, or all of them end clearly above those. The second is what is left to see where x was thrown to
    a bound, to where the loss is flat, or so far that floats tell no two probes apart: from there on all end alike."""
    known = [trial for trial in trials if math.isfinite(trial.start_loss)]
    rungs = rungs_of(risen(known))[:_SHORTEST]
    if len(rungs) < 2:
        return False
    starts = [trial.start_loss for trial in known]
    clear = _CLEARLY * pstdev(starts) + _ROUNDING * abs(fmean(starts))
    rises = [rung.loss for rung in rungs if math.isfinite(rung.loss)]
    if rises and max(rises) > max(clear, _MAGNITUDE * min(abs(rise) for rise in rises)):
        return True
    low = [trial.rise for trial in known if trial.step <= rungs[-1].step]
    return len(rungs) == _SHORTEST and min(low) > 0.0 and fmean(low) > clear


def hurting(trials: Sequence[Trial]) -> float:
    """Return the shortest step whose slots end clearly above where they began, and above where slots began in the mean
    (a start on few rows may lie low by its rows), inf if there is none. What steps longer than that one gain is luck,
    as where bounds catch slots that are thrown about."""
    known = [trial for trial in trials if math.isfinite(trial.start_loss)]
    if not known:
        return math.inf
    starts = [trial.start_loss for trial in known]
    middle = fmean(starts)
    clear = _CLEARLY * pstdev(starts) + _ROUNDING * abs(middle)
    rungs = rungs_of([replace(trial, loss=min(trial.rise, trial.loss - middle)) for trial in known])
    harm = max(clear, _HARM * max(-rung.loss for rung in rungs))
    return next((rung.step for rung in rungs if rung.loss > harm), math.inf)


def spread_within(trials: Sequence[Trial], longest: float) -> float:
    """Return the standard deviation of a slot's loss around the mean of its step, over the steps up to ``longest``
    that diverged nowhere: the scatter of longer steps would hide what shorter ones do."""
    means = {rung.step: rung.loss for rung in rungs_of(trials) if rung.step <= longest and math.isfinite(rung.loss)}
    rests = [trial.loss - means[trial.step] for trial in trials if trial.step in means]
    return math.sqrt(sum(rest**2 for rest in rests) / max(1, len(rests) - len(means)))
