"""maximize: the negative of an objective, which is minimised. The only place where the sign is turned on the way in."""

from __future__ import annotations

from typing import Any

import numpy as np

from zofedht.common.objective.base import Objective, checked_loss
from zofedht.common.typing import Indices, Matrix, Vector

__all__ = ["negated"]


def negated(objective: Objective) -> Objective:
    """Return -F, with all that the objective declares."""
    together = type(objective).values is not Objective.values
    return (_TogetherNegated if together else _Negated)(objective)


class _Negated(Objective):
    def __init__(self, inner: Objective) -> None:
        self.inner = inner
        self.bounds, self.scale, self.names = inner.bounds, inner.scale, inner.names
        self.parameters, self.concurrency = inner.parameters, inner.concurrency
        if hasattr(inner, "dim"):
            self.dim = inner.dim

    def __len__(self) -> int:
        return len(self.inner)

    def value(self, x: Vector, batch: Indices | slice) -> float:
        return -checked_loss(self.inner.value(x, batch))

    def pair(self, w: Vector, v: Vector, radius: float, batch: Indices | slice) -> tuple[float, float]:
        high, low = self.inner.pair(w, v, radius, batch)
        return -checked_loss(high), -checked_loss(low)

    def differences(self, w: Vector, v: Vector, upper: float, lower: float, batch: Indices | slice) -> Vector | None:
        found = self.inner.differences(w, v, upper, lower, batch)
        return None if found is None else -found

    def initial(self, rng: np.random.Generator) -> Any:
        return self.inner.initial(rng)

    def prepare(self, x: Vector) -> None:
        self.inner.prepare(x)

    def stiff(self, x: Vector) -> Matrix | None:
        return self.inner.stiff(x)

    def evaluate(self, x: Vector) -> dict[str, float]:
        found = dict(self.inner.evaluate(x))
        return found | ({"loss": -found["loss"]} if "loss" in found else {})


class _TogetherNegated(_Negated):
    def values(self, ws: Matrix, batch: Indices | slice) -> Vector:
        return -self.inner.values(ws, batch)
