"""The rates of this machine on one thread, measured now: limits that a local step cannot beat."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from zofedht.common.directions.probes import LAWS
from zofedht.common.random.source import Source
from zofedht.common.random.streams import stream

__all__ = ["Machine", "cpu_seconds", "measured"]


@dataclass(frozen=True)
class Machine:
    """Rates of one thread."""

    flops: float  # of a float64 matrix product, 1/s
    bandwidth: float  # of reading memory, byte/s
    draws: dict[str, float]  # seconds for one number of a direction, by "kernel/probe"


def cpu_seconds(work: Callable[[], object]) -> float:
    """Return the CPU time of one call: on a shared machine the clock would count the others' turns too."""
    before = time.thread_time()
    work()
    return time.thread_time() - before


def measured(kernels: Sequence[str], probes: Sequence[str]) -> Machine:
    """Measure the machine; the best of several tries, since a limit is what can be reached."""
    a, b = np.ones((480, 785)), np.ones((785, 50))
    big = np.ones(2**23)  # 64 MB: more than the caches hold

    def drawing(kernel: str, probe: str) -> Callable[[], object]:
        return lambda: LAWS[probe](Source(stream(0, "directions"), kernel), 50, 785)

    return Machine(
        flops=2.0 * 480 * 785 * 50 / _best(lambda: a @ b),
        bandwidth=big.nbytes / _best(big.sum),
        draws={f"{k}/{p}": _best(drawing(k, p)) / (50 * 785) for k in kernels for p in probes},
    )


def _best(work: Callable[[], object], tries: int = 15) -> float:
    work()
    return min(cpu_seconds(work) for _ in range(tries))
