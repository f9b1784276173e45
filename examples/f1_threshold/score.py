"""Print the learned rule, and the macro-F1 of this and other rules on held-out patients."""

from __future__ import annotations

import argparse

import numpy as np
from rule import MALIGNANT, MEASURED, NAMES, START, Hospital, cutoffs, hospitals, macro_f1, says_malignant

from zofedht import load_run, run
from zofedht.common.config.run_config import RunConfig


def alone(hospital: Hospital, config: RunConfig) -> np.ndarray:
    """Return the rule of one hospital alone, in as many rounds."""
    return run(hospital, config=config, clients_per_round=config.clients_per_round).x


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("folder", help="result folder of the run")
    finished = load_run(arguments.parse_args().folder)
    x, config = finished.x, finished.config
    everybody = hospitals(config.num_clients, config.seed)
    held_out = np.concatenate([own for _, own in everybody])

    def held_out_f1(rule: np.ndarray) -> float:
        return macro_f1(MALIGNANT[held_out], says_malignant(rule, MEASURED[held_out]))

    print("points  for a biopsy whose")
    for name, cutoff, points in zip(NAMES, cutoffs(x), x[10:20], strict=True):
        print(f"{points:6.2f}  {name} is above {cutoff:.4g}")
    print(f"{x[20]:6.2f}  are enough for malignant\n")
    own = [held_out_f1(alone(Hospital(*parts), config)) for parts in everybody]
    print(f"macro-F1 on {len(held_out)} held-out patients")
    print(f"{held_out_f1(START):.3f}  the starting rule")
    print(f"{np.mean(own):.3f}  hospitals that learn alone, mean ({min(own):.3f} to {max(own):.3f})")
    print(f"{held_out_f1(x):.3f}  the rule learned together")


if __name__ == "__main__":
    main()
