"""Print how often models tell faulty pumps from sound pumps: the common model, and each site's own."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from zofedht import load_run, run
from zofedht.common.config.run_config import RunConfig


def accuracy(x: np.ndarray, test: dict[str, np.ndarray]) -> float:
    """Return the share of right answers; x holds a weight for each band and then the bias."""
    return float(np.mean((test["X"] @ x[:-1] + x[-1] > 0.0) == (test["y"] == 1)))


def alone(file: Path, config: RunConfig) -> np.ndarray:
    """Return the x of one site's rows alone, in as many rounds; a fifth of the rows is held out."""
    return run(config=config, dataset=str(file), num_clients=1, clients_per_round=1).x


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("folder", help="result folder of the run")
    arguments.add_argument("--data", type=Path, default=Path(), help="folder of the files (this one)")
    given = arguments.parse_args()
    finished = load_run(given.folder)
    test = dict(np.load(given.data / "test.npz"))
    print(f"right on {len(test['y'])} recordings of pumps with any of the three faults, or none")
    print(f"{max(np.mean(test['y'] == label) for label in (0, 1)):.3f}  always saying the same")
    for name in ("site-1.npz", "site-2.csv", "site-3.csv.gz"):
        print(f"{accuracy(alone(given.data / name, finished.config), test):.3f}  trained on {name} alone")
    print(f"{accuracy(finished.x, test):.3f}  trained together")


if __name__ == "__main__":
    main()
