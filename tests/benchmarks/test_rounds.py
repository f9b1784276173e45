"""The benchmark of rounds measures a server with clients."""

from __future__ import annotations

import math

import pytest

from benchmarks.rounds import measure


@pytest.mark.slow
@pytest.mark.engine
def test_a_round_over_grpc_is_measured():
    seconds, cpu, megabytes = measure("grpc", clients=3, columns=8, rounds=3, slots=2)
    assert seconds > 0.0
    assert cpu >= 0.0  # counted in ticks of 10 ms: short rounds may take none
    assert not math.isnan(megabytes)
