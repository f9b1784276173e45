"""What a learnt stiff direction is worth: losses without any, with a learnt one, and with the one that the model names.

    python -m benchmarks.methods.learnt_shrink [--models logistic] [--partitions iid,thirds,sorted] [--seeds 2]

zofed-shrink on digits with 100 clients, 10 a round. 100 rounds learn in four of them, which cost double; the others
run 104 rounds, so that all spend the same evaluations. Each takes the better of two step sizes. No number depends on
the machine.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from statistics import fmean

from zofedht.common.algorithms import ALGORITHMS
from zofedht.common.config.run_config import RunConfig, Scalar, dashed
from zofedht.common.objective.base import Objective
from zofedht.common.shards import members_of, objective_of, train_objective
from zofedht.common.typing import Indices, Vector
from zofedht.server.inprocess import run_in_process

__all__ = ["KINDS", "OWN", "Silent", "ended"]

_STEPS = {"logistic": (1.0, 3.0), "svm-squared-hinge": (0.1, 0.3), "svm-hinge": (0.3, 1.0)}
_ROUNDS = 100


class Silent(Objective):
    """Another objective, of which nobody knows the stiff directions."""

    def __init__(self, inner: Objective) -> None:
        self._inner, self.dim = inner, inner.dim

    def __len__(self) -> int:
        return len(self._inner)

    def value(self, x: Vector, batch: Indices | slice) -> float:
        return self._inner.value(x, batch)


OWN: dict[str, Scalar] = {dashed(name): value for name, value in ALGORITHMS["zofed-shrink"].own.items()}
"""The row's keys for an objective of somebody's own."""

KINDS: dict[str, tuple[dict[str, Scalar], Callable[[Objective], Objective]]] = {
    "none": ({"rounds": _ROUNDS + 4, "shrink": 1.0}, Silent),
    "learnt": ({"rounds": _ROUNDS}, Silent),
    "learnt, of your own": ({"rounds": _ROUNDS, **OWN}, Silent),
    "named": ({"rounds": _ROUNDS + 4}, lambda inner: inner),
}
"""By name: the keys of a run, and what its clients know of their objectives."""


def ended(kind: str, model: str, partition: str, step: float, seed: int) -> float:
    """Return the final training loss of a run."""
    keys, known = KINDS[kind]
    config = RunConfig.from_mapping(
        {
            "algorithm": "zofed-shrink",
            "dataset": "digits",
            "model": model,
            "partition": partition,
            "init": "ones" if model == "svm-squared-hinge" else "auto",
            "num-clients": 100,
            "clients-per-round": 10,
            "sampling": "without-replacement",
            "step-size": step,
            "seed": seed,
            "evaluate-every": 0,
            **keys,
        }
    )
    whole = train_objective(config)
    clients = [known(objective_of(config.task, member.shard_index)) for member in members_of(config)]
    state = run_in_process(config.replace(init="zeros" if config.init == "auto" else config.init), clients).state
    return whole.value(state.x, slice(None))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog=f"python -m {__spec__.name}", description=__doc__.splitlines()[0])
    parser.add_argument("--models", default=",".join(_STEPS))
    parser.add_argument("--partitions", default="iid,thirds,sorted")
    parser.add_argument("--seeds", type=int, default=2)
    args = parser.parse_args()
    print(f"| model, partition | {' | '.join(KINDS)} |\n|---|{'---|' * len(KINDS)}")
    for model in args.models.split(","):
        for partition in args.partitions.split(","):
            cells = []
            for kind in KINDS:
                means = {
                    step: fmean(ended(kind, model, partition, step, seed) for seed in range(args.seeds))
                    for step in _STEPS[model]
                }
                step = min(means, key=lambda step: means[step])
                cells.append(f"{means[step]:.4f} at {step:g}")
            print(f"| {model}, {partition} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
