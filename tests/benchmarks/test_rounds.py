"""The benchmark of rounds measures a server with clients."""

from __future__ import annotations

import math
import threading
from pathlib import Path

import pytest

from benchmarks.rounds import drain, measure


def test_a_pipe_that_was_closed_is_drained_without_an_error(tmp_path: Path) -> None:
    """A thread that fails makes a test fail here."""
    path = tmp_path / "said"
    path.write_text("one line\n")
    with path.open() as said:
        pass
    before = set(threading.enumerate())
    drain(said)
    for thread in set(threading.enumerate()) - before:
        thread.join()


@pytest.mark.slow
@pytest.mark.engine
def test_a_round_over_grpc_is_measured():
    seconds, cpu, megabytes = measure("grpc", clients=3, columns=8, rounds=3, slots=2)
    assert seconds > 0.0
    assert cpu >= 0.0  # counted in ticks of 10 ms: short rounds may take none
    assert not math.isnan(megabytes)
