"""Whether one x is better than another, from paired answers of sites. Pure statistics.

Two statements. *These sites*: the mean gain of the sites that were asked, uncertain by the noise of their answers
alone; where asking twice gave equal answers it is exact. *Sites like these*: Student's t over the gains of at least 3
sites. It covers 94 to 95% where gains are normal and 83 to 87% where they are lognormal. The percentile bootstrap
covers less (78% at 3 sites).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from zofedht.common.typing import Matrix, Vector

__all__ = ["CONFIDENCE", "LEAST_SITES", "Comparison", "comparison"]

CONFIDENCE = 0.95
LEAST_SITES = 3
"""Sites from which an interval for sites like these is told."""

Interval = tuple[float, float]


@dataclass(frozen=True)
class Comparison:
    """How much lower F is at x than at x0: ``gain`` is the mean over the sites of F(x0) - F(x).

    ``these_sites`` and ``sites_like_these`` are 95% intervals of it, None where there is nothing to tell them by.
    ``gains`` are those of the ``sites``; ``lost`` are sites without an answer to each question. ``noise`` is the
    standard deviation of one paired difference, NaN where each was asked once, and ``reach`` how far a 95% interval
    reaches on both sides of the gain of one site.
    """

    gain: float
    these_sites: Interval | None
    sites_like_these: Interval | None
    sites: tuple[str, ...]
    gains: Vector
    lost: tuple[str, ...]
    noise: float
    reach: float

    @property
    def wins(self) -> int:
        """At how many sites x is better."""
        return int(np.sum(self.gains > 0.0))

    @property
    def losses(self) -> int:
        """At how many sites x is worse."""
        return int(np.sum(self.gains < 0.0))

    @property
    def worst(self) -> str:
        """The site that gains least."""
        return self.sites[int(np.argmin(self.gains))] if self.sites else ""

    @property
    def better(self) -> bool:
        """Whether the gain is above 0 by more than its uncertainty: for sites like these, else for these sites."""
        interval = self.sites_like_these or self.these_sites
        return interval is not None and interval[0] > 0.0

    @property
    def better_here(self) -> bool:
        """Whether the gain of these sites is above 0 by more than the noise of their answers."""
        return self.these_sites is not None and self.these_sites[0] > 0.0

    def about(self) -> dict[str, Any]:
        """Return all of it but the gains of single sites, for a JSON file."""
        return {
            "gain": self.gain,
            "these_sites": None if self.these_sites is None else list(self.these_sites),
            "sites_like_these": None if self.sites_like_these is None else list(self.sites_like_these),
            "noise": self.noise,
            "wins": self.wins,
            "losses": self.losses,
            "worst": self.worst,
            "lost": list(self.lost),
        }

    def __str__(self) -> str:
        if not self.sites:
            return f"no site answered both (lost: {', '.join(self.lost)})"
        told = [f"gain {self.gain:.4g}"]
        for interval, whom in ((self.sites_like_these, "sites like these"), (self.these_sites, "these sites")):
            if interval is not None and interval[0] < interval[1]:
                told.append(f"{whom} {interval[0]:.4g} to {interval[1]:.4g} (95%)")
            elif interval is not None:
                told.append(f"{whom} exactly")
        told.append(f"{self.wins} of {len(self.sites)} sites better")
        if len(self.sites) > 1:
            told.append(f"worst {self.worst} ({float(np.min(self.gains)):+.4g})")
        if self.lost:
            told.append(f"lost {', '.join(self.lost)}")
        return ", ".join(told)


def comparison(before: Matrix, after: Matrix, sites: Sequence[str]) -> Comparison:
    """Return what paired answers say: F at x0 and at x, each (sites, repeats), NaN where lost."""
    differences = before - after
    whole = ~np.any(np.isnan(differences), axis=1)
    differences = differences[whole]
    gains = differences.mean(axis=1) if len(differences) else np.empty(0)
    count, repeats = len(gains), before.shape[1]
    gain = float(np.mean(gains)) if count else math.nan
    noise, reach, these, alike = math.nan, math.nan, None, None
    if count and repeats > 1:
        noise = math.sqrt(float(np.mean(np.var(differences, axis=1, ddof=1))))
        reach = _reach(noise / math.sqrt(repeats), count * (repeats - 1))
        these = _around(gain, reach / math.sqrt(count))
    if count >= LEAST_SITES:
        alike = _around(gain, _reach(float(np.std(gains, ddof=1)) / math.sqrt(count), count - 1))
    kept = tuple(site for site, answered in zip(sites, whole, strict=True) if answered)
    lost = tuple(site for site, answered in zip(sites, whole, strict=True) if not answered)
    return Comparison(gain, these, alike, kept, gains, lost, noise, reach)


def _reach(error: float, freedom: int) -> float:
    if error == 0.0:
        return 0.0
    from scipy.special import stdtrit  # loaded at the end of a run, not at its begin

    return float(stdtrit(freedom, 0.5 + CONFIDENCE / 2)) * error


def _around(middle: float, reach: float) -> Interval:
    return middle - reach, middle + reach
