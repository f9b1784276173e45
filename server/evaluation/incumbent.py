"""The best x that a run has evaluated in full: the incumbent. Pure functions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from zofedht.common.rules import LARGEST_LOSS
from zofedht.common.typing import Vector
from zofedht.server.evaluation.full_evaluation import FullEvaluation

__all__ = ["EVERYBODY", "EvaluatedX", "better_of"]

EVERYBODY = ("",)
"""Whose loss the server's own rows give: one site without a name."""


@dataclass(frozen=True)
class EvaluatedX:
    """An x, the rounds that led to it, and its loss at each site.

    ``x`` is (n,) in search units, ``losses`` is (sites,). A site is a client; where the server has all rows, it is one
    site without a name.
    """

    x: Vector
    round: int
    sites: tuple[str, ...]
    losses: Vector

    @classmethod
    def of(cls, x: Vector, round_: int, evaluation: FullEvaluation) -> EvaluatedX:
        """Return x with the losses of an evaluation; nobody's, where nobody could evaluate it.

        A loss beyond 1e100 counts as 1e100: larger ones cannot be compared, since their sums and squares overflow.
        """
        alone = bool(evaluation.metrics) and not evaluation.clients
        losses = [evaluation.metrics["train_loss"]] if alone else evaluation.losses
        told = np.array(losses, dtype=np.float64)
        told[(np.abs(told) > LARGEST_LOSS) & np.isfinite(told)] = LARGEST_LOSS
        return cls(x, round_, EVERYBODY if alone else evaluation.clients, told)

    def losses_at(self, sites: tuple[str, ...]) -> Vector:
        """Return the losses at these sites, NaN where x has none, (sites,)."""
        known = dict(zip(self.sites, self.losses.tolist(), strict=True))
        return np.array([known.get(site, np.nan) for site in sites])


def better_of(best: EvaluatedX | None, new: EvaluatedX) -> EvaluatedX | None:
    """Return the one with the lower mean loss, the older of two equal ones; None while no x has a finite loss.

    The means are over the sites that have evaluated both. A new x takes the place of the old one only if these are at
    least half of the old one's sites.
    """
    if not new.sites or not np.all(np.isfinite(new.losses)):
        return best
    if best is None:
        return new
    both = tuple(site for site in best.sites if site in set(new.sites))
    if 2 * len(both) < len(best.sites):
        return best
    return new if float(np.mean(new.losses_at(both) - best.losses_at(both))) < 0.0 else best
