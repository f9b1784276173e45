"""Lemmas 1 to 3 by Monte Carlo, with standard errors, on a function whose smoothing is known.

f(x) = sum_j cos(x_j) has L = 1. For v ~ N(0, C) its smoothing is f_mu(x) = sum_j cos(x_j) exp(-mu^2 C_jj/2), exact for
any C. At mu = 1/2 the smoothing is already far from f.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from zofedht.common.directions.law import DirectionLaw, subspace_gain
from zofedht.common.random.source import Source
from zofedht.common.typing import Vector
from zofedht.experiments.theory.bounds import Spectrum

__all__ = ["LemmaCheck", "check_lemmas"]

_BLOCK = 20_000


@dataclass(frozen=True)
class LemmaCheck:
    """What was measured for one law of v."""

    law: str
    draws: int
    mean_error: float  # |mean g - C grad f_mu|
    mean_error_se: float  # what chance alone would give, root of the summed squared standard errors
    largest_z: float  # over components
    plain_z: float  # the same against grad f_mu without C: large, unless C = I
    bias: float  # |grad f_mu - grad f|, exact
    bias_bound: float
    second_moment: float  # mean |g|^2
    second_moment_se: float
    second_moment_bound: float


def check_lemmas(
    dimension: int = 12,
    rank: int = 3,
    weight: float = 0.4,
    covariance: str = "paper",
    *,
    radius: float = 0.5,
    draws: int = 400_000,
    seed: int = 0,
) -> LemmaCheck:
    """Draw ``draws`` directions of the product's own law and compare. weight 0 is the isotropic law."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-math.pi, math.pi, dimension)
    basis = np.linalg.qr(rng.standard_normal((dimension, rank)))[0]
    s = subspace_gain(covariance, dimension, rank) if weight else 1.0
    law = DirectionLaw(dimension, basis, weight, s)
    c = (1.0 - weight) * np.eye(dimension) + weight * s * basis @ basis.T
    eigenvalues = np.linalg.eigvalsh(c)
    spectrum = Spectrum(float(eigenvalues[0]), float(eigenvalues[-1]), float(np.trace(c)))
    smoothed = -np.sin(x) * np.exp(-0.5 * radius**2 * np.diag(c))
    gradient = -np.sin(x)

    source = Source(rng, "numpy")
    total, squares, norms, norms_squared = np.zeros(dimension), np.zeros(dimension), 0.0, 0.0
    for start in range(0, draws, _BLOCK):
        v = law.block(source, source, min(_BLOCK, draws - start))
        slopes = np.sum(np.cos(x + radius * v) - np.cos(x - radius * v), axis=1) / (2.0 * radius)
        g = slopes[:, None] * v
        size = np.sum(np.square(g), axis=1)
        total, squares = total + g.sum(axis=0), squares + np.square(g).sum(axis=0)
        norms, norms_squared = norms + float(size.sum()), norms_squared + float(np.square(size).sum())
    mean: Vector = total / draws
    errors = np.sqrt((squares / draws - np.square(mean)) / draws)
    second = norms / draws
    return LemmaCheck(
        law="isotropic" if weight == 0.0 else f"{covariance}, alpha {weight:g}",
        draws=draws,
        mean_error=float(np.linalg.norm(mean - c @ smoothed)),
        mean_error_se=float(np.linalg.norm(errors)),
        largest_z=float(np.max(np.abs(mean - c @ smoothed) / errors)),
        plain_z=float(np.max(np.abs(mean - smoothed) / errors)),
        bias=float(np.linalg.norm(smoothed - gradient)),
        bias_bound=spectrum.bias(1.0, radius),
        second_moment=second,
        second_moment_se=math.sqrt((norms_squared / draws - second**2) / draws),
        second_moment_bound=spectrum.factor * float(gradient @ gradient) + spectrum.offset(1.0, radius),
    )
