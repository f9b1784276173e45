"""The stiff directions that a run knows, and along which of them it shrinks now. Pure.

What is shrunk is hardly travelled. Where x is pulled along a stiff direction for several rounds, the least F along it
is elsewhere, or the direction is not stiff any more. So it is let go, until the pull of as many rounds is no more than
their noise. The pull is that of the mean moves, so nothing is asked for it.

A slope c along v moves x by c v. With f the factor that shrinks and g the gradient, the mean of this along a shrunk
direction d is f^2 d'g, and its standard deviation is about f |g|. So N slopes tell the pull in f N^1/2 d'g / |g|
standard errors: in ten, where all of g is along d and N is 100 / f^2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from zofedht.common.config.run_config import RunConfig
from zofedht.common.typing import Matrix, Vector

__all__ = ["StiffDirections", "pulled", "window"]

_FEWEST = 10  # rounds whose pulls are compared: so many, or as many as
_SLOPES = 100.0  # over f^2 slopes take;
_CLEARLY = 5.0  # standard errors of their mean tell a pull from noise


@dataclass(frozen=True)
class StiffDirections:
    """What was told or learnt at the end of the warm-up, and what the latest rounds found along it."""

    directions: Matrix  # orthonormal columns: (n, k)
    shrunk: tuple[bool, ...]  # whether directions shrink along each of them
    pulls: tuple[Vector, ...] = ()  # mean moves along them over the step size, since ``shrunk`` changed: (k,) each

    @staticmethod
    def of(directions: Matrix) -> StiffDirections:
        """Return what is known where directions begin to shrink along all of these, (n, k)."""
        return StiffDirections(directions, (True,) * directions.shape[1])

    @property
    def guide(self) -> Matrix:
        """Those along which directions shrink, (n, at most k)."""
        return self.directions[:, list(self.shrunk)]


def window(config: RunConfig) -> int | None:
    """Return of how many rounds the pulls are compared; None where f is 0, as nothing is pulled there."""
    if config.shrink == 0.0:
        return None
    slots = 1 if config.directions == "shared" else config.clients_per_round
    slopes = slots * config.step_spec(step_size=0.0).slopes
    return max(_FEWEST, math.ceil(_SLOPES / (config.shrink**2 * slopes)))


def pulled(known: StiffDirections, mean_move: Vector, step_size: float, rounds: int | None) -> StiffDirections:
    """Return what is known after a round whose mean move, (n,), was made with this step size, above 0.

    ``rounds`` is what ``window`` returned.
    """
    if rounds is None:
        return known
    pulls = (*known.pulls, known.directions.T @ mean_move / step_size)[-rounds:]
    if len(pulls) < rounds:
        return replace(known, pulls=pulls)
    errors = np.std(pulls, axis=0, ddof=1) / math.sqrt(rounds)
    shrunk = tuple(bool(found) for found in np.abs(np.mean(pulls, axis=0)) <= _CLEARLY * errors)
    return replace(known, shrunk=shrunk, pulls=pulls if shrunk == known.shrunk else ())
