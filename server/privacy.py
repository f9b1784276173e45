"""How much privacy a run has spent, by Google's accountant, and the noise that the server itself adds.

Local: what is accounted is what a server learns of one row. A slot is K Gaussian mechanisms, each on a batch that every
row is in with probability p, by a draw that only the device knows. Which client has a slot is known to the server, so
the draw of clients counts for nothing; a row is in the shard of one client, so the client with the most slots decides.
Two shards are neighbours where one row has a blank in its place, whose slopes are 0.

Central: what is accounted is what readers of x learn of one client; the server is trusted. A round is one Gaussian
mechanism on the mean of its slots' slopes, from M of N clients that are drawn in secret. Two fleets are neighbours
where one client has other data.

Sources: Mironov 2017 (Renyi privacy), Mironov et al. 2019 (Poisson sampling), Wang et al. 2019 (without replacement).
"""

from __future__ import annotations

import functools
import hmac
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from zofedht.common.config.run_config import RunConfig
from zofedht.common.errors import ConfigError, MissingExtraError
from zofedht.common.privacy.private_draws import SECRET_BYTES, PrivateDraws
from zofedht.common.typing import Matrix, Vector

__all__ = ["Account", "Exposure", "drawing_seed", "new_secret", "with_noise"]

_ORDERS = (*range(2, 64), 80, 96, 128, 192, 256, 512)
"""Of Renyi divergence. Whole orders have exact sums; others gain a little where epsilon is beyond 20."""
_MOST = 2**40


@dataclass(frozen=True)
class Exposure:
    """What was asked until now: the slots of each client, and the rounds by how their clients were drawn."""

    slots: tuple[tuple[str, int], ...] = ()  # (client, slots), under local privacy
    rounds: int = 0  # drawn from all clients
    small_rounds: int = 0  # drawn from fewer, of whom sampling hides nobody

    def with_slot(self, client: str) -> Exposure:
        """Return the exposure after one more slot of a client."""
        counts = dict(self.slots)
        counts[client] = counts.get(client, 0) + 1
        return replace(self, slots=tuple(counts.items()))

    def with_round(self, *, small: bool) -> Exposure:
        """Return the exposure after one more round."""
        if small:
            return replace(self, small_rounds=self.small_rounds + 1)
        return replace(self, rounds=self.rounds + 1)

    def slots_of(self, client: str) -> int:
        """Return how many slots a client was asked."""
        return dict(self.slots).get(client, 0)


class Account:
    """The accountant of a run.

    Raises
    ------
    MissingExtraError
        Privacy is wanted, and dp-accounting is not installed.
    ConfigError
        epsilon does not suffice for the first round.
    """

    def __init__(self, config: RunConfig) -> None:
        self._config = config
        self._is_local = config.privacy == "local"
        if config.privacy == "none":
            return
        _accounting()
        if not self.allows_round(Exposure()):
            first = self.epsilon(Exposure((("", 1),), 1))
            raise ConfigError(
                [
                    f"epsilon must be at least {first:.4g}, what the first round spends, got {config.epsilon:g} (more"
                    " noise-multiplier or least-samples, or fewer local-steps, spend less)"
                ]
            )

    def epsilon(self, exposure: Exposure) -> float:
        """Return the epsilon that is spent, 0 without privacy."""
        config = self._config
        if config.privacy == "none":
            return 0.0
        if self._is_local:
            return self._of_slots(max((count for _, count in exposure.slots), default=0))
        rate = min(1.0, config.clients_per_round / config.num_clients)
        return _central(exposure.rounds, exposure.small_rounds, rate, config.noise_multiplier, config.delta)

    def allows_round(self, exposure: Exposure, *, small: bool = False) -> bool:
        """Whether one more round stays within epsilon, whoever is drawn."""
        if not self._limited:
            return True
        if self._is_local:
            return max((count for _, count in exposure.slots), default=0) < self._most_slots
        return self.epsilon(exposure.with_round(small=small)) <= self._config.epsilon

    def allows_slot(self, exposure: Exposure, client: str) -> bool:
        """Whether one more slot of a client stays within epsilon."""
        return not (self._limited and self._is_local) or exposure.slots_of(client) < self._most_slots

    def about(self, exposure: Exposure) -> dict[str, Any]:
        """Return what a summary tells."""
        config = self._config
        if config.privacy == "none":
            return {}
        return {
            "privacy": config.privacy,
            "epsilon": self.epsilon(exposure),
            "most_epsilon": config.epsilon,
            "delta": config.delta,
            "protects": "a row, or a shard without values of samples" if self._is_local else "a client",
            "most_slots": max((count for _, count in exposure.slots), default=0),
        }

    @property
    def _limited(self) -> bool:
        return self._config.privacy != "none" and self._config.epsilon > 0.0

    @functools.cached_property
    def _most_slots(self) -> int:
        """The most slots of one client within epsilon."""
        low, high = 0, 1
        while high < _MOST and self._of_slots(high) <= self._config.epsilon:
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._of_slots(middle) <= self._config.epsilon else (low, middle)
        return low

    def _of_slots(self, slots: int) -> float:
        config = self._config
        rate = min(1.0, config.batch / config.least_samples) if config.batch and config.least_samples else 1.0
        return _local(slots * config.local_steps, rate, config.noise_multiplier, config.delta)


def _local(steps: int, rate: float, noise: float, delta: float) -> float:
    return _spent([(steps, _divergences("local", rate, noise))], delta)


def _central(rounds: int, small_rounds: int, rate: float, noise: float, delta: float) -> float:
    # The noise is z times what a client changes against a blank; another client in its place changes twice as much.
    parts = ((rounds, rate), (small_rounds, 1.0))
    return _spent([(count, _divergences("central", part, 0.5 * noise)) for count, part in parts], delta)


@functools.lru_cache(maxsize=64)
def _divergences(privacy: str, rate: float, noise: float) -> Vector:
    """Return the Renyi divergences of one release at ``_ORDERS``; those of several add up.

    The accountant takes up to a second for them, so they are kept: it adds up events only by computing each anew.
    """
    dp = _accounting()
    from dp_accounting.rdp import RdpAccountant

    event, relation = dp.GaussianDpEvent(noise), dp.NeighboringRelation.REPLACE_SPECIAL
    if privacy == "local" and rate < 1.0:
        event = dp.PoissonSampledDpEvent(rate, event)
    if privacy == "central":
        relation = dp.NeighboringRelation.REPLACE_ONE
        if rate < 1.0:
            event = dp.SampledWithoutReplacementDpEvent(_MOST, round(rate * _MOST), event)

    class Release(RdpAccountant):  # type: ignore[misc]
        divergences = property(lambda self: self._rdp)

    release = Release(_ORDERS, relation)
    release.compose(event)
    found: Vector = np.array(release.divergences, dtype=np.float64)
    return found


def _spent(parts: Sequence[tuple[int, Vector]], delta: float) -> float:
    from dp_accounting.rdp import compute_epsilon

    counted = [count * divergences for count, divergences in parts if count]
    return float(compute_epsilon(_ORDERS, np.sum(counted, axis=0), delta)[0]) if counted else 0.0


def _accounting() -> Any:
    try:
        import dp_accounting
    except ImportError as error:
        raise MissingExtraError(
            "privacy needs the accountant dp-accounting; install it with `pip install 'zofedht[privacy]'`"
        ) from error
    return dp_accounting


def new_secret(config: RunConfig) -> str:
    """Return a new secret of the server as hexadecimal digits, or an empty text where the server adds no noise."""
    return os.urandom(SECRET_BYTES).hex() if config.privacy == "central" else ""


def drawing_seed(config: RunConfig, secret: str) -> int:
    """Return the seed that clients are drawn by: clients know the run's, so sampling counts only with a secret one."""
    if not secret:
        return config.seed
    return int.from_bytes(hmac.digest(bytes.fromhex(secret), b"selection", "sha256")[:7], "little")


def with_noise(config: RunConfig, secret: str, round_: int, rows: Matrix) -> Vector:
    """Return the mean slopes of a round with the server's noise, under central privacy.

    Each slope is in [-C, C], so one client changes the mean of m slots by C sqrt(K q) / m at most, against a client
    whose slopes are 0. The noise depends on the mean, too: a round that is run again with other replies
    has other noise.

    Parameters
    ----------
    config : RunConfig
    secret : str
        The server's, as hexadecimal digits.
    round_ : int
    rows : (m, K q) array
        The slopes of each slot.
    """
    assert secret  # else everybody could draw this noise
    slots, slopes = rows.shape
    change = config.clip * math.sqrt(slopes) / slots
    mean = np.clip(rows, -config.clip, config.clip).sum(axis=0) / slots
    draws = PrivateDraws(bytes.fromhex(secret), round_.to_bytes(8, "little"))
    return draws.noised(0, mean, config.noise_multiplier * change)
