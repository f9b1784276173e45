"""Draws that nobody can make without the secret, and that answer each question in one way."""

from __future__ import annotations

import math

import numpy as np

from zofedht.common.privacy.private_draws import PrivateDraws, simulated_secret

_DRAWS = PrivateDraws(b"secret", b"question")
_ZEROS = np.zeros(20_000)


def test_the_same_question_has_the_same_draws() -> None:
    again = PrivateDraws(b"secret", b"question")
    assert np.array_equal(again.noised(3, _ZEROS, 0.5), _DRAWS.noised(3, _ZEROS, 0.5))
    assert np.array_equal(again.batch(3, 50, 0.4), _DRAWS.batch(3, 50, 0.4))


def test_secret_question_step_and_numbers_change_the_noise() -> None:
    """A difference of two answers is never free of noise."""
    mine = _DRAWS.noised(3, _ZEROS, 0.5)
    others = [
        PrivateDraws(b"secret", b"another").noised(3, _ZEROS, 0.5),
        PrivateDraws(b"secret", b"quest", b"ion").noised(3, _ZEROS, 0.5),
        PrivateDraws(b"guess", b"question").noised(3, _ZEROS, 0.5),
        _DRAWS.noised(4, _ZEROS, 0.5),
        _DRAWS.noised(3, np.full_like(_ZEROS, 0.125), 0.5) - 0.125,
    ]
    for other in others:
        assert abs(float(np.corrcoef(mine, other)[0, 1])) < 5 / math.sqrt(len(_ZEROS))


def test_noise_is_normal_with_the_deviation() -> None:
    noise = _DRAWS.noised(0, _ZEROS, 0.3) / 0.3
    count = len(noise)
    for power, moment, variance in ((1, 0.0, 1.0), (2, 1.0, 2.0), (4, 3.0, 96.0)):
        assert abs(float(np.mean(noise**power)) - moment) < 5 * math.sqrt(variance / count)


def test_noised_numbers_are_multiples_of_one_power_of_two() -> None:
    numbers = np.array([math.pi, -1e-9, 0.1])
    grain = 2.0**-42  # 2^-40 of the power of two below 0.3
    noised = _DRAWS.noised(0, numbers, 0.3)
    assert np.array_equal(noised / grain, np.rint(noised / grain))


def test_each_row_is_in_a_batch_with_the_rate() -> None:
    sizes = [len(_DRAWS.batch(step, 500, 0.3)) for step in range(200)]  # type: ignore[arg-type]
    assert abs(np.mean(sizes) - 150) < 5 * math.sqrt(500 * 0.3 * 0.7 / 200)
    assert _DRAWS.batch(0, 500, 1.0) == slice(None)


def test_simulated_secrets_follow_from_seed_and_client() -> None:
    assert simulated_secret(1, "a") == simulated_secret(1, "a")
    assert len({simulated_secret(1, "a"), simulated_secret(2, "a"), simulated_secret(1, "b")}) == 3
