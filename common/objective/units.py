"""Scaled and bounded parameters: x is searched in units in which all parameters matter about equally.

    user's x = clip(scale * z, lower, upper)

The server's x, the directions, the radius, the step size and the moves are in z. Pictures, exports and results are in
the user's x. Two places know both: ``scaling``, which wraps an objective, and the server, which projects the mean of a
round onto the bounds and converts its exports.

**At a bound** both ends of a probe move inward together and keep their distance. So the two-point slope of a linear
function is exact at a bound, too. To clip each end would halve that slope. To reflect it would make it 0, and a
parameter could not leave its bound again. The local w is projected only for an evaluation, and the server projects once
a round. So a local step is w - eta c v, which a server can replay. Nor does each client's own projection bias the mean
(Yuan, Zaheer, Reddi 2021, "Federated Composite Optimization": average the dual state, project after).
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from zofedht.common.errors import ObjectiveError
from zofedht.common.objective.base import checked_vector
from zofedht.common.space.space import Space
from zofedht.common.typing import Matrix, Vector

__all__ = ["Units", "checked_bounds", "given_start", "one_each", "place_of"]

# The ends' distance from the bounds, relative to their size: rounding does not carry an end over a bound.
_MARGIN = 16.0 * np.finfo(np.float64).eps


@dataclass(frozen=True)
class Units:
    """Scale and bounds of all parameters.

    Attributes
    ----------
    scale : (n,)
        Positive and finite.
    lower, upper : (n,)
        In the user's units; infinite where there is no bound.

    Raises
    ------
    ObjectiveError
        When the three differ in shape, or break these rules.

    Examples
    --------
    >>> units = Units(np.array([1.0, 10.0]), np.array([0.0, -np.inf]), np.array([1.0, np.inf]))
    >>> units.to_user(np.array([2.0, 3.0])).tolist()
    [1.0, 30.0]
    """

    scale: Vector
    lower: Vector
    upper: Vector

    def __post_init__(self) -> None:
        if not self.scale.shape == self.lower.shape == self.upper.shape or self.scale.ndim != 1:
            shapes = ", ".join(str(part.shape) for part in (self.scale, self.lower, self.upper))
            raise ObjectiveError(f"scale and bounds must be vectors of one size, got shapes {shapes}")
        for index in np.flatnonzero(~(np.isfinite(self.scale) & (self.scale > 0.0))):
            raise ObjectiveError(f"scale must be positive and finite, got {self.scale[index]} for parameter {index}")
        # NaN breaks the rule, too.
        for index in np.flatnonzero(~((self.lower <= self.upper) & (self.lower < np.inf) & (self.upper > -np.inf))):
            raise ObjectiveError(
                f"bounds must be (lower, upper) with lower <= upper, got ({self.lower[index]}, {self.upper[index]}) for"
                f" parameter {index} (None where there is no bound)"
            )

    def to_user(self, z: Vector | Matrix) -> Any:
        """Return the user's x, (n,) or one a row, within the bounds."""
        return np.clip(self.scale * z, self.lower, self.upper)

    def to_search(self, x: Vector) -> Vector:
        """Return z of the user's x."""
        return x / self.scale

    def project(self, z: Vector) -> Vector:
        """Return the nearest point to z within the bounds."""
        return np.clip(z, self.lower / self.scale, self.upper / self.scale)

    @property
    def bounded(self) -> bool:
        """Whether any parameter has a bound."""
        return bool(np.any(np.isfinite(self.lower) | np.isfinite(self.upper)))

    def at_bounds(self, z: Vector) -> tuple[int, int]:
        """Return how many parameters of a projected z are at a bound and how many can move, both without fixed ones."""
        free = self.lower < self.upper
        at_bound = (z <= self.lower / self.scale) | (z >= self.upper / self.scale)
        return int(np.sum(at_bound & free)), int(np.sum(free))

    def ends(self, z: Vector, v: Vector | Matrix, upper: float, lower: float) -> tuple[Vector, Any]:
        """Return (w, u) in the user's units such that w + upper u and w + lower u are within the bounds.

        The direction u is scale * v, one or one a row, but shorter in a parameter whose bounds are closer than the
        ends. The point w is the nearest such point to z, for all of u.
        """
        w, u = self.scale * z, self.scale * v
        reach = max(abs(upper), abs(lower), upper - lower)
        width = self.upper - self.lower
        size = np.minimum(reach * np.max(np.abs(np.atleast_2d(u)), axis=0), width)
        inner_low, inner_high = (
            bound + inward * np.maximum(np.where(np.isfinite(bound), np.abs(bound), 0.0), size)
            for bound, inward in ((self.lower, _MARGIN), (self.upper, -_MARGIN))
        )
        # Of several u, some may go up from w and others down: each then has half of the box.
        longest = np.maximum(inner_high - inner_low, 0.0) / (upper - lower) / (1.0 if v.ndim == 1 else 2.0)
        u = np.clip(u, -longest, longest)
        low, high = np.minimum(upper * u, lower * u), np.maximum(upper * u, lower * u)
        if v.ndim == 2:
            low, high = low.min(axis=0), high.max(axis=0)
        w = np.clip(w, inner_low - low, inner_high - high)
        return np.clip(w, self.lower, self.upper), u

    @property
    def as_bytes(self) -> bytes:
        """Scale, lower and upper bounds, one after another as little-endian float64."""
        parts = (self.scale, self.lower, self.upper)
        return b"".join(np.ascontiguousarray(part, dtype="<f8").tobytes() for part in parts)

    @functools.cached_property
    def digest(self) -> str:
        """The sha256 of the units as bytes, as hexadecimal digits."""
        return hashlib.sha256(self.as_bytes).hexdigest()


def given_start(x0: Any, dimension: int, units: Units | None, space: Space | None = None) -> Vector:
    """Return the z, (n,) float64, of a starting point in the user's units, or of settings in a ``space``.

    Raises ObjectiveError unless x0 is a vector of n finite numbers within the bounds, or settings by name.
    """
    if isinstance(x0, Mapping):
        if space is None:
            raise ObjectiveError("x0 must be a vector: the objective has no named parameters, so no settings by name")
        x0 = space.coordinates(x0, space.middle)
    start = checked_vector("x0", x0, dimension)
    if units is None:
        return start
    for index in np.flatnonzero((start < units.lower) | (start > units.upper)):
        which = place_of(int(index), None if space is None else space.labels)
        raise ObjectiveError(f"x0 must lie within the bounds, got {start[index]} for {which}")
    return units.to_search(start)


def place_of(index: int, names: Sequence[str] | None) -> str:
    """Return a parameter's name, or its number where parameters have no names."""
    return f"parameter {names[index]!r}" if names else f"parameter {index}"


def checked_bounds(bounds: Any, dimension: int) -> tuple[Vector, Vector]:
    """Return the lower and the upper bound of each parameter. Raises ObjectiveError for anything but bounds."""
    if bounds is None:
        return np.full(dimension, -np.inf), np.full(dimension, np.inf)
    if hasattr(bounds, "lb") and hasattr(bounds, "ub"):  # scipy.optimize.Bounds
        lower, upper = (end[0] if end.size == 1 else end for end in map(np.ravel, (bounds.lb, bounds.ub)))
        return one_each("bounds", lower, dimension), one_each("bounds", upper, dimension)
    if isinstance(bounds, str | Mapping) or not isinstance(bounds, Iterable):
        raise ObjectiveError(f"bounds must be pairs (lower, upper) or scipy.optimize.Bounds, got {bounds!r}")
    pairs = list(bounds)
    if len(pairs) == 2 and not any(isinstance(part, Sequence | np.ndarray) for part in pairs):
        pairs = [pairs] * dimension
    if len(pairs) != dimension or any(
        not isinstance(pair, Sequence | np.ndarray) or isinstance(pair, str) or len(pair) != 2 for pair in pairs
    ):
        raise ObjectiveError(
            f"bounds must be one pair (lower, upper) for all parameters or {dimension} pairs, one for each, got"
            f" {len(pairs)} entries"
        )
    lower = [-np.inf if low is None else low for low, _ in pairs]
    upper = [np.inf if high is None else high for _, high in pairs]
    return one_each("bounds", lower, dimension), one_each("bounds", upper, dimension)


def one_each(name: str, value: Any, dimension: int) -> Vector:
    """Return one number for each parameter; a single number is for all of them."""
    alone = not isinstance(value, Sequence) and np.ndim(value) == 0
    return checked_vector(name, [value] * dimension if alone else value, dimension, finite=False)
