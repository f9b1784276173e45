"""step-size = auto: steps as long as the curvature allows, and an anchor that x falls back to. Pure.

Clients measure some of their steps: by how much the loss falls, and what the slopes promised. The sums over slots and
rounds give h, the curvature v'Hv at the steps' own length, and the base of the schedule follows 1/h. Each slot also
compares x with the anchor, the best x so far, on the same samples. No client is compared with another one.

1/h is right for the samples of a step. Slopes c whose samples or clients differ leave noise in x: with a step size eta
along random directions in n parameters, and means over M slots, F settles n eta c^2/(4 M) above its least value. N
steps of a linear schedule, whose squares sum to N eta^2/3, cannot raise it by more than h N eta^2 c^2/(6 M), which is
less where n is large. After the ramp the base is no longer than what makes the lesser as much as F has fallen.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean, pstdev

from zofedht.common.typing import Vector
from zofedht.server.auto.interventions import Intervention

__all__ = ["Findings", "Look", "StepState", "learn", "planned"]

CARRIED = 0.95  # of the sums of earlier rounds
PACE = 1.3  # ratio of the bases of neighbouring rounds, at most
RAMP_LEAST, RAMP_MOST = 4.0, 32.0  # the same in the beginning: at least, at most,
RAMP_DECADES = 50.0  # and so that a whole run would have so many decades
OVERSHOT = 4.0  # step size times curvature of a round that is undone: above 2 steps raise the loss,
THROWN = 10.0  # and a rise in units of what the slopes promised as a fall
WINDOW = 5  # rounds whose comparisons with the anchor count,
PAIRS = 5  # at least so many,
CLEARLY = 3.0  # standard errors that decide
LATE = 0.1  # of a run: the rounds whose comparisons decide at its end whether x goes back
LEAST = 0.5  # of 1/h: no noise makes the base shorter
HOLD = 3.0  # under 1/sqrt(round) the base is held for HOLD^2 rounds


@dataclass(frozen=True)
class Look:
    """What a slot measured; see ``client/falls``."""

    steps: int  # K
    step: float  # eta
    squares: float  # mean c^2
    bent: float  # sum of s^2 h
    lengths: float  # sum of s^2
    gap: float  # F(x) - F(anchor)

    @property
    def promised(self) -> float:
        """By how much the loss is to fall in the slot, by its slopes: K eta c^2."""
        return self.steps * self.step * self.squares


@dataclass(frozen=True)
class StepState:
    """All that the rule remembers."""

    base: float = 0.0  # the schedule's step size before it falls; 0: not known yet
    ratio: float = 0.0  # of the bases of neighbouring rounds, at most
    bent: float = 0.0  # sum of s^2 h of the measured steps,
    lengths: float = 0.0  # and of s^2
    part: float = 0.0  # of the run that the latest round took
    anchor: Vector | None = None  # the best x so far: (n,)
    promised: float = 0.0  # by how much the loss was to fall since then, by the slopes
    gained: float = 0.0  # F(x_0) - F(anchor), the sum of the gaps at which x became the anchor
    gaps: tuple[tuple[float, ...], ...] = ()  # F(x) - F(anchor) of the slots of the latest rounds, the newest last,
    late: tuple[float, ...] = ()  # and their means in the latest rounds, as many as LATE says

    @property
    def ramping(self) -> bool:
        """Whether the base has not been yet what the curvature allows."""
        return self.ratio != PACE


@dataclass(frozen=True)
class Findings:
    """What a round taught."""

    state: StepState
    restored: Vector | None = None  # where x goes back to
    interventions: tuple[Intervention, ...] = ()


def planned(state: StepState, schedule: str, round_: int, progress: float) -> float:
    """Return the step size of a round; ``progress`` is the part of the run that is over before it.

    The last round moves nothing: it compares x with the anchor.
    """
    left = max(0.0, 1.0 - progress - state.part)
    if left < 1e-9:
        return 0.0
    match schedule:
        case "linear":
            return state.base * left
        case "inverse-sqrt":
            return state.base * min(1.0, HOLD / math.sqrt(round_ + 1))
        case _:
            return state.base


def learn(
    state: StepState, x: Vector, looks: Sequence[Look], lost: int, radius: float, part: float, progress: float
) -> Findings:
    """Return what a round teaches that began at x, (n,).

    ``lost`` slots diverged; ``part`` of the run was the round; ``progress`` is what is over after it.
    """
    squares = sum(look.squares for look in looks)
    if state.base == 0.0:
        if squares == 0.0:  # flat as far as the radius reaches
            return Findings(replace(state, anchor=x))
        base = radius / math.sqrt(squares / len(looks))
        note = Intervention("step-size", None, base, "steps as long as the radius")
        return Findings(replace(state, base=base, anchor=x, part=part), interventions=(note,))
    ratio = state.ratio or max(RAMP_LEAST, min(RAMP_MOST, 10.0 ** (RAMP_DECADES * part)))
    gaps = tuple(look.gap for look in looks)
    gap = fmean(gaps) if looks else math.inf
    kept = max(1, round(LATE / part)) if part > 0.0 else 0  # nothing that a budget counts: as many as there are
    late = ((*state.late, gap) if looks else state.late)[-kept:]
    state = replace(state, part=part, ratio=ratio, gaps=(*state.gaps, gaps)[-WINDOW:], late=late)
    if progress >= 1.0:
        ends_worse = not looks or min(gaps) > 0.0 or _errors(late) > 1.0
        return _back(state, state, "the run ends where it was best") if ends_worse else Findings(state)
    if lost > len(looks):
        return _back(state, _shorter(state), "slots diverged")
    if gap > THROWN * state.promised:
        return _back(state, _shorter(state), "the loss rose by more than slopes explain")
    if len(state.gaps) == WINDOW and all(gap > 0.0 for round_ in state.gaps for gap in round_):
        return _back(state, replace(state, base=state.base / 2.0), "all slots of five rounds found it better")
    if squares == 0.0:
        return Findings(state)
    if _better(state.gaps) and gap < 0.0:
        state = replace(state, anchor=x, gaps=(), late=(), promised=0.0, gained=state.gained - gap)
    bent, lengths = sum(look.bent for look in looks), sum(look.lengths for look in looks)
    if bent * looks[0].step > OVERSHOT * lengths:
        shorter = _shorter(state)
        return Findings(shorter, x, (_note(state, shorter, "steps raised the loss on their own samples"),))
    state = replace(
        state,
        bent=CARRIED * state.bent + bent,
        lengths=CARRIED * state.lengths + lengths,
        promised=state.promised + fmean(look.promised for look in looks),
    )
    allowed = state.lengths / state.bent if state.bent > 0.0 else math.inf
    if len(looks) > 1 and not state.ramping:  # of one slot nobody knows whether its slopes hold noise
        allowed = min(allowed, max(_quiet(state, looks, len(x), squares / len(looks)), LEAST * allowed))
    base = min(max(allowed, state.base / ratio), state.base * ratio)
    return Findings(replace(state, base=base, ratio=ratio if allowed > base else PACE))


def _quiet(state: StepState, looks: Sequence[Look], parameters: int, square: float) -> float:
    """Return the base whose noise is as much as F fell since the start; ``square`` is c^2."""
    gained = len(looks) * state.gained / square
    settled = 4.0 * gained / parameters
    if state.bent <= 0.0 or state.part <= 0.0:
        return settled
    steps = looks[0].steps / state.part  # of the whole run: N
    return max(settled, math.sqrt(6.0 * gained / steps * (state.lengths / state.bent)))


def _shorter(state: StepState) -> StepState:
    """Return the state after steps that were far too long."""
    base = state.base / max(RAMP_LEAST, state.ratio)
    return replace(state, base=base, ratio=max(PACE, math.sqrt(state.ratio)), bent=0.0, lengths=0.0)


def _better(gaps: Sequence[Sequence[float]]) -> bool:
    """Whether the mean of the gaps is clearly below 0; they must be some.

    Each is in units of the largest one of its round: rounds may be of different magnitudes.
    """
    scaled = []
    for round_ in gaps:
        largest = max(map(abs, round_), default=0.0)
        scaled += [gap / largest if largest > 0.0 else 0.0 for gap in round_]
    return len(scaled) >= PAIRS and _errors(scaled) < -CLEARLY


def _errors(values: Sequence[float]) -> float:
    """Return the mean in units of its standard error; with none it is infinitely many, or 0."""
    mean, error = fmean(values), pstdev(values) / math.sqrt(len(values))
    return mean / error if error > 0.0 else math.copysign(math.inf, mean) if mean else 0.0


def _back(before: StepState, after: StepState, why: str) -> Findings:
    """Return that x goes back to the anchor."""
    notes = [_note(before, after, why)] if after.base != before.base else []
    notes.append(Intervention("x", None, None, f"back to the best x so far: {why}"))
    return Findings(replace(after, gaps=(), late=(), promised=0.0), before.anchor, tuple(notes))


def _note(before: StepState, after: StepState, why: str) -> Intervention:
    return Intervention("step-size", before.base, after.base, why)
