"""The closed form of what noisy slopes spend is the accountant's."""

from __future__ import annotations

import numpy as np
import pytest

from zofedht.common.privacy.renyi import epsilon_of, step_divergences


@pytest.mark.parametrize(
    ("steps", "rate", "noise", "delta"),
    [(500, 0.14, 1.0, 1e-5), (500, 0.14, 4.0, 1e-5), (100, 0.01, 1.0, 1e-5), (10, 1.0, 2.0, 1e-6), (3, 0.5, 9.0, 1e-5)],
)
def test_epsilon_is_the_accountants(steps: int, rate: float, noise: float, delta: float):
    pytest.importorskip("dp_accounting")
    from zofedht.server.privacy import _local

    found = epsilon_of(steps * np.array(step_divergences(rate, noise)), delta)
    assert found == pytest.approx(_local(steps, rate, noise, delta), rel=1e-9)


def test_nothing_spends_nothing():
    assert epsilon_of(np.zeros(len(step_divergences(1.0, 1.0))), 1e-5) == 0.0
    assert max(step_divergences(0.0, 1.0)) == 0.0
