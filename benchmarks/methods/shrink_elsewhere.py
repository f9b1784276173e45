"""Where zofed-shrink gains and where it loses: quadratics of any size, black boxes with noise, and valleys that turn.

    python -m benchmarks.methods.shrink_elsewhere [--panels quadratics,noise,turns] [--sizes 10,100,1000,10000]
                                                  [--parts 0,.43,.9] [--rounds 60]

Five clients, all of them in each round, equal evaluations. Each method takes the best of four step sizes on seed 0, the
same four for all. The number is the part of F(x_0) - F* that is left: mean and standard deviation over the
seeds. No number depends on the machine.

Quadratics bend alike along all axes but one, which has 0, 43 or 90% of the trace of H. The black boxes answer with
noise of a standard deviation of 1e-3 F(x_0), at a radius of .1. Valleys have no noise. Across them F bends as much as
along all other axes together. On the way to the minimum they turn by 0 or 90 degrees.
"""

from __future__ import annotations

import argparse
import math
import zlib
from collections.abc import Callable
from statistics import fmean, stdev

import numpy as np

from benchmarks.methods.learnt_shrink import OWN, Silent
from zofedht.common.config.run_config import RunConfig, Scalar
from zofedht.common.models.quadratic import QuadraticObjective
from zofedht.common.objective.base import Objective
from zofedht.common.typing import Indices, Matrix, Vector
from zofedht.server.inprocess import run_in_process

__all__ = ["BOXES", "METHODS", "Named", "NoisyBox", "clients_of", "left"]

METHODS: dict[str, dict[str, Scalar]] = {
    "zofedht": {"algorithm": "zofedht"},
    "zofedavg-sgd": {"algorithm": "zofedavg-sgd"},
    "nothing shrunk": {"algorithm": "zofed-shrink", "shrink": 1.0},
    "shrink, nothing named": {"algorithm": "zofed-shrink"},
    "shrink, named": {"algorithm": "zofed-shrink"},
    "shrink, of your own": {"algorithm": "zofed-shrink", **OWN},
}
"""A slot of each takes 100 evaluations of its batch. The last has the defaults for an objective of your own."""

_Run = Callable[[str, float, int], float]
"""What is left by a method with a step size and a seed."""

_STEPS = (0.03, 0.1, 0.3, 1.0)  # over the trace of H
_CLIENTS, _ROWS = 5, 20


class Named(Silent):
    """Another objective, whose first axis is named as stiff."""

    def stiff(self, x: Vector) -> Matrix:
        return np.eye(1, self.dim)


class NoisyBox(Objective):
    """F of one parameter vector with noise that follows from x, as a simulation with a seed of its own has it."""

    def __init__(self, function: Callable[[Vector], float], dim: int, sd: float, client: int) -> None:
        self.function, self.dim, self._sd, self._client = function, dim, sd, client

    def value(self, x: Vector, batch: Indices | slice) -> float:
        uniform = zlib.crc32(np.ascontiguousarray(x).tobytes(), self._client) / 2**32 - 0.5
        return self.function(x) + self._sd * math.sqrt(12.0) * uniform


def _ripples(x: Vector) -> float:
    """A bowl with ripples, from 0: some second derivatives are negative on the way."""
    away = x - 1.0
    return float(np.sum(0.5 * away**2 + 0.2 * (1.0 - np.cos(3.0 * away))))


def _saturating(x: Vector) -> float:
    """The root of 1 + a quadratic of condition 100, less 1: stiff near its minimum and nearly linear far from it."""
    return math.sqrt(1.0 + float(np.linspace(0.01, 1.0, len(x)) @ (x - 3.0) ** 2)) - 1.0


def _valley(turn: float) -> Callable[[Vector], float]:
    """A bowl of condition 100 around ones with a stiff direction u, which turns from the first axis to the last.

    An axis between leads: u has turned by so much of ``turn`` as x has gone along it from 0 to 1.
    """

    def value(x: Vector) -> float:
        away, bent = x - 1.0, np.geomspace(0.01, 1.0, len(x))
        angle = turn * x[len(x) // 2]
        across = math.cos(angle) * away[0] + math.sin(angle) * away[-1]
        return 0.5 * float(bent @ away**2 + bent.sum() * across**2)

    return value


VALLEYS = {f"valley that turns by {degrees}": (_valley(math.radians(degrees)), 50, 22.0) for degrees in (0, 90)}
BOXES = {"ripples, n = 20": (_ripples, 20, 56.0), "saturating, n = 50": (_saturating, 50, 5.0)}
"""By name: F, n, and about the trace of its H."""


def clients_of(size: int, part: float, seed: int) -> tuple[list[Objective], float]:
    """Return quadratics whose first axis has this part of the trace of H, and that trace."""
    rng = np.random.default_rng(seed)
    curvature = np.ones(size)
    if part:
        curvature[0] = part / (1.0 - part) * (size - 1)
    shared = rng.standard_normal(size)
    centres = [shared + 0.5 * rng.standard_normal((_ROWS, size)) for _ in range(_CLIENTS)]
    return [QuadraticObjective(rows, curvature) for rows in centres], float(curvature.sum())


def left(clients: list[Objective], least: float, method: str, step: float, seed: int, **keys: Scalar) -> float:
    """Return the part of F(x_0) - F* that a run leaves; ``keys`` name its rounds."""
    mine = {"num-clients": _CLIENTS, "clients-per-round": _CLIENTS, "sampling": "without-replacement"}
    mine |= {"batch-size": 8, "evaluate-every": 0, "return-x": "last", "seed": seed}
    config = RunConfig.from_mapping(mine | {"step-size": step} | METHODS[method] | keys)
    x = run_in_process(config, clients).state.x
    return (_mean(clients, x) - least) / (_mean(clients, np.zeros(len(x))) - least)


def _mean(clients: list[Objective], x: Vector) -> float:
    with np.errstate(all="ignore"):
        whole = slice(None)
        values = [c.function(x) if isinstance(c, NoisyBox) else c.value(x, whole) for c in clients]
    return fmean(values) if np.all(np.isfinite(values)) else math.inf


def _quadratic(size: int, part: float, rounds: int) -> _Run:
    def run(method: str, step: float, seed: int) -> float:
        clients, trace = clients_of(size, part, seed)
        best = np.mean([client.centres for client in clients], axis=(0, 1))  # type: ignore[attr-defined]
        known = [(Named if method == "shrink, named" else Silent)(client) for client in clients]
        return left(list(known), _mean(clients, best), method, step / trace, seed, rounds=rounds)

    return run


def _box(function: Callable[[Vector], float], size: int, trace: float, noise: float, **keys: Scalar) -> _Run:
    """``noise`` is a standard deviation in units of F(x_0)."""

    def run(method: str, step: float, seed: int) -> float:
        sd = noise * function(np.zeros(size))
        clients: list[Objective] = [NoisyBox(function, size, sd, 1000 * seed + index) for index in range(_CLIENTS)]
        return left(clients, 0.0, method, step / trace, seed, **keys)

    return run


def main() -> None:
    """Print a line for each panel."""
    parser = argparse.ArgumentParser(prog=f"python -m {__spec__.name}", description=__doc__.splitlines()[0])
    parser.add_argument("--panels", default="quadratics,noise,turns")
    parser.add_argument("--sizes", default="10,100,1000,10000")
    parser.add_argument("--parts", default="0,.43,.9")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=60)
    args = parser.parse_args()
    panels: dict[str, _Run] = {}
    if "quadratics" in args.panels:
        for size in map(int, args.sizes.split(",")):
            for part in map(float, args.parts.split(",")):
                panels[f"n = {size:,}, {part:.0%}"] = _quadratic(size, part, args.rounds)
    if "noise" in args.panels:
        panels |= {name: _box(*box, noise=1e-3, rounds=args.rounds, radius=0.1) for name, box in BOXES.items()}
    if "turns" in args.panels:
        panels |= {name: _box(*valley, noise=0.0, rounds=args.rounds) for name, valley in VALLEYS.items()}
    print(f"| panel | {' | '.join(METHODS)} |\n|---|{'---|' * len(METHODS)}", flush=True)
    for name, run in panels.items():
        cells = []
        for method in METHODS:
            if name in BOXES | VALLEYS and method == "shrink, named":  # nobody knows their stiff directions
                cells.append("-")
                continue
            tried = {step: run(method, step, 0) for step in _STEPS}
            step = min(tried, key=lambda step: tried[step])
            found = [tried[step], *(run(method, step, seed) for seed in range(1, args.seeds))]
            if diverged := sum(map(math.isinf, found)):
                cells.append(f"{diverged} of {len(found)} diverged at {step:g}")
                continue
            spread = f" ({stdev(found):.1g})" if len(found) > 1 else ""
            cells.append(f"{fmean(found):.2g}{spread} at {step:g}")
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
