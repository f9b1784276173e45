"""What all runs together have spent of a device's privacy: a small file beside the ledger, and a bound that it keeps.

Each slot of noisy slopes is counted before it is answered, with the noise, the steps and the sampling rate that are
really used. So a kill may have counted a slot that was never sent, and never the other way round. Divergences of one
row add up over runs, servers and noises, and epsilon follows from their sum.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from zofedht.common.config.step_spec import StepSpec
from zofedht.common.errors import ConfigError, DataError
from zofedht.common.machine.files import replace_file
from zofedht.common.objective.base import Objective
from zofedht.common.objective.scaling import in_user_units
from zofedht.common.privacy.renyi import ORDERS, epsilon_of, step_divergences
from zofedht.common.typing import Vector

__all__ = ["Lifetime", "Spent", "lifetime_file"]


def lifetime_file(ledger: Path) -> Path:
    """Return the file beside a ledger."""
    return ledger.with_name(f"{ledger.name}.epsilon")


@dataclass(frozen=True)
class Spent:
    """The slots that were counted, and their divergences, one for each of ORDERS."""

    slots: int
    divergences: Vector

    def epsilon(self, delta: float) -> float:
        """Return what is spent at this delta."""
        return epsilon_of(self.divergences, delta)

    @classmethod
    def read(cls, path: Path) -> Spent:
        """Read the file; nothing is spent where there is none. Raises DataError where it cannot be read."""
        if not path.exists():
            return cls(0, np.zeros(len(ORDERS)))
        try:
            told: Any = json.loads(path.read_text(encoding="utf-8"))
            divergences = np.array([told["divergences"][str(order)] for order in ORDERS], dtype=np.float64)
            if not np.all(divergences >= 0.0) or type(told["slots"]) is not int:
                raise ValueError
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise DataError(
                f"{path}, which counts the privacy that this device has spent, cannot be read"
                f" ({type(error).__name__}); restore it, or answer no more on these rows"
            ) from error
        return cls(told["slots"], divergences)


class Lifetime:
    """Counts slots, and refuses those that would exceed the bound.

    Parameters
    ----------
    epsilon : float
        The bound on all runs together; 0 counts without a bound.
    delta : float
    ledger : Path or None
        The ledger, beside which the file is.

    Raises
    ------
    ConfigError
        epsilon or delta is out of range, or there is a bound and no ledger.
    DataError
        The file cannot be read.
    """

    def __init__(self, epsilon: float, delta: float, ledger: Path | None) -> None:
        if not 0.0 <= epsilon < math.inf:
            raise ConfigError([f"--lifetime-epsilon must be at least 0, got {epsilon} (0 sets no bound)"])
        if not 0.0 < delta < 1.0:
            raise ConfigError([f"--lifetime-delta must be in (0, 1), got {delta}"])
        if epsilon and ledger is None:
            raise ConfigError(["--lifetime-epsilon needs --ledger FILE: what was spent is kept beside it"])
        self._epsilon, self._delta = epsilon, delta
        self._path = None if ledger is None else lifetime_file(ledger)
        if self._path is not None:
            Spent.read(self._path)

    def spend(self, spec: StepSpec, objective: Objective) -> None:
        """Count a slot that is about to be answered. Raises DataError where it would exceed the bound."""
        if self._path is None or spec.privacy != "local":
            return
        rows = len(objective)
        by_sample = type(in_user_units(objective)).differences is not Objective.differences
        rate = spec.samples(rows) / rows if by_sample else 1.0
        cost = spec.local_steps * np.array(step_divergences(rate, spec.noise_multiplier))
        with _alone(self._path):
            before = Spent.read(self._path)
            after = Spent(before.slots + 1, before.divergences + cost)
            if self._epsilon and after.epsilon(self._delta) > self._epsilon:
                told = f"the client's own --lifetime-epsilon {self._epsilon:g} does not allow another such slot"
                raise DataError(
                    f"{told}: {before.epsilon(self._delta):.4g} is spent at delta {self._delta:g}, and it would make it"
                    f" {after.epsilon(self._delta):.4g}",
                    public_text=told,
                )
            _write(self._path, after)


def _write(path: Path, spent: Spent) -> None:
    """Replace the file; it is on the disk before the answer leaves."""
    divergences = dict(zip(map(str, ORDERS), spent.divergences.tolist(), strict=True))
    try:
        replace_file(path, json.dumps({"slots": spent.slots, "divergences": divergences}).encode())
    except DataError as error:
        told = "the client cannot count what it spends, so it answers no slot"
        raise DataError(f"{told}: {error}; make room", public_text=told) from error


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Keep other clients with the same ledger out: what they spend counts, too."""
    try:
        locks = importlib.import_module("fcntl")
    except ImportError:  # Windows
        yield
        return
    with path.with_name(f"{path.name}.lock").open("w") as file:
        locks.flock(file, locks.LOCK_EX)
        yield
