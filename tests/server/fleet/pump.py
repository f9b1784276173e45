"""What the sites of the tests evaluate; clients import it by name."""

from __future__ import annotations

import math
import os
import signal
import time
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from zofedht import Choice, Integer, Objective, Real, Shard

__all__ = ["ByName", "Crashing", "Hanging", "Misnamed", "Paced", "Pump", "Quitting", "Shut", "Wide"]


class Pump(Objective):
    """A quadratic around an optimum of the site's own; n = 2."""

    dim = 2
    names = ("valve", "pause")
    bounds = ((0.0, 1.0), (1.0, 100.0))
    scale = (0.3, 30.0)

    def __init__(self, shard: Shard) -> None:
        self.folder, self.client = Path(shard.data or "."), shard.client
        self.site = int(shard.client[1:])
        self.optimum = np.array([0.3 + 0.1 * self.site, 40.0 + 5.0 * self.site])

    def initial(self, rng: np.random.Generator) -> list[float]:
        return [0.7, 3.3]

    def value(self, x: np.ndarray, batch: object) -> float:
        return self.site + float(np.sum(np.square((x - self.optimum) / np.array(self.scale))))


class Wide(Pump):
    """Has a parameter more than the others."""

    dim = 3
    names = ("valve", "pause", "teeth")
    bounds = (*Pump.bounds, (0.0, 1.0))
    scale = (*Pump.scale, 1.0)

    def initial(self, rng: np.random.Generator) -> list[float]:
        return [0.7, 3.3, 0.5]


class Paced(Pump):
    """Takes a while, so that a test can meddle."""

    def value(self, x: np.ndarray, batch: object) -> float:
        time.sleep(0.02)
        return super().value(x, batch)


class Hanging(Pump):
    """Never answers once the valve is fully open; a file says that it has begun."""

    def value(self, x: np.ndarray, batch: object) -> float:
        if x[0] == 1.0:
            (self.folder / "hangs").touch()
            time.sleep(600.0)
        return super().value(x, batch)


class Shut(Pump):
    """Raises at site 1 where the valve is nearly open, and gives NaN where it is nearly shut."""

    def value(self, x: np.ndarray, batch: object) -> float:
        if self.site == 1 and x[0] > 0.9:
            raise RuntimeError("a secret of the plant")
        return float("nan") if self.site == 1 and x[0] < 0.1 else super().value(x, batch)


class ByName(Pump):
    """Gets its parameters by name."""

    names = bounds = scale = None  # type: ignore[assignment]
    parameters: ClassVar[Any] = {
        "valve": Real(0, 1), "pause": Real(1, 100, log=True), "teeth": Integer(8, 40), "mode": Choice("a", "b"),
    }  # fmt: skip

    def initial(self, rng: np.random.Generator) -> Any:
        return {"valve": 0.7, "pause": 3.3}

    def value(self, x: Any, batch: object) -> float:
        at, pause = self.optimum
        return (x["valve"] - at) ** 2 + math.log(x["pause"] / pause) ** 2 + abs(x["teeth"] - 30) + (x["mode"] == "a")


class Quitting(Pump):
    """A wrapped script that ends the program of site 1 where the valve is nearly open."""

    def value(self, x: np.ndarray, batch: object) -> float:
        if self.site == 1 and x[0] > 0.9:
            raise SystemExit(3)
        return super().value(x, batch)


class Misnamed(Pump):
    """Site 2 has another name for the second parameter."""

    def __init__(self, shard: Shard) -> None:
        super().__init__(shard)
        if self.site == 2:
            self.names = ("valve", "paws")


class Crashing(Pump):
    """The process of site 1 ends, without a word, when the valve is fully open, once: then a file says so."""

    def value(self, x: np.ndarray, batch: object) -> float:
        mark = self.folder / "crashed"
        if self.site == 1 and x[0] == 1.0 and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().value(x, batch)
