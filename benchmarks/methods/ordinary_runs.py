"""The searches of ``benchmarks.methods.few_parameters`` in ordinary runs, against pycma on the pooled function."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from benchmarks.methods.few_parameters import (
    TARGET,
    Task,
    evaluations_to_target,
    fleet_of_devices,
    pycma,
    quadratics,
    told,
)
from zofedht import Real, run
from zofedht.common.typing import Vector

__all__ = ["devices", "logarithms", "to_target", "versions"]

_ANSWERS = (1_000, 5_000)
_BUDGETS = (2_400, 5_000, 14_400)
_CYCLES = 4  # work cycles of an evaluation of a device


class _ReachedError(Exception):
    """The target is reached."""


def _run(task: Task, algorithm: str, budget: int, **more: Any) -> Any:
    bounds = None if math.isinf(task.low) else (task.low, task.high)
    sites = [lambda x, site=site: float(task.table(x[None], [site])[0, 0]) for site in range(len(task.sites))]
    keys = {"algorithm": algorithm, "budget": budget, "seed": task.seed, "evaluate_every": 0, "max_retries": 9} | more
    return run(sites, task.start, bounds=bounds, scale=None if bounds is None else 1.0, **keys)


def _run_to_target(task: Task, algorithm: str) -> float:
    reached = False

    def watched(site: Callable[[Vector], float]) -> Callable[[Vector], float]:
        def value(x: Vector) -> float:
            nonlocal reached
            reached = reached or task.gap(x) < TARGET
            return site(x)

        return value

    def stop(record: Any) -> None:
        if reached:
            raise _ReachedError(record["evaluations"])

    try:
        _run(replace(task, sites=[watched(site) for site in task.sites]), algorithm, 1_000_000, callback=stop)
    except _ReachedError as error:
        return float(error.args[0])
    return math.inf


def to_target(rows: dict[str, Callable[[int], Task]], seeds: int) -> dict[str, Any]:
    """Print evaluations until a point that was asked about is within TARGET."""
    print("| function | `cma-es` | `auto` | pycma | cma-es / pycma |\n|---|---|---|---|---|")
    kept = {}
    for name, make in rows.items():
        cma, auto = ([_run_to_target(make(seed), which) for seed in range(seeds)] for which in ("cma-es", "auto"))
        pooled = [evaluations_to_target(make(seed), pycma) for seed in range(seeds)]
        kept[name] = {"cma-es": cma, "auto": auto, "pycma": pooled}
        ratio = float(np.median(cma) / np.median(pooled))
        print(f"| {name} | {told(cma)} | {told(auto)} | {told(pooled)} | {ratio:.2f} |", flush=True)
    return kept


@dataclass(frozen=True)
class _Torn(Task):
    """A fifth of the answers is lost."""

    def table(self, points: Any, sites: Sequence[int]) -> Any:
        values = super().table(points, sites)
        return np.where(self.rng.random(values.shape) < 0.2, np.nan, values)


def _stairs(task: Task) -> Task:
    """Return the task with x rounded to twentieths; its gap is that of the rounded x."""

    def rounded(f: Callable[[Vector], float]) -> Callable[[Vector], float]:
        return lambda x: f(np.round(20.0 * x) / 20.0)

    return replace(task, sites=[rounded(site) for site in task.sites], gap=rounded(task.gap))


def versions(seeds: int) -> dict[str, Any]:
    """Print what is left of the height at the start of five quadratics of condition 100 in 5 parameters."""

    def five(seed: int, spread: float = 0.3, noise: float = 0.0, *, corner: bool = False) -> Task:
        return quadratics(spread, noise, seed, corner=corner, n=5, count=5)

    cases: dict[str, Callable[[int], Task]] = {
        "as it is": five,
        "noise of a tenth of the fall": lambda seed: five(seed, noise=1.0),
        "in a corner of the bounds": lambda seed: five(seed, corner=True),
        "a fifth of the answers lost": lambda seed: _Torn(**vars(five(seed))),
        "a staircase": lambda seed: _stairs(five(seed)),
    }
    heads = [f"{who} {count:,}" for who in ("`cma-es`", "`auto`", "pycma") for count in _ANSWERS]
    print("| case | " + " | ".join(heads) + " |\n|---|" + "---|" * len(heads))
    kept = {}
    for name, make in cases.items():
        columns = [
            [make(seed).gap(_run(make(seed), which, count).x) for seed in range(seeds)]
            for which in ("cma-es", "auto")
            for count in _ANSWERS
        ]
        columns += [[_pooled(make(seed), count) for seed in range(seeds)] for count in _ANSWERS]
        kept[name] = columns
        print(f"| {name} | " + " | ".join(told(column) for column in columns) + " |", flush=True)
    return kept


def _pooled(task: Task, most: int) -> float:
    """Return what is left at pycma's own result; lost answers are left out of a mean."""
    import cma

    options: dict[str, Any] = {"seed": task.seed + 1, "verbose": -9}
    if math.isfinite(task.low):
        options["bounds"] = [task.low, task.high]
    search, spent = cma.CMAEvolutionStrategy(task.start, 0.5, options), 0
    everywhere = range(len(task.sites))
    while spent < most and not search.stop():
        points = np.array(search.ask())
        table = task.table(points, everywhere)
        means = np.nansum(table, axis=0) / np.maximum(1, np.sum(~np.isnan(table), axis=0))
        search.tell(list(points), means.tolist())
        spent += table.size
    found = search.result.xfavorite if task.noise else search.result.xbest
    return task.gap(np.clip(found, task.low, task.high))


def logarithms(seeds: int) -> dict[str, Any]:
    """Print by which factor three sites with an optimum of 1e-3 in [1e-6, 1] are missed after 500 evaluations."""
    kept: dict[str, list[float]] = {"cma-es": [], "auto": []}
    for algorithm, errors in kept.items():
        for seed in range(seeds):
            rng = np.random.default_rng([9, seed])
            offsets = rng.normal(0.0, 0.1, 3)
            sites = [
                lambda pause, at=at: (math.log10(pause) + 3.0 - at) ** 2 for at in (offsets - offsets.mean()).tolist()
            ]
            parameters = {"pause": Real(1e-6, 1.0, log=True)}
            found = run(sites, parameters=parameters, algorithm=algorithm, budget=500, seed=seed, evaluate_every=0)
            errors.append(abs(found.settings["pause"] / 1e-3 - 1.0))
        print(f"{algorithm}: off by {told(errors)} of the optimum")
    return kept


def devices(seeds: int) -> dict[str, Any]:
    """Print the mean cost of all work cycles of the six devices of examples/device_settings, by evaluated cycles."""
    example = fleet_of_devices()
    kept: dict[str, list[list[float]]] = {"factory": [], "`cma-es`": [], "`auto`": [], "pycma": []}
    for seed in range(seeds):
        fleet = [example.Device(example.wear(seed, i), 1000 * i) for i in range(6)]

        def cost(x: Vector, fleet: Any = fleet) -> float:
            return float(np.mean([device.value(x, slice(None)) for device in fleet]))

        kept["factory"].append([cost(np.array(example.FACTORY))] * len(_BUDGETS))
        for which in ("cma-es", "auto"):
            keys: dict[str, Any] = {"algorithm": which, "batch_size": _CYCLES, "seed": seed, "evaluate_every": 0}
            kept[f"`{which}`"].append([cost(run(fleet, budget=budget, **keys).x) for budget in _BUDGETS])
        kept["pycma"].append([cost(_pooled_settings(fleet, example, budget, seed)) for budget in _BUDGETS])
        for device in fleet:
            device.process.kill()
            device.process.wait()
    print("| mean cost after | " + " | ".join(f"{budget:,}" for budget in _BUDGETS) + " |\n|---|---|---|---|")
    for name, rows in kept.items():
        cells = [f"{np.median(c):.3f} ({min(c):.3f}-{max(c):.3f})" for c in zip(*rows, strict=True)]
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)
    return kept


def _pooled_settings(fleet: Sequence[Any], example: Any, most: int, seed: int) -> Vector:
    """Return the mean of pycma's distribution, which is told the mean cost of the devices on the same drawn cycles."""
    import cma

    lower, upper = zip(*example.BOUNDS, strict=True)
    options = {"bounds": [lower, upper], "CMA_stds": example.FACTORY, "seed": seed + 1, "verbose": -9}
    search, spent = cma.CMAEvolutionStrategy(example.FACTORY, 0.5, options), 0
    rng = np.random.default_rng(seed)
    while spent < most and not search.stop():
        points = search.ask()
        cycles = [rng.choice(40, _CYCLES, replace=False) for _ in fleet]
        values = [
            float(np.mean([one.value(x, batch) for one, batch in zip(fleet, cycles, strict=True)])) for x in points
        ]
        search.tell(points, values)
        spent += len(points) * len(fleet) * _CYCLES
    return np.clip(search.result.xfavorite, lower, upper)
