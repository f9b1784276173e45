"""A surrogate of F from its values at some points: a Gaussian process, and its random features. Pure.

With r = |z - z'| and a = sqrt(5) r / l, the kernel is k = (1 + a + a^2/3) exp(-a), Matern's of smoothness 5/2. Values y
are scaled to [0, 1], and their noise has the variance s^2 = 1e-6. K is the kernel of the points P, one in a row.

mean         grad mu(z) = grad k(z, P) (K + s^2 I)^-1 y.
uncertainty  trace of grad grad' k - grad k(z, P) (K + s^2 I)^-1 grad k(P, z).
scale        l is doubled or halved for as long as that makes the values likelier.

Surrogates are told by weights u of features that all clients share: mu(z) = p(z).u. The features p(z) are the cosines
and sines of w.z. The frequencies w are those of the kernel's spectrum, Student's t of 5 degrees of freedom over l. The
weights are u = p(P)' (p(P) p(P)' + s^2 I)^-1 y.

Sources: Shu et al. 2023 (FZooS); Rasmussen and Williams 2006, eq. 2.25, 2.30 and 4.17; Rahimi and Recht 2007.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np

from zofedht.common.random.streams import stream
from zofedht.common.typing import Matrix, Vector

__all__ = ["FEATURES", "FIRST_SCALE", "Surrogate", "feature_gradient", "feature_weights", "fitted"]

FEATURES = 10_000
"""Numbers that tell a surrogate, half of them of cosines: the source's."""

_NOISE = 1e-6
_MOST_CLIMBS = 20
FIRST_SCALE = 100.0
"""l of the features, and of a first fit, in units of the radius: 1 at the source's radius of .01."""


@dataclass(frozen=True)
class Surrogate:
    """A Gaussian process that knows some values of F."""

    points: Matrix  # (m, n), less ``origin``
    origin: Vector  # (n,), near the points: squares of far ones would lose the distances
    scale: float  # l
    inverse: Matrix  # of K + s^2 I
    weights: Vector  # this times y in the units of F

    def gradient(self, z: Vector) -> Vector:
        """Return grad mu(z), (n,)."""
        z = z - self.origin
        slopes = self.weights * self._slopes(z[None])[0]
        return np.asarray(slopes.sum() * z - slopes @ self.points)

    def uncertainty(self, zs: Matrix) -> Vector:
        """Return how uncertain the gradient is at each row, (rows,), for values of the range 1."""
        zs = zs - self.origin
        inner = self.points @ self.points.T
        slopes = self._slopes(zs)  # with B = slopes slopes' inverse: the sum of B_ij (z - p_i).(z - p_j)
        sides = slopes * (slopes @ self.inverse)
        known = np.einsum("ij,ij->i", zs, zs) * sides.sum(axis=1)
        known += np.einsum("ij,ij->i", slopes @ (self.inverse * inner), slopes)
        known -= 2.0 * np.einsum("ij,ij->i", zs @ self.points.T, sides)
        return np.asarray(5.0 * zs.shape[1] / (3.0 * self.scale**2) - known)

    def _slopes(self, zs: Matrix) -> Matrix:
        """Return what grad k(z, p) is of z - p, (rows, m)."""
        a = math.sqrt(5.0) * _distances(zs, self.points) / self.scale
        return np.asarray(-5.0 / (3.0 * self.scale**2) * (1.0 + a) * np.exp(-a))


def fitted(points: Matrix, values: Vector, scale: float, *, climbs: bool = True) -> Surrogate:
    """Return the surrogate of the values at points, (m, n).

    From ``scale`` on l is doubled or halved for as long as that makes the values likelier, unless it is to stay. Values
    that are all equal tell a gradient of 0.
    """
    centred = points - points[-1]
    distances, (scaled, span) = _distances(centred, centred), _scaled(values)

    def tried(scale: float) -> tuple[float, float, Matrix]:
        covariance = _kernel(distances / scale) + _NOISE * np.eye(len(points))
        lower = np.linalg.cholesky(covariance)
        residual = float(scaled @ np.linalg.solve(covariance, scaled))
        return -0.5 * residual - float(np.log(np.diag(lower)).sum()), scale, covariance

    best = tried(scale)
    for factor in (2.0, 0.5) if climbs else ():
        for _ in range(_MOST_CLIMBS):
            other = tried(best[1] * factor)
            if not other[0] > best[0] + 1e-6:
                break
            best = other
    inverse = np.asarray(np.linalg.inv(best[2]), dtype=np.float64)
    return Surrogate(centred, points[-1], best[1], inverse, span * (inverse @ scaled))


def feature_weights(points: Matrix, values: Vector, radius: float, seed: int) -> Vector:
    """Return u in the units of F, (FEATURES,)."""
    scaled, span = _scaled(values)
    features = _features(points, _frequencies(seed, points.shape[1], radius))
    inner = features @ features.T + _NOISE * np.eye(len(points))
    return np.asarray(span * (features.T @ np.linalg.solve(inner, scaled)))


def feature_gradient(weights: Vector, z: Vector, radius: float, seed: int) -> Vector:
    """Return the gradient of p(z).u at z, (n,)."""
    frequencies = _frequencies(seed, len(z), radius)
    cosines, sines = np.split(_features(z[None], frequencies)[0], 2)
    of_cosines, of_sines = np.split(weights, 2)
    return np.asarray((of_sines * cosines - of_cosines * sines) @ frequencies)


@functools.lru_cache(maxsize=1)
def _frequencies(seed: int, dimension: int, radius: float) -> Matrix:
    rng = stream(seed, "features")
    heavy = np.sqrt(rng.chisquare(5.0, FEATURES // 2) / 5.0)
    return np.asarray(rng.standard_normal((FEATURES // 2, dimension)) / (FIRST_SCALE * radius * heavy[:, None]))


def _features(points: Matrix, frequencies: Matrix) -> Matrix:
    angles = points @ frequencies.T
    return np.asarray(math.sqrt(2.0 / FEATURES) * np.hstack([np.cos(angles), np.sin(angles)]))


def _scaled(values: Vector) -> tuple[Vector, float]:
    """Return the values in [0, 1], and how far apart they are."""
    span = float(np.max(values) - np.min(values))
    return (values - np.min(values)) / span if span > 0.0 else np.zeros_like(values), span


def _distances(left: Matrix, right: Matrix) -> Matrix:
    squares = np.einsum("ij,ij->i", left, left)[:, None] + np.einsum("ij,ij->i", right, right)
    return np.asarray(np.sqrt(np.maximum(squares - 2.0 * left @ right.T, 0.0)))


def _kernel(ratios: Matrix) -> Matrix:
    a = math.sqrt(5.0) * ratios
    return np.asarray((1.0 + a + a * a / 3.0) * np.exp(-a))
