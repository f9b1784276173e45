"""Bytes per client and round for each uplink and downlink, and the loss that shared directions cost.

    python -m benchmarks.messages.wire [--dimensions 785,39300,2361900] [--clients 2] [--rounds 11] [--json FILE]
    python -m benchmarks.messages.wire --losses --data-dir DIR [--seeds 0,1,2] [--step-factor 1]
    python -m benchmarks.messages.wire --single [--seeds 0,1,2]

1. All clients take part in every round of a run in process. Messages are counted as Flower's protobuf; K = 50, tau = 5,
   and Q is made anew once.
2. MNIST, 225 rounds of 10 out of 100 clients: the same evaluations for per-slot and shared directions.
3. Digits: the distance between x with wire-dtype = float32 and x with float64, relative to the length of the latter.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from zofedht.common.config.run_config import RunConfig
from zofedht.common.models.quadratic import QuadraticObjective
from zofedht.common.typing import Vector
from zofedht.server.inprocess import run_in_process

WAYS: dict[str, dict[str, Any]] = {
    "move up, x down": {},
    "the same in float32": {"wire-dtype": "float32"},
    "slopes up, x down": {"uplink": "slopes", "directions": "shared"},
    "slopes up, slopes down": {"uplink": "slopes", "directions": "shared", "downlink": "slopes"},
}
_MNIST: dict[str, Any] = {
    "dataset": "mnist", "train-rows": 48_000, "num-clients": 100, "clients-per-round": 10, "rounds": 225,
    "sampling": "without-replacement", "local-steps": 50, "batch-size": 64, "memory": 5, "evaluate-every": 0,
}  # fmt: skip
_MARKS = (1, 50, 225)  # rounds after which single precision is compared
_MODELS: dict[str, dict[str, Any]] = {
    "logistic": {"model": "logistic", "step-size": 10.0},
    "squared hinge": {"model": "svm-squared-hinge", "init": "ones", "step-size": 0.1},
}


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print a table and write the JSON."""
    parser = argparse.ArgumentParser(prog=f"python -m {__spec__.name}", description=__doc__.splitlines()[0])
    parser.add_argument("--dimensions", default="785,39300,2361900", help="numbers of parameters")
    parser.add_argument("--clients", type=int, default=2, help="clients, all of which take part in every round")
    parser.add_argument("--rounds", type=int, default=11, help="rounds of a run")
    parser.add_argument("--losses", action="store_true", help="compare the losses of both kinds of directions on MNIST")
    parser.add_argument("--single", action="store_true", help="how far float32 on the wire leads from float64")
    parser.add_argument("--data-dir", default="", help="folder of MNIST")
    parser.add_argument("--seeds", default="0,1,2", help="seeds of a comparison")
    parser.add_argument("--step-factor", type=float, default=1.0, help="multiplies the step sizes of the comparison")
    parser.add_argument("--json", type=Path, help="file for the result")
    args = parser.parse_args(argv)
    seeds = [int(seed) for seed in args.seeds.split(",")]
    if args.losses:
        result = _losses(args.data_dir, seeds, args.step_factor)
    elif args.single:
        result = _single(seeds)
    else:
        result = _bytes([int(text) for text in args.dimensions.split(",")], args.clients, args.rounds)
    if args.json:
        args.json.write_text(json.dumps(result, indent=2) + "\n")
    return 0


def _bytes(dimensions: Sequence[int], clients: int, rounds: int) -> dict[str, Any]:
    print("bytes per client and round, after the first round")
    print(f"{'way':<24}{'n':>9}{'up':>14}{'down, median':>14}{'down, mean':>14}{'down, most':>14}")
    result: dict[str, Any] = {}
    for way, keys in WAYS.items():
        for dimension in dimensions:
            up, down = measure(keys, dimension, clients, rounds)
            shown = statistics.median(up), statistics.median(down), statistics.mean(down), max(down)
            print(f"{way:<24}{dimension:>9}" + "".join(f"{value:>14,.0f}" for value in shown), flush=True)
            names = ("up", "down_median", "down_mean", "down_most")
            result[f"{way}, n = {dimension}"] = dict(zip(names, shown, strict=True))
    return result


def measure(keys: dict[str, Any], dimension: int, clients: int, rounds: int) -> tuple[list[float], list[float]]:
    """Return the bytes up and down per client, for each round but the first."""
    config = RunConfig.from_mapping(
        {
            "num-clients": clients, "clients-per-round": clients, "sampling": "without-replacement", "rounds": rounds,
            "local-steps": 50, "batch-size": 0, "memory": 5, "step-size": 1e-9, "evaluate-every": 0,
        }
        | keys
    )  # fmt: skip
    rng = np.random.default_rng(0)
    objectives = [QuadraticObjective(rng.standard_normal((1, dimension))) for _ in range(clients)]
    totals: list[tuple[int, int]] = []
    run_in_process(
        config, objectives, observers=[lambda state, record: totals.append((record.bytes_up, record.bytes_down))]
    )
    up, down = (np.diff(column) / clients for column in np.transpose(totals))
    return list(up), list(down)


def _losses(data_dir: str, seeds: Sequence[int], factor: float) -> dict[str, Any]:
    print("final training loss on MNIST, 225 rounds, 14.4 million evaluations; mean over seeds and each of them")
    result: dict[str, Any] = {}
    for model, keys in _MODELS.items():
        for algorithm in ("zofedht", "zofedavg-sgd"):
            for directions in ("per-slot", "shared"):
                chosen = {
                    "algorithm": algorithm,
                    "directions": directions,
                    "data-dir": data_dir,
                    "step-size": factor * keys["step-size"],
                }
                losses = []
                for seed in seeds:
                    config = RunConfig.from_mapping(_MNIST | keys | chosen | {"seed": seed})
                    losses.append(run_in_process(config).last.metrics["train_loss"])
                name = f"{model}, {algorithm}, {directions}"
                print(f"{name:<40}{statistics.mean(losses):>8.4f}   {' '.join(f'{v:.4f}' for v in losses)}", flush=True)
                result[name] = losses
    return result


def _single(seeds: Sequence[int]) -> dict[str, Any]:
    print("relative distance of x after some rounds, and of the final training loss; largest of the seeds")
    print(f"{'model':<24}{'algorithm':<16}{''.join(f'{round_:>10}' for round_ in _MARKS)}{'loss':>10}")
    result: dict[str, Any] = {}
    for model, step_size in (("logistic", 10.0), ("svm-squared-hinge", 0.1)):
        for algorithm in ("zofedht", "zofedavg-sgd"):
            keys = {"model": model, "algorithm": algorithm, "step-size": step_size}
            worst = np.max([_distances(keys | {"seed": seed}) for seed in seeds], axis=0)
            print(f"{model:<24}{algorithm:<16}{''.join(f'{value:>10.1e}' for value in worst)}", flush=True)
            result[f"{model}, {algorithm}"] = dict(zip((*map(str, _MARKS), "loss"), worst.tolist(), strict=True))
    return result


def _distances(keys: dict[str, Any]) -> list[float]:
    """Return the relative distance of x at each mark, and that of the final loss."""
    ends, marks = [], []
    for dtype in ("float64", "float32"):
        at: list[Vector] = []
        config = RunConfig.from_mapping(keys | {"wire-dtype": dtype, "rounds": _MARKS[-1], "evaluate-every": 0})
        ends.append(
            run_in_process(config, observers=[lambda state, _, at=at: at.append(state.x)]).last.metrics["train_loss"]
        )
        marks.append([at[round_ - 1] for round_ in _MARKS])
    distances = [float(np.linalg.norm(b - a) / np.linalg.norm(a)) for a, b in zip(*marks, strict=True)]
    return [*distances, abs(ends[1] - ends[0]) / ends[0]]


if __name__ == "__main__":
    sys.exit(main())
