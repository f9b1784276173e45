"""What this machine can do on one thread, measured now: the limits that a local step cannot beat."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from zofedht.common.random.source import GENERATORS, noise

__all__ = ["Machine", "cpu_seconds", "measured"]


@dataclass(frozen=True)
class Machine:
    """Rates of one thread."""

    flops: float  # of a float64 matrix product, 1/s
    bandwidth: float  # of reading memory, byte/s
    normals: dict[str, float]  # seconds for one normal number, by "generator/kernel"


def cpu_seconds(work: Callable[[], object]) -> float:
    """Return the CPU time of one call: on a shared machine the clock would count the others' turns too."""
    before = time.thread_time()
    work()
    return time.thread_time() - before


def measured(kernels: tuple[str, ...]) -> Machine:
    """Measure the machine; the best of several tries, since a limit is what can be reached."""
    a, b = np.ones((480, 785)), np.ones((785, 50))
    big = np.ones(2**23)  # 64 MB: more than the caches hold

    def draw(generator: str, kernel: str) -> None:
        noise(generator, kernel, 0, "directions", 0, 0).normals(50, 785)

    sources = [(generator, kernel) for generator in GENERATORS for kernel in kernels]
    return Machine(
        flops=2.0 * 480 * 785 * 50 / _best(lambda: a @ b),
        bandwidth=big.nbytes / _best(big.sum),
        normals={f"{g}/{k}": _best(lambda g=g, k=k: draw(g, k)) / (50 * 785) for g, k in sources},  # type: ignore[misc]
    )


def _best(work: Callable[[], object], tries: int = 15) -> float:
    work()
    return min(cpu_seconds(work) for _ in range(tries))
