"""The settings of a controller, trained on devices with different wear.

A device is a program of its own that answers over standard input and output. It is compiled here from device.c. A
machine without a C compiler runs device.py, which gives the same answers.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np

from zofedht.common.objective.base import Objective, Shard

HERE = Path(__file__).resolve().parent
NAMES = ["kp", "ki", "kd", "filter", "forward"]
FACTORY = [0.27, 11.0, 0.0053, 0.0024, 0.00027]
"""The best settings of a long search on a new device (cost 0.195), to two digits."""

BOUNDS = [(0.0, 20.0 * value) for value in FACTORY]

NEW = (1.0, 1.0, 0.0, 0.02)
"""Friction, torque, play and noise of a new device."""


@functools.cache
def program() -> list[str]:
    """Return the command of a device, compiled if possible."""
    source, binary = HERE / "device.c", HERE / "device"
    if binary.exists() and binary.stat().st_mtime >= source.stat().st_mtime:
        return [str(binary)]
    compiler = shutil.which("cc")
    if compiler is None:
        print("no C compiler (cc) here: devices run in Python, some 20 times slower", file=sys.stderr)
        return [sys.executable, str(HERE / "device.py")]
    made = HERE / f"device-{os.getpid()}"  # renamed at the end, since another client may compile, too
    # Contracted products would give other last digits on some machines.
    subprocess.run([compiler, "-O2", "-ffp-contract=off", "-o", str(made), str(source), "-lm"], check=True)
    made.replace(binary)
    return [str(binary)]


def wear(seed: int, number: int) -> tuple[float, ...]:
    """Return friction, torque, play and noise of an old device."""
    years = np.random.default_rng([seed, number]).uniform(size=4)
    return 1.0 + 2.0 * years[0], 1.0 - 0.4 * years[1], 1.5 * years[2], 0.02 + 0.18 * years[3]


class Device(Objective):
    """Mean cost of work cycles under some settings: degrees from the wanted position, and agitation of the motor."""

    dim = 5
    names = NAMES
    scale = FACTORY  # settings differ by a factor of 40,000 in size; each is searched in units of its factory value
    bounds = BOUNDS

    def __init__(self, worn: tuple[float, ...], first_cycle: int = 0) -> None:
        self.cycles = range(first_cycle, first_cycle + 40)
        words = [*program(), *(repr(float(part)) for part in worn)]
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __len__(self) -> int:
        return len(self.cycles)

    def value(self, x: np.ndarray, batch: np.ndarray | slice) -> float:
        cycles = self.cycles[batch] if isinstance(batch, slice) else [self.cycles[place] for place in batch]
        return self.ask(" ".join([*(repr(float(setting)) for setting in x), *map(str, cycles)]))

    def ask(self, question: str) -> float:
        """Send one line and return the answer; repr() in ``value`` keeps all digits of the settings."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(question + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise RuntimeError(f"the device has stopped with exit code {self.process.wait()}")
        if answer.startswith("error"):
            raise ValueError(f"the device says: {answer.strip()}")
        return float(answer)

    def initial(self, rng: np.random.Generator) -> np.ndarray:
        return np.array(FACTORY)


def make(shard: Shard) -> Device:
    return Device(wear(shard.seed, shard.index), first_cycle=1000 * shard.index)
