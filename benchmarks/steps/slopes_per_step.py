"""Nanoseconds an evaluation: steps of nine forward slopes on one value, against the same evaluations in central steps.

    python -m benchmarks.steps.slopes_per_step [--repeats 15] [--data-dir DIR]

The cases are those of ``benchmarks.local_step``. 10 steps of 9 forward slopes and 50 steps of one central slope both
take 100 evaluations of a batch. Both take turns in one run, on one thread; times are CPU time, the ratio is the median
over the turns. A slot draws 90 directions for forward slopes and 50 for central ones, so where directions are most of
the work the ratio cannot be above 5/9.
"""

from __future__ import annotations

import argparse
import statistics

import numpy as np

from benchmarks.local_step import CASES
from benchmarks.steps.machine import cpu_seconds
from benchmarks.steps.rows import mnist_like, rcv1_like
from zofedht.client.plan import Plan
from zofedht.client.steps.local_steps import local_steps
from zofedht.common.config.run_config import RunConfig
from zofedht.common.directions.law import law_of
from zofedht.common.machine.blas import one_thread
from zofedht.common.models.table import build_model
from zofedht.common.objective.base import Objective
from zofedht.common.random.streams import Address

__all__ = ["measure"]

_KINDS = ({"local_steps": 50}, {"local_steps": 10, "slope": "forward", "slopes_per_step": 9})


def measure(objective: Objective, batch_size: int, probe: str, repeats: int) -> tuple[float, float, float]:
    """Return nanoseconds an evaluation of central and of forward slopes, and their ratio."""
    plans = []
    for keys in _KINDS:
        config = RunConfig(algorithm="zofedavg-sgd", batch_size=batch_size, probe=probe, **keys)  # type: ignore[arg-type]
        spec = config.step_spec(step_size=1e-3)
        plans.append(Plan(spec, law_of(spec, objective.dim), Address(0, 0, 0)))
    x = np.zeros(objective.dim)
    turns = []
    with one_thread():
        for turn in range(repeats + 1):
            times = []
            for plan in plans:
                seconds = cpu_seconds(lambda plan=plan: local_steps(objective, x, plan))  # type: ignore[misc]
                times.append(1e9 * seconds / plan.spec.evaluations(len(objective)))
            turns += [times] if turn else []  # the first turn compiles
    central, forward = (statistics.median(column) for column in zip(*turns, strict=True))
    return central, forward, statistics.median(one / other for one, other in turns)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog=f"python -m {__spec__.name}", description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--data-dir", default="")
    args = parser.parse_args()
    print("| case | probe | central, ns | forward, q 9, ns | speed of forward |\n|---|---|---|---|---|")
    for name in ("logistic", "svm-squared-hinge", "gd", "mlp", "rcv1"):
        case = CASES[name]
        rows = (mnist_like if case.rows == "mnist" else rcv1_like)(args.data_dir)
        for probe in ("gaussian", "rademacher"):
            central, forward, ratio = measure(build_model(case.model, rows), case.batch_size, probe, args.repeats)
            print(f"| {name} | {probe} | {central:.0f} | {forward:.0f} | {ratio:.2f} |", flush=True)


if __name__ == "__main__":
    main()
