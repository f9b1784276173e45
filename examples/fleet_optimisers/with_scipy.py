"""SciPy: COBYQA, which asks about one point at a time, and differential evolution, which asks about a population."""

from __future__ import annotations

import houses
from scipy.optimize import differential_evolution, minimize


def main() -> None:
    with houses.local() as fleet:
        # Trust-region steps are lengths, so parameters are searched in their scale.
        scale = fleet.scale
        bounds = [(low / unit, high / unit) for (low, high), unit in zip(fleet.bounds, scale, strict=True)]
        found = minimize(lambda z: fleet(z * scale), fleet.x0 / scale, method="COBYQA", bounds=bounds)
        print(f"COBYQA: {found.fun:.3f} a day after {fleet.evaluations} site evaluations")
        houses.show(fleet)

    options = {"updating": "deferred", "maxiter": 15, "popsize": 5, "polish": False, "rng": 1}
    with houses.local() as fleet:
        # SciPy gives a column for each point, fleet.many wants a row.
        found = differential_evolution(lambda X: fleet.many(X.T), fleet.bounds, vectorized=True, **options)
        print(f"differential evolution: {found.fun:.3f} a day after {fleet.evaluations} site evaluations")
    with houses.local() as fleet:
        same = differential_evolution(fleet, fleet.bounds, workers=fleet.map, **options)
        print(f"the same by workers=fleet.map: {same.fun == found.fun}")


if __name__ == "__main__":
    main()
