"""The heating curve of houses: four settings of a boiler's controller, tried on winter days of each house.

A simulation stands for the houses. A real objective would set the controller and read a meter for some days.
"""

from __future__ import annotations

import numpy as np

from zofedht import Fleet, Objective, Shard

NAMES = ("slope", "base", "setback", "lead")
BOUNDS = ((0.0, 2.0), (20.0, 40.0), (0.0, 20.0), (0.0, 6.0))
MAKER = (0.9, 27.0, 4.0, 1.0)
"""The maker's settings: kelvin of water per kelvin outside; degrees; kelvin at night; hours before six o'clock."""

HOURS = 0.5  # of a step of the simulation


class House(Objective):
    """Cost of a day in one house: the gas, and a price for each hour in which people are cold or too warm."""

    dim = 4
    names = NAMES
    bounds = BOUNDS
    scale = (0.3, 3.0, 4.0, 1.0)

    def __init__(self, shard: Shard) -> None:
        number = shard.index if shard.client.isdecimal() else int(shard.client.rpartition("-")[2])
        rng = np.random.default_rng([2024, number])
        self.loss, self.radiator = rng.uniform(0.02, 0.03), rng.uniform(0.04, 0.06)  # an hour, per kelvin
        self.outside = rng.normal(2.0, 5.0, 20)  # mean temperature of each day

    def __len__(self) -> int:
        return len(self.outside)

    def initial(self, rng: np.random.Generator) -> tuple[float, ...]:
        return MAKER

    def value(self, x: np.ndarray, batch: np.ndarray | slice) -> float:
        slope, base, setback, lead = x
        mean = self.outside[batch]
        room = np.full(len(mean), 20.0)
        cost = np.zeros(len(mean))
        for step in range(-48, 48):  # the first day is not counted: the house forgets how it began
            hour = (step % 48) * HOURS
            day = 1.0 / (1.0 + np.exp(-4.0 * (hour - 6.0 + lead))) - 1.0 / (1.0 + np.exp(-4.0 * (hour - 22.0)))
            outside = mean - 3.0 * np.cos((hour - 2.0) * np.pi / 12.0)
            water = base + slope * (20.0 - outside) - setback * (1.0 - day)
            heat = 0.5 * self.radiator * np.logaddexp(0.0, water - room)
            room = room + HOURS * (heat - self.loss * (room - outside))
            if step >= 0:
                wanted = 21.0 if 6.0 <= hour < 22.0 else 16.0
                cold, warm = np.logaddexp(0.0, wanted - room), np.logaddexp(0.0, room - wanted - 2.0)
                cost += HOURS * (heat + 0.2 * cold**2 + 0.1 * warm**2)
        return float(np.mean(cost))


def local(folder: str | None = None, budget: int = 0) -> Fleet:
    """Return five houses in this process."""
    houses = {f"house-{number}": House(Shard(f"house-{number}")) for number in range(1, 6)}
    return Fleet.local(houses, folder=folder, budget=budget)


def show(fleet: Fleet) -> None:
    """Print the best settings, and what they are worth."""
    best = fleet.best
    assert best is not None
    print("  ".join(f"{name} {value:.3g}" for name, value in zip(fleet.names, best.x, strict=True)))
    print(f"{fleet(fleet.x0):9.3f} a day with the maker's settings")
    print(f"{best.mean:9.3f} a day with the best of {fleet.evaluations} site evaluations")
    print(fleet.compare(best.x))
