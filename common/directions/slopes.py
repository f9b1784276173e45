"""Two-point slopes along a direction.

central:  c = [F(w + mu v) - F(w - mu v)] / (2 mu)   (Algorithm 1, line 15; eq. 1 of MeZO, eq. 3 of FedMeZO)
forward:  c = [F(w + mu v) - F(w)] / mu              (eq. 3.12 of RSGF, eq. 3 of DeComFL)

three-point: c as central, and the curvature v'Hv = [F(w + mu v) - 2 F(w) + F(w - mu v)] / mu^2
gradient: no probe; c is the length of the gradient and v the unit vector along it.

A step may measure q slopes at one w, on the same samples: forward slopes then share F(w), so that q of them take q + 1
evaluations of the samples, and three-point slopes 2 q + 1. Built-in objectives give the difference exactly; black boxes
are evaluated at both ends.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from zofedht.common.objective.base import ExactObjective, Objective, checked_loss
from zofedht.common.typing import Indices, Matrix, Vector

__all__ = ["ENDS", "Probes", "along_gradient", "probes"]

ENDS = {"central": (1.0, -1.0), "forward": (1.0, 0.0), "three-point": (1.0, -1.0)}
"""Ends of the two-point difference, in units of the radius."""


class Probes(NamedTuple):
    """The slopes of one step, (q,), for each the mean of the two losses that gave it, (q,), and v'Hv where measured."""

    slopes: Vector
    losses: Vector
    curvatures: Vector | None = None


def probes(
    objective: Objective, w: Vector, directions: Matrix, radius: float, batch: Indices | slice, kind: str
) -> Probes:
    """Measure the slopes of F along the rows of ``directions``, (q, n), at w on the samples of ``batch``.

    Raises ObjectiveError when a black box raises, or returns anything but a finite float64 number.
    """
    if kind == "three-point":
        return _three_points(objective, w, directions, radius, batch)
    upper, lower = (end * radius for end in ENDS[kind])
    if isinstance(objective, ExactObjective):
        exact = (objective.difference(w, v, upper, lower, batch) for v in directions)
        differences, lows = (np.array(side) for side in zip(*exact, strict=True))
    elif lower == 0.0 and len(directions) > 1:  # all forward slopes share F(w)
        base, highs = objective.base_and_ends(w, directions, upper, batch)
        lows = np.full(len(directions), base)
        differences = highs - lows
    else:
        pairs = (objective.ends(w, v, upper, lower, batch) for v in directions)
        highs, lows = (np.array([checked_loss(value) for value in side]) for side in zip(*pairs, strict=True))
        differences = highs - lows
    return Probes(differences / (upper - lower), lows + 0.5 * differences)


def _three_points(objective: Objective, w: Vector, directions: Matrix, radius: float, batch: Indices | slice) -> Probes:
    if isinstance(objective, ExactObjective):
        pairs = [[objective.difference(w, v, end, 0.0, batch) for end in (radius, -radius)] for v in directions]
        up, down = (np.array([pair[end][0] for pair in pairs]) for end in (0, 1))  # F at an end, less F(w)
        base = pairs[0][0][1]
    else:
        base, ends = objective.base_and_ends(w, np.concatenate([directions, -directions]), radius, batch)
        up, down = ends[: len(directions)] - base, ends[len(directions) :] - base
    return Probes((up - down) / (2.0 * radius), base + 0.5 * (up + down), (up + down) / radius**2)


def along_gradient(objective: Objective, w: Vector, batch: Indices | slice) -> tuple[Matrix, Probes]:
    """Return the unit vector along the gradient of F at w, (1, n), and the slope along it, which is its length.

    Raises ObjectiveError for a black box.
    """
    value, gradient = objective.value_and_gradient(w, batch)
    length = float(np.linalg.norm(gradient))
    unit = gradient / length if length > 0.0 else gradient
    return unit[None], Probes(np.array([length]), np.array([value]))
