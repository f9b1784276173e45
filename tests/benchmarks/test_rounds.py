"""The benchmark of rounds measures a server with clients."""

from __future__ import annotations

import math

import pytest

from benchmarks.rounds import measure


@pytest.mark.slow
def test_a_round_over_grpc_is_measured():
    seconds, cpu, megabytes = measure("grpc", clients=3, columns=8, rounds=3, slots=2)
    assert min(seconds, cpu) > 0.0
    assert not math.isnan(megabytes)
