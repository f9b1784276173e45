"""The accountant: what is counted, when a run ends, and the noise of the server."""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np
import pytest

from zofedht.common.config.run_config import RunConfig
from zofedht.common.errors import ConfigError, MissingExtraError
from zofedht.server.privacy import Account, Exposure, drawing_seed, new_secret, with_noise

pytest.importorskip("dp_accounting")

LOCAL: dict[str, Any] = {
    "privacy": "local",
    "uplink": "slopes",
    "sampling": "without-replacement",
    "step-size": 0.1,
    "local-steps": 5,
    "batch-size": 10,
    "least-samples": 100,
    "noise-multiplier": 2.0,
}
CENTRAL = {
    key: value for key, value in LOCAL.items() if key not in ("least-samples", "privacy")
} | {"privacy": "central", "directions": "shared"}  # fmt: skip


def account(keys: dict[str, Any], **changes: Any) -> Account:
    changed = {key.replace("_", "-"): value for key, value in changes.items()}
    return Account(RunConfig.from_mapping(keys | changed))


def slots(count: int, *others: int) -> Exposure:
    return Exposure(tuple((str(place), number) for place, number in enumerate((count, *others))))


def test_one_gaussian_slot_has_the_epsilon_of_its_divergence() -> None:
    """Of K Gaussians of multiplier z the Renyi divergence is a K / (2 z^2); Mironov's conversion bounds epsilon."""
    z, steps, delta = 2.0, 5, 1e-5
    found = account(LOCAL, least_samples=0).epsilon(slots(1))
    simple = min(a * steps / (2 * z * z) + math.log(1 / delta) / (a - 1) for a in range(2, 64))
    exact = _exact_gaussian(math.sqrt(steps) / z, delta)
    assert exact <= found <= simple


def _exact_gaussian(ratio: float, delta: float) -> float:
    """Return the smallest epsilon of a Gaussian mechanism (Balle and Wang 2018, theorem 8), by bisection."""
    from scipy.special import ndtr

    low, high = 0.0, 100.0
    for _ in range(60):
        middle = (low + high) / 2
        over = ndtr(ratio / 2 - middle / ratio) - math.exp(middle) * ndtr(-ratio / 2 - middle / ratio)
        low, high = (middle, high) if over > delta else (low, middle)
    return high


def test_the_client_with_the_most_slots_decides() -> None:
    of = account(LOCAL)
    assert of.epsilon(slots(3, 9, 2)) == of.epsilon(slots(9)) > of.epsilon(slots(3)) > of.epsilon(Exposure()) == 0.0


def test_less_is_spent_with_noise_sampling_and_fewer_steps() -> None:
    usual = account(LOCAL).epsilon(slots(4))
    assert usual > account(LOCAL, noise_multiplier=3.0).epsilon(slots(4))
    assert usual > account(LOCAL, least_samples=200).epsilon(slots(4))
    assert usual > account(LOCAL, local_steps=4).epsilon(slots(4))
    assert usual == account(LOCAL, clip=7.0).epsilon(slots(4)) == account(LOCAL, slopes_per_step=3).epsilon(slots(4))
    assert usual < account(LOCAL, least_samples=0).epsilon(slots(4))
    assert usual < account(LOCAL, batch_size=0).epsilon(slots(4))


def test_a_run_has_no_slot_beyond_epsilon() -> None:
    limit = account(LOCAL).epsilon(slots(7)) * 1.0001
    limited = account(LOCAL, epsilon=limit)
    assert [limited.allows_round(slots(count, 2)) for count in (6, 7, 8)] == [True, False, False]
    assert not limited.allows_slot(slots(7, 2), "0")
    assert limited.allows_slot(slots(7, 2), "1")
    assert account(LOCAL).allows_round(slots(10**6))


def test_epsilon_must_suffice_for_a_round() -> None:
    least = account(LOCAL).epsilon(slots(1))
    with pytest.raises(ConfigError, match=f"at least {least:.4g}, what the first round spends, got 0.1"):
        account(LOCAL, epsilon=0.1)


def test_central_counts_rounds_and_who_could_be_drawn() -> None:
    of = account(CENTRAL, num_clients=100, clients_per_round=10)
    drawn, small = of.epsilon(Exposure(rounds=5)), of.epsilon(Exposure(rounds=4, small_rounds=1))
    assert 0.0 < of.epsilon(Exposure(rounds=4)) < drawn < small
    everybody = account(CENTRAL, num_clients=10, clients_per_round=10)
    assert everybody.epsilon(Exposure(rounds=5)) == everybody.epsilon(Exposure(small_rounds=5)) > drawn


def test_central_protects_against_another_client_in_the_place() -> None:
    """A blank in its place changes the mean by the noise over z, another client by twice that."""
    of = account(CENTRAL, num_clients=10, clients_per_round=10, noise_multiplier=6.0)
    exact = _exact_gaussian(2 / 6.0, 1e-5)
    assert exact <= of.epsilon(Exposure(rounds=1)) < 1.3 * exact


def test_without_privacy_there_is_no_accountant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    assert Account(RunConfig()).epsilon(slots(9)) == 0.0
    assert Account(RunConfig()).about(slots(9)) == {}
    with pytest.raises(MissingExtraError, match=r"pip install 'zofedht\[privacy\]'"):
        account(LOCAL)


def test_the_servers_noise_has_z_times_what_a_client_changes() -> None:
    config = RunConfig.from_mapping(CENTRAL | {"clip": 0.5})
    rows = np.zeros((4, 3000))
    noised = with_noise(config, "ab" * 32, 2, rows)
    deviation = 2.0 * 0.5 * math.sqrt(3000) / 4
    assert float(np.std(noised)) == pytest.approx(deviation, rel=5 / math.sqrt(2 * 3000))
    assert np.array_equal(noised, with_noise(config, "ab" * 32, 2, rows))
    for secret, round_, slopes in (("cd" * 32, 2, rows), ("ab" * 32, 3, rows), ("ab" * 32, 2, rows + 0.25)):
        assert not np.any(with_noise(config, secret, round_, slopes) == noised)


def test_a_lying_client_changes_the_mean_by_its_clip() -> None:
    config = RunConfig.from_mapping(CENTRAL | {"clip": 0.5, "noise-multiplier": 1e-9})
    rows = np.array([[0.1], [1e9]])
    assert float(with_noise(config, "ab" * 32, 2, rows)[0]) == pytest.approx(0.3, abs=1e-6)


def test_clients_are_drawn_in_secret_under_central_privacy() -> None:
    central, none = RunConfig.from_mapping(CENTRAL), RunConfig(seed=3)
    assert drawing_seed(none, new_secret(none)) == 3
    assert len({drawing_seed(central, new_secret(central)) for _ in range(5)}) == 5
