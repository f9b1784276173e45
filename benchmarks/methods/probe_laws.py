"""Training loss per evaluation and per second of CPU, for every law of the probe.

    python -m benchmarks.methods.probe_laws [--data-dir DIR] [--models logistic,...] [--rounds 225] [--seeds 0,1,2]
                                            [--json FILE]

With a data folder: MNIST, 48,000 rows, 100 clients, 10 a round, K = 50, b = 64; without: digits, 20 clients, 5 a
round. Algorithms zofedht (trace, alpha 0.3) and zofedavg-sgd, in process, mean over the seeds. CPU time is that of the
rounds, without full evaluations.
"""

from __future__ import annotations

import argparse
import gc
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from zofedht.common.config.run_config import RunConfig, Scalar
from zofedht.common.directions.probes import LAWS
from zofedht.common.machine.blas import one_thread
from zofedht.common.shards import train_objective
from zofedht.experiments.study.pool import prepare
from zofedht.server.core.round_record import RoundRecord
from zofedht.server.core.state import ServerState
from zofedht.server.inprocess import run_in_process

__all__ = ["Curve", "follow", "main"]

_POINTS = 9
_STEP_SIZES = {"logistic": 10.0, "svm-hinge": 1.0, "svm-squared-hinge": 0.1, "mlp": 1.0}  # best of .1, 1, 10 on MNIST


@dataclass
class Curve:
    """Loss after some rounds, and the evaluations and CPU seconds spent until then."""

    config: RunConfig
    evaluations: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    _spent: float = 0.0
    _mark: float = 0.0

    def __call__(self, state: ServerState, record: RoundRecord) -> None:
        """Observe a round."""
        self._spent += time.process_time() - self._mark
        if state.round % max(1, self.config.rounds // _POINTS) == 0 or state.round == self.config.rounds:
            self.evaluations.append(record.evaluations)
            self.seconds.append(self._spent)
            with one_thread():
                self.losses.append(train_objective(self.config).evaluate(state.x)["loss"])
        self._mark = time.process_time()

    def loss_at(self, seconds: float) -> float:
        """Return the loss at a CPU time, between points on a line."""
        return float(np.interp(seconds, self.seconds, self.losses))


def follow(config: RunConfig) -> Curve:
    """Run a config and return its curve; a round first, unmeasured, since it reads data and compiles."""
    prepare(config)
    run_in_process(config.replace(rounds=1))
    curve = Curve(config)
    curve._mark = time.process_time()
    run_in_process(config, observers=[curve])
    gc.collect()  # an engine and its coordinator know each other, and the data set with them
    return curve


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print tables and write the JSON."""
    parser = argparse.ArgumentParser(prog=f"python -m {__spec__.name}", description=__doc__.splitlines()[0])
    parser.add_argument("--data-dir", default="", help="folder of MNIST; empty: the embedded digits")
    parser.add_argument("--models", default="logistic,svm-squared-hinge", help="models to train")
    parser.add_argument("--rounds", type=int, default=225, help="rounds of a run")
    parser.add_argument("--seeds", default="0,1,2", help="seeds to average over")
    parser.add_argument("--json", type=Path, help="file for the result")
    args = parser.parse_args(argv)
    seeds = [int(text) for text in args.seeds.split(",")]
    result: dict[str, dict[str, float]] = {}
    for model in args.models.split(","):
        for algorithm in ("zofedht", "zofedavg-sgd"):
            runs = {
                probe: [follow(_config(args.data_dir, model, algorithm, probe, args.rounds, seed)) for seed in seeds]
                for probe in LAWS
            }
            found = _table(runs)
            result |= {f"{model}/{algorithm}/{probe}": row for probe, row in found.items()}
            _show(f"{model}, {algorithm}, {args.rounds} rounds, seeds {args.seeds}", found)
    if args.json:
        args.json.write_text(json.dumps(result, indent=2) + "\n")
    return 0


def _config(data_dir: str, model: str, algorithm: str, probe: str, rounds: int, seed: int) -> RunConfig:
    keys: dict[str, Scalar] = {
        "model": model, "algorithm": algorithm, "probe": probe, "rounds": rounds, "seed": seed,
        "step-size": _STEP_SIZES[model], "evaluate-every": 0,
        "init": "ones" if model == "svm-squared-hinge" else "zeros",
    }  # fmt: skip
    if data_dir:
        keys |= {
            "dataset": "mnist", "data-dir": data_dir, "train-rows": 48000, "num-clients": 100, "clients-per-round": 10,
        }  # fmt: skip
    return RunConfig.from_mapping(keys)


def _table(runs: dict[str, list[Curve]]) -> dict[str, dict[str, float]]:
    """Return the means over seeds: losses at a third and all of the evaluations, and at CPU times that all reach.

    The largest minus the smallest of the final losses says what a seed changes.
    """
    shortest = min(curve.seconds[-1] for curves in runs.values() for curve in curves)

    def row(curves: list[Curve]) -> dict[str, float]:
        third = len(curves[0].losses) // 3 - 1
        numbers = {
            "cpu_s": [curve.seconds[-1] for curve in curves],
            "loss_third": [curve.losses[third] for curve in curves],
            "loss": [curve.losses[-1] for curve in curves],
            "loss_at_third_of_shortest": [curve.loss_at(shortest / 3.0) for curve in curves],
            "loss_at_shortest": [curve.loss_at(shortest) for curve in curves],
            "shortest_s": [shortest],
        }
        means = {name: float(np.mean(values)) for name, values in numbers.items()}
        return means | {"loss_range": float(np.ptp(numbers["loss"]))}

    return {key: row(curves) for key, curves in runs.items()}


def _show(title: str, found: dict[str, dict[str, float]]) -> None:
    shortest = next(iter(found.values()))["shortest_s"]
    print(f"\n{title}")
    print(f"{'probe':<12}{'CPU s':>7}{'1/3 of evaluations':>20}{'all':>8}{'range':>8}"
          f"{f'after {shortest / 3:.1f} s':>14}{f'{shortest:.1f} s':>8}")  # fmt: skip
    for probe, row in found.items():
        print(
            f"{probe:<12}{row['cpu_s']:>7.1f}{row['loss_third']:>20.4f}{row['loss']:>8.4f}{row['loss_range']:>8.4f}"
            f"{row['loss_at_third_of_shortest']:>14.4f}{row['loss_at_shortest']:>8.4f}",
            flush=True,
        )


if __name__ == "__main__":
    raise SystemExit(main())
