"""CMA-ES over sites against pycma on the pooled function, in site evaluations.

    python -m benchmarks.methods.few_parameters [--tables one,shifted,sites,bounded,auto,device,run,...] [--seeds 10]
                                                [--json FILE]

one: evaluations of one site until F is 1e-8. shifted: the same for five sites whose optima differ (shifted-30: for n =
30). sites: what is left of the height at the start after 1,000, 5,000 and 20,000 site evaluations, for 20 quadratics of
condition 100 in 10 parameters; sd is the noise of an answer, of a fall of 10, h the spread of the sites' optima in a
parameter, of which the start is 1 away. bounded: an optimum in a corner of the bounds. auto: the quadratics by
``fleet.minimize``, method auto, with so many site evaluations in all. device: the mean cost of the six devices of
examples/device_settings after 60, 360 and 1,440 site evaluations of 40 work cycles each. pycma evaluates the mean of
all sites, which costs a site evaluation each.

run, run-shifted, versions, logarithms and settings measure the algorithms cma-es and auto of ordinary runs: evaluations
to 1e-8 (run-30 and run-shifted-30: for n = 30); what is left after 1,000 and 5,000 evaluations of five quadratics with
noise, bounds, losses and stairs; an optimum on a logarithm; the settings of the devices, with 4 work cycles an
evaluation. Medians over the seeds, with the lowest and the highest. Needs pycma.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from zofedht import Fleet
from zofedht.common.machine.blas import one_thread
from zofedht.common.typing import Matrix, Vector
from zofedht.server.cma.search import Problem, ask, begin, middle, tell

__all__ = ["TARGET", "Task", "evaluations_to_target", "main", "ours", "pycma", "quadratics", "told"]

MARKS = (1_000, 5_000, 20_000)
TARGET = 1e-8

Function = Callable[[Vector], float]


@dataclass(frozen=True)
class Task:
    """Sites, the start, and how far a point is from the optimum of their mean."""

    sites: Sequence[Function]
    start: Vector
    gap: Function
    low: float = -math.inf
    high: float = math.inf
    noise: float = 0.0
    seed: int = 0
    rng: np.random.Generator = field(default_factory=np.random.default_rng)

    def table(self, points: Matrix, sites: Sequence[int]) -> Matrix:
        """Return the answers of some sites."""
        values = np.array([[self.sites[site](x) for x in points] for site in sites])
        return values + self.noise * self.rng.standard_normal(values.shape) if self.noise else values


def ours(task: Task, most: int) -> Iterator[tuple[int, Vector, Vector]]:
    """Yield site evaluations so far, the mean of the distribution, and the generation that was asked."""
    n = len(task.start)
    problem = Problem(task.start, np.full(n, task.low), np.full(n, task.high), len(task.sites), task.seed)
    state, spent, ends = begin(problem), 0, list[Vector]()  # of valleys that were left, compared at all sites
    while spent < most:
        asked = ask(problem, state)
        tables = [task.table(asked.points, asked.sites) for _ in range(1 + asked.twice)]
        spent += len(tables) * tables[0].size
        before, state = state, tell(problem, state, tables)
        if state.restarts > before.restarts:
            ends.append(middle(problem, before))
            spent += len(task.sites)
        yield spent, min([*ends, middle(problem, state)], key=task.gap), asked.points


def pycma(task: Task, most: int) -> Iterator[tuple[int, Vector, Vector]]:
    """Yield the same of pycma on the mean over all sites."""
    import cma

    options: dict[str, Any] = {"seed": task.seed + 1, "verbose": -9, "tolfun": 0, "tolfunhist": 0, "tolx": 0}
    if math.isfinite(task.low):
        options["bounds"] = [task.low, task.high]
    search = cma.CMAEvolutionStrategy(task.start, 0.5, options)
    spent, everywhere = 0, range(len(task.sites))
    while spent < most:
        points = np.array(search.ask())
        search.tell(list(points), task.table(points, everywhere).mean(axis=0).tolist())
        spent += len(points) * len(task.sites)
        yield spent, np.clip(search.result.xfavorite, task.low, task.high), points


def evaluations_to_target(task: Task, method: Any) -> float:
    """Return site evaluations until the best point of a generation is within TARGET, inf after a million."""
    for spent, _, points in method(task, 1_000_000):
        if min(task.gap(x) for x in points) < TARGET:
            return float(spent)
    return math.inf


def gaps_at_marks(task: Task, method: Any) -> list[float]:
    """Return what is left at the mean after each of MARKS."""
    found, last = [], math.nan
    for spent, mean, _ in method(task, MARKS[-1]):
        while len(found) < len(MARKS) and spent > MARKS[len(found)]:
            found.append(last)
        last = task.gap(mean)
    return found + [last] * (len(MARKS) - len(found))


def functions(n: int) -> dict[str, tuple[Function, Vector]]:
    """Return functions with the minimum 0, and where a search begins."""
    turned = np.linalg.qr(np.random.default_rng(1).standard_normal((n, n)))[0]

    def ellipsoid(condition: float) -> Function:
        weights = condition ** (np.arange(n) / (n - 1))
        return lambda x: float(np.sum(weights * (turned @ x) ** 2))

    def rosenbrock(x: Vector) -> float:
        return float(np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2))

    ones = np.ones(n)
    return {
        "sphere": (lambda x: float(x @ x), ones),
        "ellipsoid 1e4": (ellipsoid(1e4), ones),
        "ellipsoid 1e6": (ellipsoid(1e6), ones),
        "Rosenbrock": (rosenbrock, np.zeros(n)),
    }


def shifted(function: Function, start: Vector, seed: int, count: int = 5) -> Task:
    """Return sites whose functions are tilted: each has its optimum elsewhere, and the tilts add up to nothing."""
    tilts = 0.3 * np.random.default_rng([3, seed]).standard_normal((count, len(start)))
    tilts -= tilts.mean(axis=0)
    return Task([lambda x, t=t: function(x) + float(t @ x) for t in tilts], start, function, seed=seed)


def quadratics(spread: float, noise: float, seed: int, *, corner: bool = False, n: int = 10, count: int = 20) -> Task:
    """Return quadratics of condition 100 with a fall of 10 from the start to the optimum of their mean, 0."""
    rng = np.random.default_rng([7, seed])
    turned = np.linalg.qr(rng.standard_normal((n, n)))[0]
    curvature = turned * 100.0 ** (np.arange(n) / (n - 1)) @ turned.T
    start = np.ones(n)
    curvature *= 10.0 / (start @ curvature @ start)
    centres = spread * rng.standard_normal((count, n))
    centres -= centres.mean(axis=0)
    sites = [lambda x, c=c: float((x - c) @ curvature @ (x - c)) for c in centres]
    low, high = (0.25, 2.0) if corner else (-math.inf, math.inf)
    offset = _corner(curvature, low, high) if corner else 0.0
    gap = lambda x: (float(x @ curvature @ x) - offset) / (10.0 - offset)  # noqa: E731
    return Task(sites, start, gap, low, high, noise, seed, np.random.default_rng([8, seed]))


def _corner(curvature: Matrix, low: float, high: float) -> float:
    """Return the least value of the mean quadratic within the bounds."""
    from scipy.optimize import minimize

    n = len(curvature)
    found = minimize(
        lambda x: x @ curvature @ x, np.ones(n), jac=lambda x: 2.0 * curvature @ x, method="L-BFGS-B",
        bounds=[(low, high)] * n, options={"ftol": 0.0, "gtol": 1e-14, "maxiter": 10_000},
    )  # fmt: skip
    return float(found.fun)


def told(values: Sequence[float]) -> str:
    """Return the median with the lowest and the highest."""
    middle, low, high = np.median(values), min(values), max(values)
    if middle >= 1.0:
        return f"{middle:,.0f} ({low:,.0f}-{high:,.0f})"
    return f"{middle:.0e} ({low:.0e}-{high:.0e})"


def _to_target(rows: dict[str, Callable[[int], Task]], seeds: int) -> dict[str, Any]:
    print("| function | here | pycma | ratio |\n|---|---|---|---|")
    kept = {}
    for name, make in rows.items():
        here, there = ([evaluations_to_target(make(s), m) for s in range(seeds)] for m in (ours, pycma))
        ratio = float(np.median(here) / np.median(there))
        kept[name] = {"here": here, "pycma": there, "ratio": ratio}
        print(f"| {name} | {told(here)} | {told(there)} | {ratio:.2f} |", flush=True)
    return kept


def _at_marks(rows: dict[str, Callable[[int], Task]], seeds: int) -> dict[str, Any]:
    heads = [f"{who} {mark:,}" for who in ("here", "pycma") for mark in MARKS]
    print("| case | " + " | ".join(heads) + " |\n|---|" + "---|" * len(heads))
    kept = {}
    for name, make in rows.items():
        here, there = ([gaps_at_marks(make(seed), method) for seed in range(seeds)] for method in (ours, pycma))
        kept[name] = {"here": here, "pycma": there}
        cells = [told([row[place] for row in found]) for found in (here, there) for place in range(len(MARKS))]
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)
    return kept


def _auto(rows: dict[str, Callable[[int], Task]], seeds: int) -> dict[str, Any]:
    print("| case | " + " | ".join(f"{mark:,}" for mark in MARKS) + " |\n|---|" + "---|" * len(MARKS))
    kept = {}
    for name, make in rows.items():
        kept[name] = [[_gap_of_auto(make(seed), mark) for mark in MARKS] for seed in range(seeds)]
        cells = [told(column) for column in zip(*kept[name], strict=True)]
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)
    return kept


def _gap_of_auto(task: Task, most: int) -> float:
    sites = [lambda x, site=site: float(task.table(x[None], [site])[0, 0]) for site in range(len(task.sites))]
    with Fleet.local(sites, x0=task.start) as fleet:
        return task.gap(fleet.minimize(maxfev=most, seed=task.seed).x)


def fleet_of_devices() -> Any:
    """Return the module of examples/device_settings, which lies in no package."""
    folder = Path(__file__).resolve().parents[2] / "examples" / "device_settings"
    spec = importlib.util.spec_from_file_location("fleet_of_devices", folder / "fleet.py")
    assert spec is not None
    assert spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    return example


def _devices(seeds: int) -> dict[str, Any]:
    example = fleet_of_devices()
    marks, kept = (60, 360, 1440), {"factory": [], "here": [], "pycma": []}
    for seed in range(seeds):
        devices = {f"device-{i}": example.Device(example.wear(seed, i), 1000 * i) for i in range(6)}
        with Fleet.local(devices) as fleet:
            kept["factory"].append([fleet(fleet.x0)] * len(marks))
            kept["here"].append([fleet.minimize(maxfev=mark, seed=seed).fun for mark in marks])
            kept["pycma"].append([_pooled_pycma(fleet, mark, seed) for mark in marks])
        for device in devices.values():
            device.process.kill()
            device.process.wait()
    print("| mean cost after | " + " | ".join(f"{mark:,}" for mark in marks) + " |\n|---|" + "---|" * len(marks))
    for name, rows in kept.items():
        cells = [f"{np.median(c):.3f} ({min(c):.3f}-{max(c):.3f})" for c in zip(*rows, strict=True)]
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)
    return kept


def _pooled_pycma(fleet: Fleet, most: int, seed: int) -> float:
    """Return the lowest mean of all devices that pycma saw."""
    import cma

    lower, upper = zip(*fleet.bounds, strict=True)
    options = {"bounds": [lower, upper], "CMA_stds": fleet.scale, "seed": seed + 1, "verbose": -9}
    search, spent, best = cma.CMAEvolutionStrategy(fleet.x0, 0.5, options), 0, fleet(fleet.x0)
    while spent + search.popsize * len(fleet.sites) <= most and not search.stop():
        points = search.ask()
        values = fleet.many(points)
        search.tell(points, values.tolist())
        spent, best = spent + len(points) * len(fleet.sites), min(best, float(values.min()))
    return best


def tables() -> dict[str, Callable[[int], dict[str, Any]]]:
    """Return what can be measured, by name."""
    sizes = (3, 10, 30)
    one: dict[str, Callable[[int], Task]] = {}
    five: dict[str, Callable[[int], Task]] = {}
    for n in sizes:
        for name, (function, start) in functions(n).items():
            one[f"{name}, n = {n}"] = lambda seed, f=function, x=start: Task([f], x, f, seed=seed)
            if name != "Rosenbrock":  # whose optimum a tilt would move
                five[f"{name}, n = {n}"] = lambda seed, f=function, x=start: shifted(f, x, seed)
    cases = {f"sd {sd:g}, h {h:g}": (h, sd) for sd in (0.0, 1.0) for h in (0.0, 0.1, 3.0)}
    free = {name: (lambda seed, c=case: quadratics(*c, seed)) for name, case in cases.items()}
    boxed = {name: (lambda seed, c=case: quadratics(*c, seed, corner=True)) for name, case in cases.items()}
    # These measure what runs of the package do, and are loaded for that alone.
    from benchmarks.methods import ordinary_runs

    def of_size(rows: dict[str, Callable[[int], Task]], *sizes: int) -> dict[str, Callable[[int], Task]]:
        return {name: make for name, make in rows.items() if int(name.split()[-1]) in sizes}

    return {
        "run": lambda seeds: ordinary_runs.to_target(of_size(one, 3, 10), seeds),
        "run-shifted": lambda seeds: ordinary_runs.to_target(of_size(five, 3, 10), seeds),
        "run-30": lambda seeds: ordinary_runs.to_target(of_size(one, 30), seeds),
        "run-shifted-30": lambda seeds: ordinary_runs.to_target(of_size(five, 30), seeds),
        "versions": ordinary_runs.versions,
        "logarithms": ordinary_runs.logarithms,
        "settings": ordinary_runs.devices,
        "one": lambda seeds: _to_target(one, seeds),
        "shifted": lambda seeds: _to_target(of_size(five, 3, 10), seeds),
        "shifted-30": lambda seeds: _to_target(of_size(five, 30), seeds),
        "sites": lambda seeds: _at_marks(free, seeds),
        "bounded": lambda seeds: _at_marks(boxed, seeds),
        "auto": lambda seeds: _auto(free, seeds),
        "device": _devices,
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(
        prog=f"python -m {__spec__.name}", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tables", default="one,shifted,sites,bounded,auto,device")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args(argv)
    known, kept = tables(), {}
    with one_thread():
        for name in args.tables.split(","):
            print(f"\n{name}\n")
            kept[name] = known[name](args.seeds)
    if args.json:
        args.json.write_text(json.dumps(kept, indent=1))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
