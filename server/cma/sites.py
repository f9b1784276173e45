"""How many sites a generation is asked of, and which: all candidates at the same sites, in turn.

Candidates are never spread over sites: a site's own level and slope would then decide the ranks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from zofedht.common.algorithms import LEAST
from zofedht.common.random.streams import stream
from zofedht.server.cma.tables import Reading

__all__ = ["LEAST", "Turns", "Watch"]

_MORE, _FEWER = 1.5, 1.22
_IDLE = 0.25  # of the signal: a spread of the sites that is smaller asks for fewer of them
_SHRINK = 1.3
_MEMORY = 0.3
_PATIENCE = 5  # generations in which noise exceeds the signal


@dataclass(frozen=True)
class Turns:
    """Whose turn it is: seeded permutations of all sites, one after another."""

    queue: tuple[int, ...] = ()
    permutations: int = 0

    def next(self, seed: int, sites: int, wanted: int) -> tuple[tuple[int, ...], Turns]:
        """Return ``wanted`` different sites, in ascending order, and the turns after them."""
        queue, permutations = list(self.queue), self.permutations
        taken: list[int] = []
        while len(taken) < wanted:
            place = next((place for place, site in enumerate(queue) if site not in taken), None)
            if place is None:
                queue += stream(seed, "sites", permutations).permutation(sites).tolist()
                permutations += 1
            else:
                taken.append(queue.pop(place))
        return tuple(sorted(taken)), Turns(tuple(queue), permutations)


@dataclass(frozen=True)
class Watch:
    """wanted: m, not rounded. noise: variance of one answer to the same question, None before it is known.

    ``drowned`` counts generations in a row in which the noise of a candidate's mean exceeded what sets candidates
    apart, by running means.
    """

    wanted: float
    noise: float | None = None
    mean_noise: float = 0.0
    mean_signal: float = 0.0
    drowned: int = 0

    def sites(self, of: int) -> int:
        """Return m."""
        return max(1, min(of, round(self.wanted)))

    @property
    def quiet(self) -> bool:
        """Whether answers are known to have no noise."""
        return self.noise == 0.0

    @property
    def loud(self) -> bool:
        """Whether noise has hidden what sets candidates apart for long enough."""
        return self.drowned >= _PATIENCE

    def after(self, reading: Reading, of: int, repeats: int) -> Watch:
        """Return the watch after a generation; ``repeats`` is how often each question was asked."""
        m = reading.answers
        noise = (self.noise or 0.0) / repeats
        spread = 0.0 if math.isnan(reading.residual) else max(reading.residual - noise, 0.0)  # between sites
        signal = reading.variance - noise / m - spread / m * (1.0 - m / of)
        wanted = self._wanted(spread, signal, reading, of) if of > 1 else self.wanted
        old = 1.0 - _MEMORY if self.mean_noise or self.mean_signal else 0.0
        mean_noise = old * self.mean_noise + (1.0 - old) * noise / m
        mean_signal = old * self.mean_signal + (1.0 - old) * max(signal, 0.0)
        drowned = self.drowned + 1 if mean_noise > mean_signal else 0
        return replace(self, wanted=wanted, mean_noise=mean_noise, mean_signal=mean_signal, drowned=drowned)

    def _wanted(self, spread: float, signal: float, reading: Reading, of: int) -> float:
        left = spread / reading.answers * (1.0 - reading.answers / of)
        if reading.sites == of:
            left = spread * (_SHRINK / of) * (1.0 - 1.0 / _SHRINK)
            return max(float(LEAST), self.wanted / _FEWER) if left < _IDLE * signal else self.wanted
        if left > signal:
            return min(float(of), self.wanted * _MORE)
        return max(float(min(LEAST, of)), self.wanted / _FEWER) if left < _IDLE * signal else self.wanted
