"""A program that a test can kill: it drives a fleet with an optimiser and prints where that ended.

local FOLDER [KILL_AT]              sites of this process; the process ends at that evaluation, once
network FOLDER PORT [TLS_DIR]       three clients
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from scipy.optimize import minimize

from tests.server.fleet.pump import Pump
from zofedht import Fleet, Objective, Shard

__all__ = ["main", "search"]


def search(fleet: Fleet) -> str:
    """Return the x in which COBYQA ends, after a generation at random, as text."""
    rng = np.random.default_rng(5)
    generation = fleet.x0 + fleet.scale * rng.uniform(-0.05, 0.05, (6, fleet.dim))
    start = generation[np.argmin(fleet.many(generation))]
    found = minimize(fleet, start, method="COBYQA", bounds=fleet.bounds, options={"maxfev": 30})
    return f"x {found.x.tolist()!r} evaluations {fleet.evaluations}"


class Counted(Pump):
    """Ends the process at one evaluation of all sites."""

    calls = 0

    def __init__(self, shard: Shard, kill_at: int, mark: Path) -> None:
        super().__init__(shard)
        self.kill_at, self.mark = kill_at, mark

    def value(self, x: np.ndarray, batch: object) -> float:
        Counted.calls += 1
        if Counted.calls == self.kill_at and not self.mark.exists():
            self.mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().value(x, batch)


def _local(folder: str, kill_at: str = "0") -> str:
    mark = Path(folder + ".killed")
    sites: dict[str, Objective | Callable[..., float]] = {
        name: Counted(Shard(name), int(kill_at), mark) for name in ("c0", "c1", "c2")
    }
    with Fleet.local(sites, folder=folder) as fleet:
        return f"{search(fleet)} calls {Counted.calls}"


def _network(folder: str, port: str, tls_dir: str = "") -> str:
    security = {"tls_dir": tls_dir} if tls_dir else {"insecure": True}
    with Fleet(f"127.0.0.1:{port}", min_clients=3, folder=folder, **security) as fleet:  # type: ignore[arg-type]
        return search(fleet)


def main(argv: Sequence[str]) -> int:
    """Run one of the programs."""
    print({"local": _local, "network": _network}[argv[0]](*argv[1:]), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
