"""Microseconds of a local step, ours against a plain reading of Algorithm 1, on one thread and in one run.

    python -m benchmarks.local_step [--cases logistic,mlp,...] [--repeats 15] [--data-dir DIR] [--json FILE]

Cases have the paper's shapes: n = 785, b = 64, K = 50 and 480 rows a client (MNIST), 39,300 parameters for the
network, 47,237 for rcv1. Without --data-dir the rows are random, as many and as full as the real ones. Baseline
and ours take turns, the ratio is the median over the turns, and times are CPU time. The limit is the time at the
machine's own rates, measured in the same run: that of the direction's numbers, plus the larger of the arithmetic at the
rate of a matrix product and the memory traffic. ``--json`` writes {case: {baseline_us, ours_us,
ratio, limit_us}}; a case is "model/kernel/probe".
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.steps.baseline import LOSSES, slot
from benchmarks.steps.machine import Machine, cpu_seconds, measured
from benchmarks.steps.rows import mnist_like, rcv1_like
from zofedht.client.plan import Plan
from zofedht.client.steps.local_steps import local_steps
from zofedht.common.config.run_config import RunConfig
from zofedht.common.data.dataset import Dataset
from zofedht.common.directions.law import law_of
from zofedht.common.machine.blas import one_thread
from zofedht.common.models.table import build_model
from zofedht.common.objective.base import Objective
from zofedht.common.random.kernels import runs_compiled
from zofedht.common.random.streams import Address
from zofedht.common.typing import Indices, Vector

__all__ = ["CASES", "Case", "measure"]

_STEPS = 50
_RADIUS = 1e-4
_PROBES = ("gaussian", "rademacher")


@dataclass(frozen=True)
class Case:
    """A model, the rows it sees, and its minibatch."""

    model: str
    rows: str  # mnist | rcv1
    batch_size: int
    black_box: bool = False
    step_size: float = 0.01


CASES = {
    "logistic": Case("logistic", "mnist", 64),
    "svm-hinge": Case("svm-hinge", "mnist", 64),
    "svm-squared-hinge": Case("svm-squared-hinge", "mnist", 64),
    "gd": Case("logistic", "mnist", 0),
    "mlp": Case("mlp", "mnist", 64),
    "rcv1": Case("logistic", "rcv1", 64),
    "rcv1-1000": Case("logistic", "rcv1", 1000),
    "black-box": Case("logistic", "mnist", 64, black_box=True),
}


class _BlackBox(Objective):
    """The plain loss behind the door that users come through."""

    def __init__(self, data: Dataset) -> None:
        self._data = data
        self.dim = int(data.features.shape[1])

    def __len__(self) -> int:
        return len(self._data.target)

    def value(self, x: Vector, batch: Indices | slice) -> float:
        return LOSSES["logistic"](x, self._data.features[batch], self._data.target[batch])


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print a table and write the JSON."""
    parser = argparse.ArgumentParser(prog=f"python -m {__spec__.name}", description=__doc__.splitlines()[0])
    parser.add_argument("--cases", default=",".join(CASES), help="cases to measure")
    parser.add_argument("--repeats", type=int, default=15, help="turns of a measurement")
    parser.add_argument("--data-dir", default="", help="folder of the large sets; empty: random rows of their shapes")
    parser.add_argument("--json", type=Path, help="file for the result")
    args = parser.parse_args(argv)
    kernels = ("numpy", "compiled") if runs_compiled("auto") else ("numpy",)
    result: dict[str, dict[str, float]] = {}
    with one_thread():
        machine = measured(kernels, _PROBES)
        print(
            f"matrix product {machine.flops / 1e9:.1f} Gflop/s, memory {machine.bandwidth / 1e9:.1f} GB/s, numbers "
            + ", ".join(f"{name} {1e9 * seconds:.1f} ns" for name, seconds in machine.draws.items())
        )
        print(f"{'case/kernel/probe':<40}{'baseline':>10}{'ours':>9}{'ratio':>7}{'limit':>9}{'of it':>7}"
              f"{'kflop':>8}{'kB':>7}")  # fmt: skip
        for name in args.cases.split(","):
            for variant, numbers in measure(CASES[name], machine, kernels, args.repeats, args.data_dir).items():
                result[f"{name}/{variant}"] = {
                    key: numbers[key] for key in ("baseline_us", "ours_us", "ratio", "limit_us")
                }
                print(
                    f"{name + '/' + variant:<40}{numbers['baseline_us']:>10.1f}{numbers['ours_us']:>9.1f}"
                    f"{numbers['ratio']:>7.1f}{numbers['limit_us']:>9.1f}"
                    f"{numbers['ours_us'] / numbers['limit_us']:>7.1f}"
                    f"{numbers['flops'] / 1e3:>8.0f}{numbers['bytes'] / 1e3:>7.0f}",
                    flush=True,
                )
        print("baseline, ours and limit in microseconds of CPU for a step; 'of it': ours as a multiple of the limit")
    if args.json:
        args.json.write_text(json.dumps(result, indent=2) + "\n")
    return 0


def measure(
    case: Case, machine: Machine, kernels: Sequence[str], repeats: int, data_dir: str = ""
) -> dict[str, dict[str, float]]:
    """Return the numbers of a case by "kernel/probe"."""
    data = (mnist_like if case.rows == "mnist" else rcv1_like)(data_dir)
    objective = _BlackBox(data) if case.black_box else build_model(case.model, data)
    x = np.random.default_rng(1).standard_normal(objective.dim) / np.sqrt(objective.dim)
    flops, traffic = _work(case, data, objective.dim)

    def plain() -> None:
        slot(
            LOSSES[case.model], data, x, steps=_STEPS, batch_size=case.batch_size, radius=_RADIUS,
            step_size=case.step_size, rng=np.random.RandomState(2),
        )  # fmt: skip

    found = {}
    for kernel, probe in itertools.product(kernels, _PROBES):
        keys = {"radius": _RADIUS, "local-steps": _STEPS, "batch-size": case.batch_size, "kernel": kernel}
        spec = RunConfig.from_mapping(keys | {"probe": probe}).step_spec(step_size=case.step_size)
        plan = Plan(spec, law_of(spec, objective.dim), Address(0, 0, 0))
        local_steps(objective, x, plan)  # compiles, and reads what is kept
        turns = [(cpu_seconds(plain), cpu_seconds(lambda: local_steps(objective, x, plan))) for _ in range(repeats)]  # noqa: B023
        drawing = objective.dim * machine.draws[f"{kernel}/{probe}"]
        found[f"{kernel}/{probe}"] = {
            "baseline_us": 1e6 * statistics.median(a for a, _ in turns) / _STEPS,
            "ours_us": 1e6 * statistics.median(b for _, b in turns) / _STEPS,
            "ratio": statistics.median(a / b for a, b in turns),
            "limit_us": 1e6 * (drawing + max(flops / machine.flops, traffic / machine.bandwidth)),
            "flops": flops,
            "bytes": traffic,
        }
    return found


def _work(case: Case, data: Dataset, dimension: int) -> tuple[float, float]:
    """Return flops and bytes of a step that touches only what is not zero, w and v once each."""
    rows = case.batch_size or len(data.target)
    filled = rows * np.count_nonzero(data.features.data if case.rows == "rcv1" else data.features) / len(data.target)
    width = 1 if case.model != "mlp" else dimension // (data.features.shape[1] + 1)
    # Two products, X w and X v, and w - eta c v; a value and its column, w and v read, w written.
    return 4.0 * filled * width + 2.0 * dimension, 12.0 * filled + 24.0 * dimension


if __name__ == "__main__":
    raise SystemExit(main())
