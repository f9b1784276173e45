"""Two-point slopes along a direction.

central:  c = [F(w + mu v) - F(w - mu v)] / (2 mu)   (Algorithm 1, line 15)
forward:  c = [F(w + mu v) - F(w)] / mu

Built-in objectives give the difference exactly; black boxes are evaluated at both ends.
"""

from __future__ import annotations

from typing import NamedTuple

from zofedht.common.objective.base import ExactObjective, Objective, checked_loss
from zofedht.common.typing import Indices, Vector

__all__ = ["ENDS", "Probe", "probe"]

ENDS = {"central": (1.0, -1.0), "forward": (1.0, 0.0)}
"""Ends of the two-point difference, in units of the radius."""


class Probe(NamedTuple):
    """A slope and the mean of the two losses that gave it."""

    slope: float
    loss: float


def probe(objective: Objective, w: Vector, v: Vector, radius: float, batch: Indices | slice, kind: str) -> Probe:
    """Measure the slope of F along v at w on the samples of ``batch``.

    Raises ObjectiveError when a black box raises, or returns anything but a finite float64 number.
    """
    upper, lower = (end * radius for end in ENDS[kind])
    if isinstance(objective, ExactObjective):
        difference, low = objective.difference(w, v, upper, lower, batch)
    else:
        high, low = (checked_loss(value) for value in objective.ends(w, v, upper, lower, batch))
        difference = high - low
    return Probe(difference / (upper - lower), low + 0.5 * difference)
